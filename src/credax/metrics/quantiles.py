"""Are the quantiles of a predictive distribution where they should be."""

from functools import cache, partial
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.metrics.means import Sums, mean_of, sums_of
from credax.metrics.namespace import namespace
from credax.metrics.ranking import Blocks, Scored, Sketch, blocks_of, sketch_blocks, sketch_sums
from credax.metrics.streamed import streamed
from credax.metrics.streaming import Statistic, Streaming
from credax.metrics.view import GaussianView
from credax.prediction import GaussianPrediction

LEVELS = tuple(float(level) for level in np.arange(1, 20) / 20)
PIT_CELLS = 1000
Norm = Literal["l1", "l2", "max"]


@streamed
def coverage(*, level: float = 0.9) -> Streaming:
    """Share of targets inside the central interval of a level; right when equal to it.

    ``prediction`` is a mixture, or a pair ``(lower, upper)`` of arrays like ``y`` whose ends count
    as inside (``level`` then says nothing).

    >>> p = GaussianPrediction(jnp.zeros((1, 3, 1)), jnp.ones((1, 3, 1)))
    >>> round(float(coverage(p, jnp.array([0.0, 1.6, 1.7]))), 4)
    0.6667
    """
    _check_level(level)
    return mean_of(_inside(level))


def coverage_curve(
    prediction: GaussianPrediction,
    y: Float[Array, "batch *targets"],
    *,
    levels: tuple[float, ...] = LEVELS,
) -> Float[Array, " levels"]:
    """`coverage` at many levels: the calibration of the quantiles.

    With ``F`` the mixture's distribution function, ``y`` is between the quantiles ``(1 ± level)/2``
    exactly when ``|2 F(y) - 1| <= level``, so no quantile is searched for.
    """
    for level in levels:
        _check_level(level)
    return _coverage_of(prediction.cdf(y), levels)


@streamed
def width(*, level: float = 0.9) -> Streaming:
    """Mean width of the central interval of a level, in the unit of ``y``; of little worth alone.

    ``prediction`` is a mixture, or a pair ``(lower, upper)``; crossed ends are an empty interval.

    >>> p = GaussianPrediction(jnp.zeros((1, 3, 1)), jnp.ones((1, 3, 1)))
    >>> round(float(width(p, jnp.zeros(3))), 4)
    3.2897
    """
    _check_level(level)
    return mean_of(_width(level))


@streamed
def interval_score(*, level: float = 0.9) -> Streaming:
    """Winkler's score, ``(u - l) + (2/α)(l - y)₊ + (2/α)(y - u)₊`` with ``α = 1 - level``.

    ``prediction`` is a mixture, or a pair ``(lower, upper)`` made for that level. Reference:
    T. Gneiting and A. E. Raftery, Journal of the American Statistical Association 102, 2007.

    >>> interval = jnp.array([1.0, 1.0]), jnp.array([3.0, 3.0])
    >>> round(float(interval_score(interval, jnp.array([4.0, 2.0]))), 4)
    12.0
    """
    _check_level(level)
    return mean_of(_winkler(level))


@streamed
def pinball(*, level: float = 0.5) -> Streaming:
    """Pinball loss of the mixture's quantile ``q``, ``mean max(τ (y - q), (τ - 1)(y - q))``.

    ``prediction`` is a mixture, or an array of quantiles like ``y``.

    >>> [round(float(pinball(jnp.array([q]), jnp.array([y]), level=0.9)), 4) for q, y in
    ...  ((1.0, 3.0), (3.0, 1.0))]
    [1.8, 0.2]
    """
    _check_level(level)
    return mean_of(_pinball(level))


@streamed
def quantile_calibration_error(
    *, norm: Norm = "l1", levels: tuple[float, ...] = LEVELS
) -> Streaming:
    """Mean over levels of ``|coverage of the central interval - level|``; ``l2`` and ``max`` too.

    Levels are 0.05, 0.10 ... 0.95 by default (torch-uncertainty: 15 levels between the same ends).
    The intervals come from the mixture's distribution function, so skewed and multi-modal mixtures
    are treated as they are.

    >>> p = GaussianPrediction(jnp.zeros((1, 2, 1)), jnp.ones((1, 2, 1)))
    >>> round(float(quantile_calibration_error(p, jnp.zeros(2))), 4)
    0.5
    """
    for level in levels:
        _check_level(level)
    _check_norm(norm)
    return Streaming(_inside_levels(levels), partial(_calibration, norm=norm, levels=levels))


def quantile_calibration_error_of(
    pit: Float[Array, " *batch"], *, norm: Norm = "l1", levels: tuple[float, ...] = LEVELS
) -> Float[Array, ""]:
    """`quantile_calibration_error` of any distribution: ``pit`` is its function at the target.

    >>> round(float(quantile_calibration_error_of(jnp.arange(1000) / 1000)), 3)
    0.0
    """
    _check_norm(norm)
    gap = jnp.abs(_coverage_of(jnp.asarray(pit), levels) - jnp.asarray(levels))
    return _NORMS[norm](gap, jnp)


def pit(
    prediction: GaussianPrediction, y: Float[Array, "batch *targets"]
) -> Float[Array, "batch *targets"]:
    """Probability integral transform, the mixture's distribution function at the targets.

    Uniform on [0, 1] when the predictive distribution is the true one.

    >>> p = GaussianPrediction(jnp.zeros((1, 1, 1)), jnp.ones((1, 1, 1)))
    >>> float(pit(p, jnp.zeros(1))[0])
    0.5
    """
    return prediction.cdf(y)


