"""Calibration errors of the most probable class: confidence against accuracy, per bin.

Bins are of equal width, bin ``b`` being ``(b/B, (b+1)/B]`` with 0 in the first. Bins of equal mass
are in `adaptive_ece`, all classes in `credax.metrics.classwise_calibration`, and no bins at all in
`credax.metrics.smooth`.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Integer

from credax.errors import InputError
from credax.metrics.equal_mass import check_bins, cut_bound, range_sums, score_sums, split_cuts
from credax.metrics.metric import metric
from credax.metrics.namespace import namespace, ratio
from credax.metrics.ranking import Blocks
from credax.metrics.selective import confidence_ranking
from credax.metrics.streaming import Statistic, Streaming
from credax.prediction import ClassPrediction

BINS = 15
# Probabilities are stored as logarithms, so one that was written as exactly an edge (0.8) comes
# back a few roundings away from it; within this many it still counts as on the edge.
_EDGE_ROUNDINGS = 16
# Up to so many edges, comparing with all of them beats a binary search.
_FEW_EDGES = 64


class Reliability(NamedTuple):
    """What a reliability diagram shows; empty bins have NaN accuracy and confidence."""

    edges: Float[Array, " edges"]
    counts: Int[Array, " bins"]
    accuracy: Float[Array, " bins"]
    confidence: Float[Array, " bins"]


class Bins(NamedTuple):
    """Sums over the rows of each bin, ``[..., bins]``: rows, weights, confidence, correct rows."""

    count: Any
    weight: Any
    confidence: Any
    correct: Any

    @property
    def gap(self) -> Any:
        """``|accuracy_b - confidence_b|``, 0 for empty bins."""
        return ratio(abs(self.correct - self.confidence), self.weight)

    @property
    def share(self) -> Any:
        """``n_b / N``, the bins' shares of the weight."""
        return self.weight / self.weight.sum(-1)[..., None]


def reliability(
    prediction: ClassPrediction, y: Integer[Array, " batch"], *, bins: int = BINS
) -> Reliability:
    """Count, accuracy and mean confidence of the rows in equal-width bins of the confidence.

    Bin ``b`` holds the confidences in ``(b/B, (b+1)/B]``, and 0 goes into the first.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.6, 0.4], [0.7, 0.3]]])
    >>> reliability(p, jnp.array([0, 0, 1]), bins=5).counts.tolist()
    [0, 0, 1, 1, 1]
    """
    confidence = prediction.confidence
    return reliability_of(confidence, prediction.label == y, bins=bins)


def reliability_of(
    confidence: Float[Array, " batch"], correct: Array, *, bins: int = BINS
) -> Reliability:
    """`reliability` for any score in [0, 1] and whether each row was correct."""
    edges = edges_of(bins)
    index = bin_index(confidence, edges)
    count = jax.ops.segment_sum(jnp.ones_like(index), index, bins)

    def mean(values):
        total = jax.ops.segment_sum(values.astype(confidence.dtype), index, bins)
        return jnp.where(count > 0, total / jnp.maximum(count, 1), jnp.nan)

    return Reliability(jnp.asarray(edges, confidence.dtype), count, mean(correct), mean(confidence))


