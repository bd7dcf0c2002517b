"""Calibration errors of every class's probability, not only that of the most probable class."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from credax.errors import InputError
from credax.metrics.calibration import BINS, Binned, Bins, bin_index, edges_of
from credax.metrics.equal_mass import check_bins, cut_bound, range_sums, rounded_cuts, score_sums
from credax.metrics.metric import metric
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
from credax.metrics.streaming import Statistic, Streaming
from credax.prediction import ClassPrediction as ClassPrediction

Ties = Literal["order", "average"]
RANGES = 15
CLASS_SKETCH_BINS = 4096
THRESHOLD = 1e-3


@metric(
    "ACE",
    False,
    f"all classes, {RANGES} ranges of equal mass",
    "gap between every class's probability and its frequency",
)
def ace(*, ranges: int = RANGES, ties: Ties = "order", sketch: bool = False) -> Streaming:
    """Adaptive calibration error: every class's probabilities in ranges of equal mass.

    ``(1/K) Σ_k Σ_r |Σ_{i∈r} (1[y_i = k] - p̄_ik)| / N``, the sorted probabilities of class ``k``
    being cut at ``round(r N / R)``; for equal ranges this is Nixon's mean over ranges. The same as
    uncertainty-metrics' ``ace``. Where a cut separates equal probabilities, rows are taken in their
    order, as there; ``ties="average"`` shares them evenly, which no reordering of rows can change.
    ``sketch=True`` keeps 4096 bins per class in place of all probabilities.
    Reference: J. Nixon et al., Measuring calibration in deep learning, CVPR workshops 2019.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.6, 0.4]]])
    >>> round(float(ace(p, jnp.array([0, 1]), ranges=2)), 4)
    0.35
    """
    check_bins("ranges", ranges)
    return _class_wise(ranges, 0.0, ties, sketch)


@metric(
    "TACE",
    False,
    f"all classes, {RANGES} ranges of equal mass, probabilities above {THRESHOLD}",
    "ACE without the classes that are improbable",
)
def tace(
    *,
    ranges: int = RANGES,
    threshold: float = THRESHOLD,
    ties: Ties = "order",
    sketch: bool = False,
) -> Streaming:
    """`ace` of the probabilities above a threshold, so that classes that are improbable
    do not hide the rest; each class is divided by its own number of kept rows.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.6, 0.4]]])
    >>> round(float(tace(p, jnp.array([0, 1]), ranges=2, threshold=0.2)), 4)
    0.475
    """
    check_bins("ranges", ranges)
    if not 0 <= threshold < 1:
        raise InputError(f"threshold is {threshold}; give a probability below 1")
    return _class_wise(ranges, threshold, ties, sketch)


@metric(
    "Class-wise ECE",
    False,
    f"all classes, {BINS} equal-width bins, mean over classes",
    "expected gap between every class's probability and its frequency",
)
def sce(*, bins: int = BINS, reduce: Literal["mean", "sum"] = "mean") -> Streaming:
    """Class-wise calibration error, ``(1/K) Σ_k Σ_b n_bk/N |share of y = k in b - mean p̄_k in b|``.

    Every probability of every row is binned, not only the largest. ``reduce="sum"`` leaves out
    ``1/K``. Also known as static calibration error and class-wise ECE.
    Reference: J. Nixon et al., Measuring calibration in deep learning, CVPR workshops 2019.

    >>> p = ClassPrediction.from_probs([[[0.8, 0.2], [0.8, 0.2]]])
    >>> round(float(sce(p, jnp.array([0, 1]))), 6)
    0.3
    """
    if reduce not in ("mean", "sum"):
        raise InputError(f'reduce is {reduce!r}; choose "mean" or "sum"')

    def conclude(bins):
        total = namespace(bins).sum(bins.share * bins.gap)
        return total / bins.weight.shape[0] if reduce == "mean" else total

    return Streaming(_class_bins(bins), conclude)


@cache
def _class_bins(bins: int) -> Statistic:
    """Sums over equal-width bins of every class's probability, ``[classes, bins]``."""
    edges = edges_of(bins)

    def rows(view, weight):
        return Binned(bin_index(view.probs, edges), view.probs, view.y, weight)

    return Statistic(rows, lambda rows: _class_sums(rows, bins))


def _class_sums(rows: Binned, bins: int) -> Bins:
    """The probabilities of each class and bin added up; ``rows.correct`` holds the labels."""
    classes = rows.index.shape[-1]
    flat = rows.index + bins * jnp.arange(classes)
    weight = rows.weight[:, None]

    def total(values):
        values = jnp.where(weight > 0, values, 0).astype(rows.confidence.dtype)
        values = jnp.broadcast_to(values, flat.shape).reshape(-1)
        return jax.ops.segment_sum(values, flat.reshape(-1), bins * classes)

    true = jnp.take_along_axis(flat, rows.correct[:, None], axis=-1)[:, 0]
    correct = jax.ops.segment_sum(rows.weight, true, bins * classes)
    sums = total(weight > 0), total(weight), total(weight * rows.confidence), correct
    return Bins(*(s.reshape(classes, bins) for s in sums))


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
        sums = range_sums(blocks, rounded_cuts(xp.sum(blocks.count), ranges), score_sums(blocks))
        return ratio(xp.sum(abs(sums.hit - sums.score)), xp.sum(sums.weight))

    def bound(blocks):
        cuts = rounded_cuts(namespace(blocks).sum(blocks.count), ranges)
        return cut_bound(blocks, cuts, blocks.hit)

    def mean(function, blocks):
        each = _each_class(function, blocks)
        return namespace(each).mean(each)

    if sketch:
        return Streaming(_class_sketch(threshold), partial(mean, error), partial(mean, bound))
    if ties not in ("order", "average"):
        raise InputError(f'ties is {ties!r}; choose "order" or "average"')
    return Streaming(_class_ranking(ties), partial(mean, error))
