"""Quantile recalibration: a monotone map of levels that makes quantiles calibrated."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credax.calibration.classwise import pool_adjacent_violators
from credax.calibration.gaussian_mixture import (
    mixture_cdf,
    mixture_log_density,
    mixture_quantiles,
    partial_moments,
)
from credax.calibration.inputs import as_columns, require_numbers
from credax.calibration.protocol import as_key
from credax.errors import InputError
from credax.metrics.checks import check
from credax.prediction import GaussianPrediction
from credax.regression_prediction import Density

_CELLS = 64


class RecalibratedPrediction(eqx.Module):
    """A mixture of Gaussians ``F`` under a monotone map of levels: the distribution ``R(F(y))``.

    It answers what a `GaussianPrediction` answers (``cdf``, ``quantile``, ``interval``, ``mean``,
    ``var``, ``log_prob``, ``sample``, ``select``), exactly, in float64 on the host. Each target has
    its own map, from the corners ``before`` to the corners ``after``; targets are taken as
    independent given their means where a joint density is needed. `as_mixture` gives an ordinary
    `GaussianPrediction` for code that needs members.
    """

    base: GaussianPrediction
    before: tuple[Float[np.ndarray, " corners"], ...]
    after: tuple[Float[np.ndarray, " corners"], ...]

    @property
    def density(self) -> Density:
        """What `log_prob` is: a density, as before the map."""
        return "continuous"

    @property
    def num_members(self) -> int:
        """How many members the prediction had before."""
        return self.base.num_members

    def cdf(self, y: Float[Array, "batch *targets"]) -> Array:
        """``R(F(y))``, target by target."""
        levels = mixture_cdf(self.base, self._targets(y))
        mapped = [np.interp(levels[:, t], self.before[t], self.after[t]) for t in self._each]
        return self._result(np.stack(mapped, axis=-1))

    def quantile(self, level: float) -> Array:
        """``F^{-1}(R^{-1}(level))`` for a level in (0, 1)."""
        if not 0.0 < level < 1.0:
            raise InputError(f"level is {level}; a quantile level lies strictly between 0 and 1")
        return self._result(self._quantiles(np.array([level]))[0])

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """Central interval: the quantiles at ``(1 - level)/2`` and ``(1 + level)/2``."""
        if not 0.0 < level < 1.0:
            raise InputError(f"level is {level}; an interval's level lies between 0 and 1")
        low, high = self._quantiles(np.array([(1 - level) / 2, (1 + level) / 2]))
        return self._result(low), self._result(high)

    def log_prob(self, y: Float[Array, "batch *targets"]) -> Float[Array, " batch"]:
        """``Σ_targets log f(y) + log R'(F(y))``; the slopes of ``R`` are those of its lines."""
        targets = self._targets(y)
        levels, density = mixture_cdf(self.base, targets), mixture_log_density(self.base, targets)
        for t in self._each:
            slope = np.diff(self.after[t]) / np.diff(self.before[t])
            where = np.searchsorted(self.before[t], levels[:, t]).clip(1, len(slope)) - 1
            density[:, t] += np.log(slope[where])
        return jnp.asarray(density.sum(axis=1))

    @property
    def mean(self) -> Array:
        """Mean of the recalibrated distribution, exact: partial moments of the Gaussians."""
        return self._result(self._moments()[0])

    @property
    def var(self) -> Array:
        """Variance of the recalibrated distribution, exact."""
        return self._result(self._moments()[1])

    @property
    def std(self) -> Array:
        """Square root of `var`."""
        return jnp.sqrt(self.var)

    @property
    def total(self) -> Array:
        """The same as `var`."""
        return self.var

    @property
    def epistemic(self) -> Array:
        """The share of `var` that was the members' disagreement before recalibration."""
        return self.var * self.base.epistemic / self.base.var

    @property
    def aleatoric(self) -> Array:
        """The rest of `var`."""
        return self.var - self.epistemic

    def sample(self, key: Any, n: int = 1) -> Array:
        """Targets drawn from the recalibrated distribution, rows and targets independently."""
        _, batch, targets = self.base.means.shape
        uniform = np.asarray(jax.random.uniform(as_key(key), (n, batch, targets)), np.float64)
        return self._result(self._quantiles(uniform))

    def select(self, rows) -> "RecalibratedPrediction":
        """The same prediction for some rows only."""
        return RecalibratedPrediction(self.base.select(rows), self.before, self.after)

    def as_mixture(self, cells: int = _CELLS) -> GaussianPrediction:
        """An equal mixture of ``cells`` Gaussians with the same mean and variance.

        Each stands for an equal share of the recalibrated distribution, between two quantiles, and
        has the mean and variance of that share, so that those of the whole are exact.
        """
        if cells < 1:
            raise InputError(f"cells is {cells}; give at least one Gaussian")
        parts = [self._cell_moments(t, cells) for t in self._each]
        means, variances = (np.stack(part, axis=-1) for part in zip(*parts, strict=True))
        return GaussianPrediction(jnp.asarray(means), jnp.asarray(variances))

    @property
    def _each(self) -> range:
        return range(len(self.before))

    def _targets(self, y: Any) -> np.ndarray:
        y = np.asarray(y)
        _, batch, targets = self.base.means.shape
        if y.shape != (batch, targets) and not (targets == 1 and y.shape == (batch,)):
            raise InputError(f"y has shape {y.shape}; this prediction needs ({batch}, {targets})")
        return as_columns(y, self.base)

    def _result(self, values: np.ndarray) -> Array:
        return jnp.asarray(values[..., 0] if values.shape[-1] == 1 else values)

    def _quantiles(self, levels: np.ndarray) -> Float[np.ndarray, "levels batch targets"]:
        found = []
        for t in self._each:
            wanted = levels if levels.ndim == 1 else levels[..., t]
            stated = np.interp(wanted, self.after[t], self.before[t])
            found.append(mixture_quantiles(*self._moments_of(t), stated, self.base.weights))
        return np.stack(found, axis=-1)

    def _moments_of(self, target: int) -> tuple[np.ndarray, np.ndarray]:
        return (
            np.asarray(self.base.means[..., target], np.float64),
            np.asarray(self.base.variances[..., target], np.float64),
        )

    def _moments(self):
        parts = [self._cell_moments(t, 1) for t in self._each]
        mean, var = (np.stack(part, axis=-1)[0] for part in zip(*parts, strict=True))
        return mean, var

    def _cell_moments(self, target: int, cells: int):
        """Mean and variance of ``cells`` equal shares of the distribution, ``[cells, batch]``."""
        means, variances = self._moments_of(target)
        before, after = self.before[target], self.after[target]
        weights = self.base.weights
        # Moments about the mean lose fewest digits.
        centre = np.average(means, axis=0, weights=weights)
        inner = np.interp(np.arange(1, cells) / cells, after, before)
        levels = np.unique(np.concatenate([before, inner]))
        shares = np.interp(levels, before, after)
        ends = mixture_quantiles(means - centre, variances, levels, weights)
        moments = partial_moments(means - centre, variances, ends, weights)
        pieces = np.diff(moments, axis=1)
        slope = np.diff(shares) / np.diff(levels)
        cell = np.floor((shares[:-1] + shares[1:]) / 2 * cells).astype(int).clip(0, cells - 1)
        moments = np.zeros((3, cells, means.shape[1]))
        for piece, weight, index in zip(pieces.swapaxes(0, 1), slope, cell, strict=True):
            moments[:, index] += weight * piece
        first = moments[1] / moments[0]
        return centre + first, np.maximum(moments[2] / moments[0] - first**2, np.finfo(float).tiny)


# Beyond eight standard deviations two targets are equal in double precision.
_LEVEL_MARGIN = 1e-15


class QuantileRecalibration(eqx.Module):
    """``F → R(F)`` with ``R`` the isotonic fit of how often targets fall below each level.

    With ``u_i = F_i(y_i)`` the levels of the calibration targets under the mixture, ``R`` goes
    through ``(u_(r), r/(n+1))``, (0, 0) and (1, 1) in straight lines. A new target then lies below
    the recalibrated quantile of level ``r/(n+1)`` with exactly that probability (exchangeable rows,
    no ties). ``knots`` limits the number of ranks ``r`` that are kept, equally spaced, because the
    recalibrated density is as rough as its knots are many; None keeps every row. One map per
    target. Float64 on the host.
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
    """For each target the corners of a monotone map of levels, from (0, 0) to (1, 1)."""

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