def edges_of(bins: int) -> np.ndarray:
    """The edges ``b/B`` of ``B`` bins.

    >>> edges_of(4).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if bins < 1:
        raise InputError(f"bins is {bins}; give at least one bin")
    return np.arange(bins + 1) / bins


def bin_index(values: Float[Array, " *batch"], edges: np.ndarray) -> Int[Array, " *batch"]:
    """Which interval ``(edges[b], edges[b+1]]`` holds each value; the ends are open outwards.

    The index is found by comparison with the edges, because ``ceil(value · bins)`` is wrong where
    the product rounds up (0.7 · 10 is more than 7).

    >>> bin_index(jnp.array([0.0, 0.2, 0.21, 1.0]), np.array([0.0, 0.2, 0.6, 1.0])).tolist()
    [0, 0, 1, 2]
    """
    slack = _EDGE_ROUNDINGS * jnp.finfo(values.dtype).eps
    inner = jnp.asarray(edges[1:-1], values.dtype) * (1 + slack)
    method = "compare_all" if len(edges) <= _FEW_EDGES else "scan"
    return jnp.searchsorted(inner, values, side="left", method=method)


@metric(
    "ECE",
    False,
    f"top label, {BINS} equal-width bins",
    "expected gap between confidence and accuracy",
    headline=True,
)
def ece(*, bins: int = BINS) -> Streaming:
    """Expected calibration error, ``Σ_b n_b/N |accuracy_b - confidence_b|``; empty bins skipped.

    Top label, equal-width bins. The value depends on the number of bins: always print it.
    torchmetrics, netcal and uncertainty-metrics define the same (they differ on what lies exactly
    on an edge). Reference: C. Guo et al., On calibration of modern neural networks, ICML 2017.

    >>> p = ClassPrediction.from_probs([[[0.8, 0.2], [0.8, 0.2]]])
    >>> round(float(ece(p, jnp.array([0, 1]))), 6)
    0.3
    """
    return Streaming(confidence_bins(bins), lambda bins: namespace(bins).sum(bins.share * bins.gap))


@metric(
    "MCE",
    False,
    f"top label, {BINS} equal-width bins",
    "largest gap between confidence and accuracy",
)
def mce(*, bins: int = BINS) -> Streaming:
    """Maximum calibration error, ``max_b |accuracy_b - confidence_b|`` over bins with rows.

    A bin of one row counts like any other, so the value is noisy where bins are thin.

    >>> p = ClassPrediction.from_probs([[[0.8, 0.2], [0.8, 0.2], [0.6, 0.4]]])
    >>> round(float(mce(p, jnp.array([0, 1, 0]))), 6)
    0.4
    """
    return Streaming(confidence_bins(bins), lambda bins: namespace(bins).max(bins.gap))


@metric(
    "RMSCE",
    False,
    f"top label, {BINS} equal-width bins",
    "root mean squared gap between confidence and accuracy",
)
def rmsce(*, bins: int = BINS) -> Streaming:
    """Root mean squared calibration error, ``(Σ_b n_b/N (accuracy_b - confidence_b)²)^½``.

    The same as torchmetrics' ``norm="l2"``.

    >>> p = ClassPrediction.from_probs([[[0.8, 0.2], [0.8, 0.2]]])
    >>> round(float(rmsce(p, jnp.array([0, 1]))), 6)
    0.3
    """
    return Streaming(confidence_bins(bins), _root_mean_squared_gap)


@metric(
    "Debiased RMSCE",
    False,
    f"top label, {BINS} equal-width bins, debiased, at least 0",
    "root mean squared gap minus its bias by chance",
)
def debiased_rmsce(*, bins: int = BINS) -> Streaming:
    """`rmsce` without the bias of finite bins, at least 0.

    ``(Σ_b n_b/N [(accuracy_b - confidence_b)² - accuracy_b (1 - accuracy_b)/(n_b - 1)])^½``; a bin
    of one row is not corrected. Reference: A. Kumar, P. Liang and T. Ma, NeurIPS 2019.

    >>> p = ClassPrediction.from_probs([[[0.8, 0.2]] * 5])
    >>> round(float(debiased_rmsce(p, jnp.array([0, 0, 0, 1, 1]))), 6)
    0.0
    """
    return Streaming(confidence_bins(bins), _debiased)


@metric(
    "Average calibration error",
    False,
    f"top label, {BINS} equal-width bins, unweighted mean over bins with rows",
    "gap between confidence and accuracy, every bin counting the same",
)
def average_calibration_error(*, bins: int = BINS) -> Streaming:
    """Unweighted mean of ``|accuracy_b - confidence_b|`` over the bins that hold rows.

    netcal calls this ACE; `ace` is Nixon's adaptive error of that name.

    >>> p = ClassPrediction.from_probs([[[0.8, 0.2], [0.8, 0.2], [0.6, 0.4]]])
    >>> round(float(average_calibration_error(p, jnp.array([0, 1, 0]))), 6)
    0.35
    """
    return Streaming(confidence_bins(bins), _plain_mean_gap)


@metric(
    "Adaptive ECE",
    False,
    f"top label, {BINS} bins of equal mass",
    "expected gap between confidence and accuracy in bins of equal mass",
)
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
    check_bins("bins", bins)
    conclude = partial(_top_label_error, bins=bins, norm=norm)
    bound = partial(_top_label_bound, bins=bins) if sketch and norm == "l1" else None
    return Streaming(confidence_ranking(sketch), conclude, bound)


class Binned(NamedTuple):
    """Rows before they are added up: bin, confidence, correctness and weight."""

    index: Any
    confidence: Any
    correct: Any
    weight: Any


def bin_sums(rows: Binned, bins: int) -> Bins:
    """The rows of each bin added up."""
    kept = rows.weight > 0

    def total(values):
        values = jnp.where(kept, values, 0).astype(rows.confidence.dtype)
        return jax.ops.segment_sum(values, rows.index, bins)

    return Bins(
        total(kept),
        total(rows.weight),
        total(rows.weight * rows.confidence),
        total(rows.weight * rows.correct),
    )


@cache
def confidence_bins(bins: int) -> Statistic:
    """Sums over equal-width bins of the confidence."""
    edges = edges_of(bins)

    def rows(view, weight):
        index = bin_index(view.confidence, edges)
        return Binned(index, view.confidence, view.correct, weight)

    return Statistic(rows, lambda rows: bin_sums(rows, bins))


def _root_mean_squared_gap(bins: Bins) -> Any:
    xp = namespace(bins)
    return xp.sqrt(xp.sum(bins.share * bins.gap**2))


def _debiased(bins: Bins) -> Any:
    xp = namespace(bins)
    accuracy = ratio(bins.correct, bins.weight)
    chance = ratio(accuracy * (1 - accuracy), bins.count - 1)
    return xp.sqrt(xp.maximum(xp.sum(bins.share * (bins.gap**2 - chance)), 0))


def _plain_mean_gap(bins: Bins) -> Any:
    xp = namespace(bins)
    return xp.sum(bins.gap) / xp.sum(bins.weight > 0)


def _top_label_error(blocks: Blocks, *, bins: int, norm: str) -> Any:
    xp = namespace(blocks)
    cuts = split_cuts(xp.sum(blocks.count), bins)
    sums = range_sums(blocks, cuts, score_sums(blocks))
    gap = ratio(abs(sums.weight - sums.hit - sums.score), sums.weight)
    return _NORMS[norm](sums.weight / xp.sum(sums.weight), gap, xp)


_NORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "l1": lambda share, gap, xp: xp.sum(share * gap),
    "l2": lambda share, gap, xp: xp.sqrt(xp.sum(share * gap**2)),
    "max": lambda share, gap, xp: xp.max(gap),
}


def _top_label_bound(blocks: Blocks, *, bins: int) -> Any:
    cuts = split_cuts(namespace(blocks).sum(blocks.count), bins)
    return cut_bound(blocks, cuts, blocks.weight - blocks.hit)
