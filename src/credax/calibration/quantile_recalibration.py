"""Quantile recalibration: a monotone map of levels that makes quantiles mean what they say."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from credax.calibration.inputs import as_columns, require_numbers
from credax.calibration.isotonic import pool_adjacent_violators
from credax.calibration.mixture_law import mixture_cdf
from credax.calibration.recalibrated import RecalibratedPrediction
from credax.errors import InputError
from credax.metrics.checks import check
from credax.prediction import GaussianPrediction

# Beyond eight standard deviations double precision cannot tell two targets apart.
_LEVEL_MARGIN = 1e-15


class QuantileRecalibration(eqx.Module):
    """``F → R(F)`` with ``R`` the isotonic fit of how often targets fall below each level.

    With ``u_i = F_i(y_i)`` the levels of the calibration targets under the mixture, ``R`` goes
    through ``(u_(r), r/(n+1))``, (0, 0) and (1, 1) in straight lines. A new target then lies below
    the recalibrated quantile of level ``r/(n+1)`` with exactly that probability (exchangeable rows,
    no ties). ``knots`` limits the number of ranks ``r`` that are kept, equally spaced, because the
    density of the recalibrated law is as rough as its knots are many; None keeps every row. One map
    a target. Float64 on the host.
    Reference: V. Kuleshov, N. Fenner and S. Ermon, ICML 2018.
    """

    knots: int | None = 100

    def __check_init__(self):
        if self.knots is not None and self.knots < 1:
            raise InputError(f"knots is {self.knots}; give a whole number from 1, or None for all")

    def fit(self, prediction: GaussianPrediction, y: Any, *, key: Any = None) -> "LevelMaps":
        """The maps for targets ``y`` ``[batch]`` or ``[batch, targets]``; no ``key`` needed."""
        del key
        require_numbers(prediction, "'quantile-recalibration'")
        y = np.asarray(y)
        check(prediction, y)
        levels = mixture_cdf(prediction, as_columns(y, prediction))
        levels = np.clip(levels, _LEVEL_MARGIN, 1 - _LEVEL_MARGIN)
        before, after = zip(*[level_map(column, self.knots) for column in levels.T], strict=True)
        return LevelMaps(before, after)


class LevelMaps(eqx.Module):
    """For each target the corners of a rising map of levels, from (0, 0) to (1, 1)."""

    before: tuple[Float[np.ndarray, " corners"], ...]
    after: tuple[Float[np.ndarray, " corners"], ...]

    def __call__(self, prediction: GaussianPrediction) -> RecalibratedPrediction:
        """The prediction with the quantiles recalibrated."""
        require_numbers(prediction, "'quantile-recalibration'", len(self.before))
        return RecalibratedPrediction(prediction, self.before, self.after)


def level_map(
    levels: Float[np.ndarray, " rows"], knots: int | None = None
) -> tuple[Float[np.ndarray, " corners"], Float[np.ndarray, " corners"]]:
    """Corners of the map from stated to observed levels.

    >>> level_map(np.array([0.5, 0.1, 0.2]))[1].tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    rows = len(levels)
    points, count = np.unique(levels, return_counts=True)
    # Tied levels share the mean of their ranks; the fit is monotone already where there are none.
    rank = np.cumsum(count) - (count - 1) / 2
    observed = pool_adjacent_violators(rank / (rows + 1), count.astype(np.float64))
    keep = np.arange(len(points))
    if knots is not None and knots < len(points):
        keep = np.unique(np.round(np.linspace(0, len(points) - 1, knots)).astype(int))
    return (
        np.concatenate([[0.0], points[keep], [1.0]]),
        np.concatenate([[0.0], observed[keep], [1.0]]),
    )
