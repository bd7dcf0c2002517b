"""Calibration of quantiles and intervals of a predictive distribution."""

from functools import partial
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.metrics.metric import ENTRIES, POSITIVE, SHARE, metric, metrics, row
from credax.metrics.namespace import namespace
from credax.metrics.ranking import Blocks, Scored, Sketch, ranking, sketch_blocks
from credax.metrics.streaming import Streaming, mean_of, sums_of
from credax.metrics.view import RegressionView
from credax.prediction import GaussianPrediction as GaussianPrediction
from credax.prediction import RegressionPrediction

LEVELS = tuple(float(level) for level in np.arange(1, 20) / 20)
PIT_CELLS = 1000
Norm = Literal["l1", "l2", "max"]
_row = partial(row, task="regression", unit="unit of y", range=POSITIVE)
_share = partial(row, task="regression")
_metric = partial(metric, task="regression", unit="unit of y", range=POSITIVE)


@metrics(
    *(
        _row(
            f"Pinball loss at {level:g}",
            False,
            f"quantile of the mixture, {ENTRIES}",
            f"loss of the {level:g} quantile",
            name=f"pinball_{round(100 * level):02d}",
            options={"level": level},
        )
        for level in (0.05, 0.5, 0.95)
    )
)
def pinball(*, level: float = 0.5) -> Streaming:
    """Pinball loss of the mixture's quantile ``q``, ``mean max(τ (y - q), (τ - 1)(y - q))``.

    ``prediction`` is a mixture, or an array of quantiles like ``y``.

    >>> [round(float(pinball(jnp.array([q]), jnp.array([y]), level=0.9)), 4) for q, y in
    ...  ((1.0, 3.0), (3.0, 1.0))]
    [1.8, 0.2]
    """
    _check_level(level)

    def loss(view):
        quantile = view.quantile(level) if isinstance(view, RegressionView) else view.given
        above = view.y - quantile
        return jnp.maximum(level * above, (level - 1) * above)

    return mean_of(loss)


@metrics(
    *(
        _share(
            f"{round(100 * level)} % coverage",
            None,
            f"central {round(100 * level)} % interval of the mixture, {ENTRIES}",
            f"share of targets inside the interval that should hold {round(100 * level)} % of them",
            name=f"coverage_{round(100 * level)}",
            options={"level": level},
            target=level,
            headline=level == 0.9,
            interval=level,
        )
        for level in (0.9, 0.5, 0.95)
    )
)
def coverage(*, level: float = 0.9) -> Streaming:
    """Share of targets inside the central interval of a level; ideally equal to it.

    ``prediction`` is a mixture, or a pair ``(lower, upper)`` of arrays like ``y`` whose ends count
    as inside (``level`` then says nothing).

    >>> p = GaussianPrediction(jnp.zeros((1, 3, 1)), jnp.ones((1, 3, 1)))
    >>> round(float(coverage(p, jnp.array([0.0, 1.6, 1.7]))), 4)
    0.6667
    """
    _check_level(level)

    def inside(view):
        if isinstance(view, RegressionView) and view.prediction.density == "continuous":
            return jnp.abs(2 * view.pit - 1) <= level
        lower, upper = _bounds(view, level)
        return (lower <= view.y) & (view.y <= upper)

    return mean_of(inside)


def coverage_curve(
    prediction: RegressionPrediction,
    y: Float[Array, "batch *targets"],
    *,
    levels: tuple[float, ...] = LEVELS,
) -> Float[Array, " levels"]:
    """`coverage` at many levels: the calibration of the quantiles.

    With ``F`` the mixture's distribution function, ``y`` is between the quantiles ``(1 ± level)/2``
    exactly when ``|2 F(y) - 1| <= level``, so no quantile is searched for. Of whole numbers and of
    quantiles the ends of the interval count as inside; NaN at levels that are not known.
    """
    for level in levels:
        _check_level(level)
    if prediction.density != "continuous":
        return _coverage_of_intervals(prediction, y, levels)
    return _coverage_of(prediction.cdf(y), levels)


@_metric(
    "90 % width",
    False,
    f"central 90 % interval of the mixture, {ENTRIES}",
    "width of the interval that should hold 90 % of the targets",
    name="width_90",
)
def width(*, level: float = 0.9) -> Streaming:
    """Mean width of the central interval of a level, in the unit of ``y``.

    ``prediction`` is a mixture, or a pair ``(lower, upper)``; crossed ends are an empty interval.

    >>> p = GaussianPrediction(jnp.zeros((1, 3, 1)), jnp.ones((1, 3, 1)))
    >>> round(float(width(p, jnp.zeros(3))), 4)
    3.2897
    """
    _check_level(level)

    def wide(view):
        lower, upper = _bounds(view, level)
        return jnp.maximum(upper - lower, 0)

    return mean_of(wide)


@_metric(
    "90 % interval score",
    False,
    f"central 90 % interval of the mixture, {ENTRIES}",
    "width of the interval plus 20 times the distance of what it misses",
    name="interval_score_90",
)
def interval_score(*, level: float = 0.9) -> Streaming:
    """Winkler's score, ``(u - l) + (2/α)(l - y)₊ + (2/α)(y - u)₊`` with ``α = 1 - level``.

    ``prediction`` is a mixture, or a pair ``(lower, upper)`` made for that level. Reference:
    T. Gneiting and A. E. Raftery, Journal of the American Statistical Association 102, 2007.

    >>> interval = jnp.array([1.0, 1.0]), jnp.array([3.0, 3.0])
    >>> round(float(interval_score(interval, jnp.array([4.0, 2.0]))), 4)
    12.0
    """
    _check_level(level)

    def score(view):
        lower, upper = _bounds(view, level)
        miss = jnp.maximum(lower - view.y, 0) + jnp.maximum(view.y - upper, 0)
        return jnp.maximum(upper - lower, 0) + 2 / (1 - level) * miss

    return mean_of(score)


