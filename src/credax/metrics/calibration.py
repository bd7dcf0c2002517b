"""Do the probabilities mean what they say: confidence against accuracy, bin by bin.

Bins are of equal width, bin ``b`` being ``(b/B, (b+1)/B]`` with 0 in the first. Bins of equal mass
are in `credax.metrics.equal_mass`, and no bins at all in `credax.metrics.smooth`.
"""

from functools import cache
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from credax.errors import InputError
from credax.metrics.namespace import namespace, ratio
from credax.metrics.streamed import streamed
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
    """Sums over the rows of each bin, ``[..., bins]``: rows, weights, confidence, right ones."""

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
    prediction: ClassPrediction, y: Int[Array, " batch"], *, bins: int = BINS
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
    """`reliability` for any score in [0, 1] and whether each row was right."""
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


@streamed
def ece(*, bins: int = BINS) -> Streaming:
    """Expected calibration error, ``Σ_b n_b/N |accuracy_b - confidence_b|``; empty bins skipped.

    Top label, equal-width bins. The value depends on the number of bins: always print it.
    torchmetrics, netcal and uncertainty-metrics define the same (they differ on what lies exactly
    on an edge). Reference: C. Guo et al., On calibration of modern neural networks, ICML 2017.

    >>> p = ClassPrediction.from_probs([[[0.8, 0.2], [0.8, 0.2]]])
    >>> round(float(ece(p, jnp.array([0, 1]))), 6)
    0.3
    """
    return Streaming(confidence_bins(bins), _mean_gap)


@streamed
def mce(*, bins: int = BINS) -> Streaming:
    """Maximum calibration error, ``max_b |accuracy_b - confidence_b|`` over bins with rows.

    A bin of one row counts like any other, so the value is noisy where bins are thin.

    >>> p = ClassPrediction.from_probs([[[0.8, 0.2], [0.8, 0.2], [0.6, 0.4]]])
    >>> round(float(mce(p, jnp.array([0, 1, 0]))), 6)
    0.4
    """
    return Streaming(confidence_bins(bins), _largest_gap)


@streamed
def rmsce(*, bins: int = BINS) -> Streaming:
    """Root mean squared calibration error, ``(Σ_b n_b/N (accuracy_b - confidence_b)²)^½``.

    The same as torchmetrics' ``norm="l2"``.

    >>> p = ClassPrediction.from_probs([[[0.8, 0.2], [0.8, 0.2]]])
    >>> round(float(rmsce(p, jnp.array([0, 1]))), 6)
    0.3
    """
    return Streaming(confidence_bins(bins), _root_mean_squared_gap)


@streamed
def debiased_rmsce(*, bins: int = BINS) -> Streaming:
    """`rmsce` less what chance alone puts into it, at least 0.

    ``(Σ_b n_b/N [(accuracy_b - confidence_b)² - accuracy_b (1 - accuracy_b)/(n_b - 1)])^½``; a bin
    of one row is not corrected. Reference: A. Kumar, P. Liang and T. Ma, NeurIPS 2019.

    >>> p = ClassPrediction.from_probs([[[0.8, 0.2]] * 5])
    >>> round(float(debiased_rmsce(p, jnp.array([0, 0, 0, 1, 1]))), 6)
    0.0
    """
    return Streaming(confidence_bins(bins), _debiased)


@streamed
def average_calibration_error(*, bins: int = BINS) -> Streaming:
    """Unweighted mean of ``|accuracy_b - confidence_b|`` over the bins that hold rows.

    netcal calls this ACE; `ace` is Nixon's adaptive error of that name.

    >>> p = ClassPrediction.from_probs([[[0.8, 0.2], [0.8, 0.2], [0.6, 0.4]]])
    >>> round(float(average_calibration_error(p, jnp.array([0, 1, 0]))), 6)
    0.35
    """
    return Streaming(confidence_bins(bins), _plain_mean_gap)


@streamed
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
    return Streaming(class_bins(bins), _class_mean_gap if reduce == "mean" else _class_sum_gap)


class Binned(NamedTuple):
    """Rows before they are added up: which bin, how sure, whether right, how heavy."""

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


@cache
def class_bins(bins: int) -> Statistic:
    """Sums over equal-width bins of every class's probability, ``[classes, bins]``."""
    edges = edges_of(bins)

    def rows(view, weight):
        return Binned(bin_index(view.probs, edges), view.probs, view.y, weight)

    return Statistic(rows, lambda rows: class_sums(rows, bins))


def class_sums(rows: Binned, bins: int) -> Bins:
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


def _mean_gap(bins: Bins) -> Any:
    return namespace(bins).sum(bins.share * bins.gap)


def _largest_gap(bins: Bins) -> Any:
    return namespace(bins).max(bins.gap)


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


def _class_sum_gap(bins: Bins) -> Any:
    return namespace(bins).sum(bins.share * bins.gap)


def _class_mean_gap(bins: Bins) -> Any:
    return _class_sum_gap(bins) / bins.weight.shape[0]
