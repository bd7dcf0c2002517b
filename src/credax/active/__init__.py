"""Active learning: which rows to label next, so that a budget of labels teaches the most.

Acquisitions score the rows of a pool by a `Prediction`, larger is queried first; batch choices take
several rows at once that do not repeat one another. Names are loaded when first used.
"""

from typing import TYPE_CHECKING

from credax.active.registry import describe as describe
from credax.active.registry import get as get
from credax.active.registry import names as names
from credax.lazy import lazy_package

if TYPE_CHECKING:
    from credax.active.acquisition import bald as bald
    from credax.active.acquisition import entropy as entropy
    from credax.active.acquisition import epig as epig
    from credax.active.acquisition import margin as margin
    from credax.active.acquisition import mean_std as mean_std
    from credax.active.acquisition import predictive_variance as predictive_variance
    from credax.active.acquisition import variation_ratio as variation_ratio
    from credax.active.acquisition import variation_ratio_soft as variation_ratio_soft
    from credax.active.acquisition import vote_entropy as vote_entropy
    from credax.active.badge import BADGE as BADGE
    from credax.active.batch_bald import BatchBALD as BatchBALD
    from credax.active.batch_bald import joint_information as joint_information
    from credax.active.candidates import Candidates as Candidates
    from credax.active.choice import Acquisition as Acquisition
    from credax.active.choice import Choice as Choice
    from credax.active.choice import Scored as Scored
    from credax.active.core_set import CoreSet as CoreSet
    from credax.active.fine_tuning import Continue as Continue
    from credax.active.greedy_variation import VariationRatioGreedy as VariationRatioGreedy
    from credax.active.history import History as History
    from credax.active.loop import run as run
    from credax.active.oracle import DatasetLabels as DatasetLabels
    from credax.active.scored import BALD as BALD
    from credax.active.scored import EPIG as EPIG
    from credax.active.scored import Entropy as Entropy
    from credax.active.scored import Margin as Margin
    from credax.active.scored import MeanStd as MeanStd
    from credax.active.scored import PredictiveVariance as PredictiveVariance
    from credax.active.scored import Random as Random
    from credax.active.scored import VariationRatio as VariationRatio
    from credax.active.scored import VariationRatioSoft as VariationRatioSoft
    from credax.active.scored import VoteEntropy as VoteEntropy
    from credax.active.snapshot_presets import SnapshotPreset as SnapshotPreset
    from credax.active.snapshot_presets import preset as preset
    from credax.active.stochastic import PowerBALD as PowerBALD

__getattr__, __dir__, _lazy = lazy_package(__name__, __file__)
__all__ = [*_lazy, "describe", "get", "names"]  # pyright: ignore[reportUnsupportedDunderAll]