@metrics(
    *(
        _share(
            f"Quantile calibration error{label}",
            False,
            f"central intervals at {len(LEVELS)} levels from 0.05 to 0.95, {words}",
            "gap between the coverage of intervals and their level",
            name="quantile_calibration_error" + ("" if norm == "l1" else f"_{norm}"),
            options={"norm": norm},
            needs="continuous",
        )
        for norm, label, words in (
            ("l1", "", "mean"),
            ("l2", " (root mean square)", "root mean square"),
            ("max", " (largest)", "largest"),
        )
    )
)
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

    def inside(view):
        away = jnp.abs(2 * view.pit - 1)
        return away[..., None] <= jnp.asarray(levels, away.dtype)

    def conclude(sums):
        xp = namespace(sums)
        return _NORMS[norm](abs(sums.mean - xp.asarray(levels, dtype=sums.total.dtype)), xp)

    return Streaming(sums_of(inside), conclude)


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
    prediction: RegressionPrediction, y: Float[Array, "batch *targets"]
) -> Float[Array, "batch *targets"]:
    """Probability integral transform, the mixture's distribution function at the targets.

    Uniform on [0, 1] when the predictive distribution is the true one.

    >>> p = GaussianPrediction(jnp.zeros((1, 1, 1)), jnp.ones((1, 1, 1)))
    >>> float(pit(p, jnp.zeros(1))[0])
    0.5
    """
    return prediction.cdf(y)


@_metric(
    "PIT distance",
    False,
    f"Kolmogorov-Smirnov distance to the uniform distribution, {ENTRIES}",
    "how far the targets' quantiles are from being uniform",
    unit="share",
    range=SHARE,
    needs="continuous",
)
def pit_distance(*, sketch: bool = False) -> Streaming:
    """Kolmogorov-Smirnov distance between the distribution of the `pit` and the uniform one.

    ``sketch=True`` keeps a histogram of 1000 cells in place of the values. Times ``√N`` it has the
    Kolmogorov distribution if the predictive distribution is the true one.

    >>> p = GaussianPrediction(jnp.zeros((1, 2, 1)), jnp.ones((1, 2, 1)))
    >>> round(float(pit_distance(p, jnp.zeros(2))), 4)
    0.5
    """
    if sketch:
        statistic = ranking(_pit_rows, (0.0, 1.0), PIT_CELLS, _cell_ends)
        return Streaming(statistic, _cell_distance, _cell_bound)
    return Streaming(ranking(_pit_rows), _distance)


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise InputError(f"level is {level}; a level lies strictly between 0 and 1")


def _check_norm(norm: str) -> None:
    if norm not in _NORMS:
        raise InputError(f"norm is {norm!r}; choose from {', '.join(_NORMS)}")


def _bounds(view: Any, level: float) -> tuple[Any, Any]:
    if isinstance(view, RegressionView):
        return view.quantile((1 - level) / 2), view.quantile((1 + level) / 2)
    if not isinstance(view.given, tuple | list) or len(view.given) != 2:
        raise InputError("the intervals are not a pair (lower, upper) of arrays")
    return tuple(view.given)


def _coverage_of_intervals(
    prediction: RegressionPrediction, y: Any, levels: tuple[float, ...]
) -> Float[Array, " levels"]:
    y = jnp.asarray(y).reshape(prediction.means.shape[1:])
    known = [level for level in levels if level <= prediction.widest + 1e-9]
    # All ends at once: one program searches for them.
    ends = [(1 + sign * level) / 2 for sign in (-1, 1) for level in known]
    low, high = jnp.split(prediction.quantiles(ends), 2) if ends else (y[:0], y[:0])
    found = iter(jnp.mean((low <= y) & (y <= high), axis=(1, 2)) if ends else ())
    return jnp.stack([next(found) if level in known else jnp.asarray(jnp.nan) for level in levels])


def _coverage_of(pit: Any, levels: tuple[float, ...]) -> Any:
    away = jnp.abs(2 * pit - 1)
    inside = away.reshape(-1) <= jnp.asarray(levels, away.dtype)[:, None]
    return jnp.mean(inside, axis=1, dtype=away.dtype)


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
    prediction: RegressionPrediction, y: Float[Array, "batch *targets"], *, cells: int = 20
) -> PitHistogram:
    """Histogram of the `pit`: flat if calibrated, U-shaped if too narrow.

    >>> p = GaussianPrediction(jnp.zeros((1, 2, 1)), jnp.ones((1, 2, 1)))
    >>> pit_histogram(p, jnp.array([-3.0, 3.0]), cells=4).share.tolist()
    [0.5, 0.0, 0.0, 0.5]
    """
    values = np.asarray(prediction.cdf(y)).reshape(-1)
    counts, edges = np.histogram(values, bins=cells, range=(0.0, 1.0))
    return PitHistogram(edges, counts / values.size)


def _pit_rows(view: Any, weight: Any) -> Scored:
    return Scored(view.pit, jnp.zeros_like(view.pit), weight)


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
