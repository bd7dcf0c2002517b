"""Calibration errors over bins that hold equally many rows."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from credax.errors import InputError
from credax.metrics.calibration import BINS
from credax.metrics.namespace import namespace, ratio
from credax.metrics.ranking import (
    Blocks,
    Scored,
    Sketch,
    blocks_of,
    rows_of,
    sketch_blocks,
    sketch_index,
)
from credax.metrics.selective import confidence_ranking
from credax.metrics.streamed import streamed
from credax.metrics.streaming import Statistic, Streaming
from credax.prediction import ClassPrediction as ClassPrediction

Ties = Literal["order", "average"]
RANGES = 15
CLASS_SKETCH_BINS = 4096
THRESHOLD = 1e-3


@streamed
def adaptive_ece(*, bins: int = BINS, norm: str = "l1", sketch: bool = False) -> Streaming:
    """`ece` over bins that hold equally many rows, the confidences being cut in rising order.

    Sizes differ by at most one, larger bins first; with fewer rows than bins, empty bins are
    dropped; rows of equal confidence that a cut separates count as their mean. ``norm="l2"`` and
    ``"max"`` are as in `rmsce` and `mce`. This is torch-uncertainty's adaptive error; `ace` is
    Nixon's, over all classes. ``sketch=True`` keeps 65536 bins of the confidence in place of the
    rows.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.7, 0.3]]])
    >>> round(float(adaptive_ece(p, jnp.array([0, 0, 1, 0]), bins=2)), 4)
    0.15
    """
    if norm not in _NORMS:
        raise InputError(f"norm is {norm!r}; choose from {', '.join(_NORMS)}")
    _check_bins("bins", bins)
    conclude = partial(_top_label_error, bins=bins, norm=norm)
    bound = partial(_top_label_bound, bins=bins) if sketch and norm == "l1" else None
    return Streaming(confidence_ranking(sketch), conclude, bound)


@streamed
def ace(*, ranges: int = RANGES, ties: Ties = "order", sketch: bool = False) -> Streaming:
    """Adaptive calibration error: every class's probabilities in ranges of equal mass.

    ``(1/K) Σ_k Σ_r |Σ_{i∈r} (1[y_i = k] - p̄_ik)| / N``, the sorted probabilities of class ``k``
    being cut at ``round(r N / R)``; for equal ranges this is Nixon's mean over ranges. The same as
    uncertainty-metrics' ``ace``. Where a cut separates equal probabilities, rows are taken in their
    order, as there; ``ties="average"`` shares them evenly, which no reordering of rows can change.
    ``sketch=True`` keeps 4096 bins a class in place of all probabilities.
    Reference: J. Nixon et al., Measuring calibration in deep learning, CVPR workshops 2019.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.6, 0.4]]])
    >>> round(float(ace(p, jnp.array([0, 1]), ranges=2)), 4)
    0.35
    """
    _check_bins("ranges", ranges)
    return _class_wise(ranges, 0.0, ties, sketch)


@streamed
def tace(
    *,
    ranges: int = RANGES,
    threshold: float = THRESHOLD,
    ties: Ties = "order",
    sketch: bool = False,
) -> Streaming:
    """`ace` of the probabilities above a threshold, so that classes that are out of the question
    do not hide the rest; each class is divided by its own number of kept rows.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.6, 0.4]]])
    >>> round(float(tace(p, jnp.array([0, 1]), ranges=2, threshold=0.2)), 4)
    0.475
    """
    _check_bins("ranges", ranges)
    if not 0 <= threshold < 1:
        raise InputError(f"threshold is {threshold}; give a probability below 1")
    return _class_wise(ranges, threshold, ties, sketch)


def _check_bins(name: str, bins: int) -> None:
    if bins < 1:
        raise InputError(f"{name} is {bins}; give at least one")


def split_cuts(count: Any, bins: int) -> Any:
    """Cuts of ``count`` rows into bins that differ by at most one row, larger ones first."""
    xp = namespace(count)
    whole = xp.floor(count / bins)
    left = count - whole * bins
    steps = xp.arange(1, bins, dtype=count.dtype)
    return steps * whole + xp.minimum(steps, left)


def _rounded_cuts(count: Any, bins: int) -> Any:
    """Cuts at ``round(r count / bins)``, halves to even."""
    xp = namespace(count)
    exact = xp.arange(1, bins, dtype=count.dtype) * count
    whole = xp.floor(exact / bins)
    left = exact - whole * bins
    odd = whole - 2 * xp.floor(whole / 2)
    return whole + ((2 * left > bins) | ((2 * left == bins) & (odd == 1)))


class _Ranges(NamedTuple):
    weight: Any
    score: Any
    hit: Any


def range_sums(blocks: Blocks, cuts: Any, score: Any) -> _Ranges:
    """Sums over ranges of rising rows; a block that a cut separates is shared evenly."""
    xp = namespace(blocks)
    rows = xp.flip(blocks.count)
    ends = xp.concat([xp.zeros_like(rows[:1]), xp.cumsum(rows)])
    at = xp.concat([ends[:1], cuts, ends[-1:]])

    def share(values):
        summed = xp.cumsum(xp.flip(values))
        summed = xp.concat([xp.zeros_like(summed[:1]), summed])
        return xp.diff(xp.interp(at, ends, summed))

    return _Ranges(share(blocks.weight), share(score), share(blocks.hit))


def _score_sums(blocks: Blocks) -> Any:
    xp = namespace(blocks)
    return blocks.weight * xp.where(blocks.weight > 0, blocks.score, 0)


def _top_label_error(blocks: Blocks, *, bins: int, norm: str) -> Any:
    xp = namespace(blocks)
    cuts = split_cuts(xp.sum(blocks.count), bins)
    sums = range_sums(blocks, cuts, _score_sums(blocks))
    gap = ratio(abs(sums.weight - sums.hit - sums.score), sums.weight)
    return _NORMS[norm](sums.weight / xp.sum(sums.weight), gap, xp)


_NORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "l1": lambda share, gap, xp: xp.sum(share * gap),
    "l2": lambda share, gap, xp: xp.sqrt(xp.sum(share * gap**2)),
    "max": lambda share, gap, xp: xp.max(gap),
}


def _cut_bound(blocks: Blocks, cuts: Any, right: Any) -> Any:
    """``Σ 2 min(Σ right + Σ score, Σ (1 - right) + Σ (1 - score))`` over the bins that are cut.

    Rows within a bin are taken to be alike; if a cut separates them, the deviations
    ``right - score`` on its sides may differ, together by at most twice their absolute sum.
    """
    xp = namespace(blocks)
    ends = xp.cumsum(xp.flip(blocks.count))
    starts = ends - xp.flip(blocks.count)
    cut = xp.any((cuts[:, None] > starts) & (cuts[:, None] < ends), axis=0)
    mass = xp.flip(right + _score_sums(blocks))
    rest = 2 * xp.flip(blocks.weight) - mass
    return xp.sum(xp.where(cut, 2 * xp.minimum(mass, rest), 0)) / xp.sum(blocks.weight)


def _top_label_bound(blocks: Blocks, *, bins: int) -> Any:
    cuts = split_cuts(namespace(blocks).sum(blocks.count), bins)
    return _cut_bound(blocks, cuts, blocks.weight - blocks.hit)


class _ClassRows(NamedTuple):
    probs: Any
    y: Any
    weight: Any


@cache
def _class_ranking(ties: Ties) -> Statistic:
    def rows(view, weight):
        return _ClassRows(view.probs, view.y, weight)

    return Statistic(rows, None, partial(_class_blocks, rank=_RANKS[ties]))


@cache
def _class_sketch(threshold: float) -> Statistic:
    def rows(view, weight):
        return _ClassRows(view.probs, view.y, weight)

    def total(rows):
        bins, classes = CLASS_SKETCH_BINS, rows.probs.shape[-1]
        kept = (rows.weight[:, None] > 0) & (rows.probs > threshold)
        index = sketch_index(rows.probs, bins, 0.0, 1.0) + bins * jnp.arange(classes)
        weight = jnp.where(kept, rows.weight[:, None], 0)

        def add(values):
            return jax.ops.segment_sum(values.reshape(-1), index.reshape(-1), bins * classes)

        def true(values):
            return jnp.take_along_axis(values, rows.y[:, None], axis=-1)[:, 0]

        hit = jax.ops.segment_sum(true(weight), true(index), bins * classes)
        sums = add(kept.astype(weight.dtype)), add(weight), hit, add(weight * rows.probs)
        return Sketch(*(s.reshape(classes, bins) for s in sums))

    return Statistic(rows, total, sketch_blocks)


_RANKS = {"order": rows_of, "average": blocks_of}


def _class_blocks(rows: _ClassRows, *, rank: Callable[[Scored], Blocks]) -> Any:
    """Blocks of every class: a list on the host, where their number differs, else stacked."""
    classes = rows.probs.shape[-1]
    if isinstance(rows.probs, np.ndarray):
        return [rank(Scored(rows.probs[:, k], rows.y == k, rows.weight)) for k in range(classes)]

    def one(probs, k):
        return rank(Scored(probs, rows.y == k, rows.weight))

    return jax.vmap(one, in_axes=(1, 0))(rows.probs, jnp.arange(classes))


def _each_class(function: Callable[[Blocks], Any], blocks: Any) -> Any:
    if isinstance(blocks, list):
        return np.stack([function(b) for b in blocks])
    if isinstance(blocks.count, np.ndarray):
        return np.stack([function(Blocks(*parts)) for parts in zip(*blocks, strict=True)])
    return jax.vmap(function)(blocks)


def _class_wise(ranges: int, threshold: float, ties: Ties, sketch: bool) -> Streaming:
    def error(blocks):
        xp = namespace(blocks)
        kept = blocks.score > threshold
        blocks = Blocks(blocks.score, *(xp.where(kept, part, 0) for part in blocks[1:]))
        sums = range_sums(blocks, _rounded_cuts(xp.sum(blocks.count), ranges), _score_sums(blocks))
        return ratio(xp.sum(abs(sums.hit - sums.score)), xp.sum(sums.weight))

    def bound(blocks):
        cuts = _rounded_cuts(namespace(blocks).sum(blocks.count), ranges)
        return _cut_bound(blocks, cuts, blocks.hit)

    def mean(function, blocks):
        each = _each_class(function, blocks)
        return namespace(each).mean(each)

    if sketch:
        return Streaming(_class_sketch(threshold), partial(mean, error), partial(mean, bound))
    if ties not in ("order", "average"):
        raise InputError(f'ties is {ties!r}; choose "order" or "average"')
    return Streaming(_class_ranking(ties), partial(mean, error))
