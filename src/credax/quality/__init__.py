"""How good is a posterior: its weights against a reference, its symmetry, its diversity.

Names are loaded when first used.
"""

from typing import TYPE_CHECKING

from credax.lazy import lazy_package

if TYPE_CHECKING:
    from credax.quality.blocks import ArrayBlocks as ArrayBlocks
    from credax.quality.blocks import Blocks as Blocks
    from credax.quality.blocks import as_blocks as as_blocks
    from credax.quality.chains import Mixing as Mixing
    from credax.quality.chains import mixing as mixing
    from credax.quality.distances import Distances as Distances
    from credax.quality.distances import distances_by_array as distances_by_array
    from credax.quality.diversity import pairwise_disagreement as pairwise_disagreement
    from credax.quality.diversity import pairwise_divergence as pairwise_divergence
    from credax.quality.diversity import pairwise_mutual_information as pairwise_mutual_information
    from credax.quality.diversity import prediction_chunks as prediction_chunks
    from credax.quality.exchangeability import Exchangeability as Exchangeability
    from credax.quality.exchangeability import IndexTest as IndexTest
    from credax.quality.exchangeability import RowTest as RowTest
    from credax.quality.exchangeability import compare_units as compare_units
    from credax.quality.exchangeability import effective_draws as effective_draws
    from credax.quality.exchangeability import holm as holm
    from credax.quality.exchangeability import index_test as index_test
    from credax.quality.exchangeability import row_test as row_test
    from credax.quality.exchangeability import unit_rows as unit_rows
    from credax.quality.function_map import FunctionMap as FunctionMap
    from credax.quality.function_map import PredictionRecorder as PredictionRecorder
    from credax.quality.function_map import picture as picture
    from credax.quality.kendall import KendallTracker as KendallTracker
    from credax.quality.kendall import kendall_tau as kendall_tau
    from credax.quality.kendall import unit_ranks as unit_ranks
    from credax.quality.kernels import KERNELS as KERNELS
    from credax.quality.kernels import bandwidth_grid as bandwidth_grid
    from credax.quality.mmd import Discrepancy as Discrepancy
    from credax.quality.mmd import maximum_mean_discrepancy as maximum_mean_discrepancy
    from credax.quality.mmd import statistic as statistic
    from credax.quality.pairs import Association as Association
    from credax.quality.pairs import PairMatrix as PairMatrix
    from credax.quality.pairs import association as association
    from credax.quality.pairs import pairwise_kernel_alignment as pairwise_kernel_alignment
    from credax.quality.pairs import pairwise_weight_cosine as pairwise_weight_cosine
    from credax.quality.pairs import pairwise_weight_distance as pairwise_weight_distance
    from credax.quality.reference import against_reference as against_reference
    from credax.quality.reference import (
        discrepancy_without_symmetries as discrepancy_without_symmetries,
    )
    from credax.quality.resampling import Bootstrap as Bootstrap
    from credax.quality.resampling import EqualSizes as EqualSizes
    from credax.quality.stationary import stationary_covariance as stationary_covariance

__getattr__, __dir__, __all__ = lazy_package(__name__, __file__)  # pyright: ignore[reportUnsupportedDunderAll]
