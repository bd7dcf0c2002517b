"""Conformal prediction intervals: residual, normalised residual and conformalised quantiles."""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Int

from credax.calibration.conformal_quantiles import as_alpha, exact, group_quantiles, rows_of_groups
from credax.calibration.inputs import as_columns, check_unlabelled, require_numbers
from credax.calibration.quantile_recalibration import RecalibratedPrediction
from credax.errors import InputError
from credax.metrics.checks import check
from credax.prediction import GaussianPrediction

Regression = GaussianPrediction | RecalibratedPrediction


class Intervals(NamedTuple):
    """Ends of intervals, each ``[batch]`` or ``[batch, targets]``; unpacks as ``low, high``."""

    low: Float[np.ndarray, "batch *targets"]
    high: Float[np.ndarray, "batch *targets"]

    @property
    def empty(self) -> Bool[np.ndarray, "batch *targets"]:
        """Where the ends cross, so that no value is inside."""
        return self.low > self.high

    @property
    def width(self) -> Float[np.ndarray, "batch *targets"]:
        """Length of each interval; zero where empty."""
        return np.maximum(self.high - self.low, 0.0)

    def contains(self, y: Any) -> Bool[np.ndarray, "batch *targets"]:
        """Whether each target is inside its interval, ends included."""
        y = np.asarray(y, np.float64).reshape(self.low.shape)
        return (self.low <= y) & (y <= self.high)


class IntervalScore(eqx.Module):
    """A band around a prediction: its ends, and the unit in which it is widened."""

    alpha: float = eqx.field(default=0.1, converter=as_alpha)

    @abstractmethod
    def band(self, prediction: Regression) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Low end, high end and unit, ``[batch, targets]`` each."""

    def fit(self, prediction: Regression, y: Any, *, key: Any = None, groups: Any = None):
        """The quantile for targets ``y``; ``key`` is not needed; see `conformalise`."""
        del key
        return fit_intervals(self, prediction, y, groups)


class Residual(IntervalScore):
    """Score ``|y - μ|``: the interval ``μ ± q``, equally wide everywhere.

    Reference: J. Lei et al., JASA 113, 2018.
    """

    def band(self, prediction: Regression) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The mean twice, and one."""
        mean = _columns(prediction.mean, prediction)
        return mean, mean, np.ones_like(mean)


class Normalised(IntervalScore):
    """Score ``|y - μ| / σ(x)``: the interval ``μ ± q σ(x)``, wide where it is uncertain.

    ``floor`` is the least ``σ`` that is divided by, in the unit of ``y``, so that a row the
    prediction is certain of cannot have an infinite score.
    """

    floor: float = 1e-6

    def __check_init__(self):
        if not 0 < self.floor < np.inf:
            raise InputError(f"floor is {self.floor}; give a positive standard deviation")

    def band(self, prediction: Regression) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The mean twice, and the floored standard deviation."""
        mean = _columns(prediction.mean, prediction)
        return mean, mean, np.maximum(_columns(prediction.std, prediction), self.floor)


class CQR(IntervalScore):
    """Score ``max(q_low - y, y - q_high)``: the predicted quantiles, both moved out by ``q``.

    The quantiles are those of the mixture at ``alpha/2`` and ``1 - alpha/2``. A negative ``q``
    moves them in; where they then cross, the interval is empty (`Intervals.empty`).
    Reference: Y. Romano, E. Patterson and E. Candès, NeurIPS 2019.
    """

    def band(self, prediction: Regression) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The two quantiles, and one."""
        half = float(exact(self.alpha) / 2)
        low, high = (_columns(prediction.quantile(q), prediction) for q in (half, 1 - half))
        return low, high, np.ones_like(low)


def interval_scores(
    low: np.ndarray, high: np.ndarray, unit: np.ndarray, y: np.ndarray
) -> Float[np.ndarray, "..."]:
    """``max(low - y, y - high) / unit``: how far outside the band a target lies, negative inside.

    >>> one = np.ones(4)
    >>> y = np.array([0.5, 1.2, -0.1, 2.0])
    >>> interval_scores(0 * one, one, one, y).round(6).tolist()
    [-0.5, 0.2, 0.1, 1.0]
    """
    return np.maximum(low - y, y - high) / unit


class ConformalIntervals(eqx.Module):
    """Intervals that hold each target of a new row with probability at least ``1 - alpha``.

    Several targets have a quantile each: the guarantee is for each, not for all at once. See
    `ConformalSets` for what it means.
    """

    score: Any
    quantiles: Float[np.ndarray, "groups targets"]
    counts: Int[np.ndarray, " groups"]
    groups: Int[np.ndarray, " groups"]
    grouped: bool

    def predict_interval(self, prediction: Regression, *, groups: Any = None) -> Intervals:
        """The interval of each row (and target); ``groups`` if they were given at calibration."""
        mixture = _mixture(prediction)
        require_numbers(mixture, "the conformal calibrator", self.quantiles.shape[1])
        check_unlabelled(mixture)
        low, high, unit = self.score.band(prediction)
        wanted = rows_of_groups(groups, self.groups, len(low)) if self.grouped else 0
        reach = self.quantiles[wanted] * unit
        single = low.shape[1] == 1
        low, high = low - reach, high + reach
        return Intervals(low[:, 0], high[:, 0]) if single else Intervals(low, high)

    def __call__(self, prediction: Regression) -> Intervals:
        """The same as `predict_interval`."""
        return self.predict_interval(prediction)


def fit_intervals(
    score: IntervalScore, prediction: Regression, y: Any, groups: Any
) -> ConformalIntervals:
    """The conformal quantile of a score on targets ``y``, over all rows or per group."""
    mixture, y = _mixture(prediction), np.asarray(y)
    require_numbers(mixture, "a conformal interval")
    check(mixture, y)
    scores = interval_scores(*score.band(prediction), as_columns(y, mixture))
    quantiles, counts, names = group_quantiles(scores, score.alpha, groups)
    return ConformalIntervals(score, quantiles, counts, names, groups is not None)


def _mixture(prediction: Any) -> Any:
    return prediction.base if isinstance(prediction, RecalibratedPrediction) else prediction


def _columns(values: Any, prediction: Regression) -> Float[np.ndarray, "batch targets"]:
    return as_columns(values, _mixture(prediction))
