"""Conformal prediction sets of classes: threshold, adaptive and regularised adaptive scores."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Int

from credax.calibration.fitted_sets import ConformalSets, fit_sets
from credax.calibration.rank import as_alpha
from credax.errors import InputError
from credax.prediction import ClassPrediction


class Threshold(eqx.Module):
    """Score ``1 - p_k`` (THR, also LAC): the smallest sets on average, and the least adaptive.

    The set holds every class with ``1 - p_k <= q``; it may be empty where the prediction is unsure
    of everything, unless ``nonempty`` adds the most probable class.
    Reference: M. Sadinle, J. Lei and L. Wasserman, JASA 114, 2019.
    """

    alpha: float = eqx.field(default=0.1, converter=as_alpha)
    nonempty: bool = False
    randomised = False

    def scores(
        self, probs: Float[np.ndarray, "rows classes"], uniform: Any = None
    ) -> Float[np.ndarray, "rows classes"]:
        """The score of every class; smaller conforms more."""
        del uniform
        return 1 - probs

    def fit(
        self, prediction: ClassPrediction, y: Any, *, key: Any = None, groups: Any = None
    ) -> ConformalSets:
        """The quantile of labels ``y`` ``[batch]``; see `conformalize`."""
        return fit_sets(self, prediction, y, key, groups)


class APS(eqx.Module):
    """Adaptive sets: score = probability of the classes down to ``k``, most probable first.

    ``s_k = Σ_{j: rank_j <= rank_k} p_j - U p_k``, one ``U ~ U(0, 1)`` a row, drawn from the key at
    calibration and again at prediction; ``randomised=False`` takes ``U = 0``: larger sets, coverage
    above the level. Ties in probability rank by class index.
    Reference: Y. Romano, M. Sesia and E. Candès, NeurIPS 2020.

    >>> APS().scores(np.array([[0.5, 0.3, 0.2]]), np.array([0.5])).round(6).tolist()
    [[0.25, 0.65, 0.9]]
    """

    alpha: float = eqx.field(default=0.1, converter=as_alpha)
    randomised: bool = True
    nonempty: bool = False

    def scores(
        self, probs: Float[np.ndarray, "rows classes"], uniform: Any = None
    ) -> Float[np.ndarray, "rows classes"]:
        """The score of every class for one ``uniform`` a row (None is zero)."""
        return _adaptive(probs, uniform)[0]

    def fit(
        self, prediction: ClassPrediction, y: Any, *, key: Any = None, groups: Any = None
    ) -> ConformalSets:
        """The quantile of labels ``y`` ``[batch]``; see `conformalize`."""
        return fit_sets(self, prediction, y, key, groups)


class RAPS(eqx.Module):
    """APS plus ``penalty · max(0, rank - free)``: many classes far down the list cost extra.

    Ranks count from 1. The penalty makes the sets of problems with many classes smaller and more
    even. Reference: A. Angelopoulos et al., ICLR 2021.

    >>> RAPS().scores(np.array([[0.5, 0.3, 0.2]]), np.array([0.5])).round(6).tolist()
    [[0.25, 0.75, 1.1]]
    """

    alpha: float = eqx.field(default=0.1, converter=as_alpha)
    penalty: float = 0.1
    free: int = 1
    randomised: bool = True
    nonempty: bool = False

    def __check_init__(self):
        if not 0 <= self.penalty < np.inf or self.free < 0:
            raise InputError(
                f"penalty is {self.penalty} and free is {self.free}; give numbers from 0"
            )

    def scores(
        self, probs: Float[np.ndarray, "rows classes"], uniform: Any = None
    ) -> Float[np.ndarray, "rows classes"]:
        """The score of every class for one ``uniform`` a row (None is zero)."""
        score, rank = _adaptive(probs, uniform)
        return score + self.penalty * np.maximum(0, rank - self.free)

    def fit(
        self, prediction: ClassPrediction, y: Any, *, key: Any = None, groups: Any = None
    ) -> ConformalSets:
        """The quantile of labels ``y`` ``[batch]``; see `conformalize`."""
        return fit_sets(self, prediction, y, key, groups)


def class_ranks(probs: Float[np.ndarray, "rows classes"]) -> Int[np.ndarray, "rows classes"]:
    """Place of every class by falling probability, from 1; ties by class index."""
    return _adaptive(probs, None)[1]


def _adaptive(probs, uniform):
    order = np.argsort(-probs, axis=-1, kind="stable")
    ordered = np.take_along_axis(probs, order, axis=-1)
    # One minus the mass below, not the mass above: the least probable class then scores exactly
    # one, and equal scores stay equal.
    below = np.cumsum(ordered[:, :0:-1], axis=-1)[:, ::-1]
    score = 1 - np.pad(below, ((0, 0), (0, 1)))
    if uniform is not None:
        score = score - uniform[:, None] * ordered
    rank = np.argsort(order, axis=-1)
    return np.take_along_axis(score, rank, axis=-1), rank + 1