@streamed
def pit_distance(*, sketch: bool = False) -> Streaming:
    """Kolmogorov-Smirnov distance between the distribution of the `pit` and the uniform one.

    ``sketch=True`` keeps a histogram of 1000 cells in place of the values. Times ``√N`` it has the
    Kolmogorov distribution if the predictive distribution is the true one.

    >>> p = GaussianPrediction(jnp.zeros((1, 2, 1)), jnp.ones((1, 2, 1)))
    >>> round(float(pit_distance(p, jnp.zeros(2))), 4)
    0.5
    """
    if sketch:
        return Streaming(_pit_ranking(True), _cell_distance, _cell_bound)
    return Streaming(_pit_ranking(False), _distance)


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise InputError(f"level is {level}; a level lies strictly between 0 and 1")


def _check_norm(norm: str) -> None:
    if norm not in _NORMS:
        raise InputError(f"norm is {norm!r}; choose from {', '.join(_NORMS)}")


def _bounds(view: Any, level: float) -> tuple[Any, Any]:
    if isinstance(view, GaussianView):
        return view.quantile((1 - level) / 2), view.quantile((1 + level) / 2)
    if not isinstance(view.given, tuple | list) or len(view.given) != 2:
        raise InputError("the intervals are not a pair (lower, upper) of arrays")
    return tuple(view.given)


@cache
def _inside(level: float):
    def inside(view):
        if isinstance(view, GaussianView):
            return jnp.abs(2 * view.pit - 1) <= level
        lower, upper = _bounds(view, level)
        return (lower <= view.y) & (view.y <= upper)

    return inside


@cache
def _width(level: float):
    def wide(view):
        lower, upper = _bounds(view, level)
        return jnp.maximum(upper - lower, 0)

    return wide


@cache
def _winkler(level: float):
    def score(view):
        lower, upper = _bounds(view, level)
        miss = jnp.maximum(lower - view.y, 0) + jnp.maximum(view.y - upper, 0)
        return jnp.maximum(upper - lower, 0) + 2 / (1 - level) * miss

    return score


@cache
def _pinball(level: float):
    def loss(view):
        quantile = view.quantile(level) if isinstance(view, GaussianView) else view.given
        above = view.y - quantile
        return jnp.maximum(level * above, (level - 1) * above)

    return loss


def _coverage_of(pit: Any, levels: tuple[float, ...]) -> Any:
    away = jnp.abs(2 * pit - 1)
    inside = away.reshape(-1) <= jnp.asarray(levels, away.dtype)[:, None]
    return jnp.mean(inside, axis=1, dtype=away.dtype)


@cache
def _inside_levels(levels: tuple[float, ...]) -> Statistic:
    def inside(view):
        away = jnp.abs(2 * view.pit - 1)
        return away[..., None] <= jnp.asarray(levels, away.dtype)

    return sums_of(inside)


def _calibration(sums: Sums, *, norm: Norm, levels: tuple[float, ...]) -> Any:
    xp = namespace(sums)
    return _NORMS[norm](abs(sums.mean - xp.asarray(levels, dtype=sums.total.dtype)), xp)


_NORMS = {
    "l1": lambda gap, xp: xp.mean(gap),
    "l2": lambda gap, xp: xp.sqrt(xp.mean(gap**2)),
    "max": lambda gap, xp: xp.max(gap),
}


class PitHistogram(NamedTuple):
    """Edges of the cells, and the share of the targets in each."""

    edges: Any
    share: Any


def pit_histogram(
    prediction: GaussianPrediction, y: Float[Array, "batch *targets"], *, cells: int = 20
) -> PitHistogram:
    """Histogram of the `pit`: flat when honest, a U when too narrow, a hump when too wide.

    >>> p = GaussianPrediction(jnp.zeros((1, 2, 1)), jnp.ones((1, 2, 1)))
    >>> pit_histogram(p, jnp.array([-3.0, 3.0]), cells=4).share.tolist()
    [0.5, 0.0, 0.0, 0.5]
    """
    values = np.asarray(prediction.cdf(y)).reshape(-1)
    counts, edges = np.histogram(values, bins=cells, range=(0.0, 1.0))
    return PitHistogram(edges, counts / values.size)


@cache
def _pit_ranking(sketch: bool) -> Statistic:
    def rows(view, weight):
        return Scored(view.pit, jnp.zeros_like(view.pit), weight)

    if not sketch:
        return Statistic(rows, None, blocks_of)

    def total(rows):
        return sketch_sums(rows, PIT_CELLS, 0.0, 1.0)

    return Statistic(rows, total, _cell_ends)


def _cell_ends(sketch: Sketch) -> Blocks:
    """Cells as blocks at their upper ends, where the histogram knows the distribution exactly."""
    xp = namespace(sketch)
    ends = xp.arange(1, PIT_CELLS + 1, dtype=sketch.weight.dtype) / PIT_CELLS
    return sketch_blocks(sketch)._replace(score=xp.flip(ends))


def _distance(blocks: Blocks) -> Any:
    xp = namespace(blocks)
    total = xp.sum(blocks.weight)
    above = xp.cumsum(blocks.weight) / total
    before = above - blocks.weight / total
    score = xp.where(blocks.count > 0, blocks.score, 1 - above)
    return xp.max(xp.maximum(abs(1 - before - score), abs(1 - above - score)))


def _cell_distance(blocks: Blocks) -> Any:
    xp = namespace(blocks)
    before = blocks.before[0] / xp.sum(blocks.weight)
    return xp.max(abs(1 - before - blocks.score))


def _cell_bound(blocks: Blocks) -> Any:
    xp = namespace(blocks)
    return xp.maximum(1 / PIT_CELLS, xp.max(blocks.weight) / xp.sum(blocks.weight))
