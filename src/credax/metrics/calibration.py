"""Do the probabilities mean what they say: confidence against accuracy, bin by bin."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from credax.errors import InputError
from credax.prediction import ClassPrediction

BINS = 15
# Probabilities are stored as logarithms, so one that was written as exactly an edge (0.8) comes
# back a few roundings away from it; within this many it still counts as on the edge.
_EDGE_ROUNDINGS = 16


class Reliability(NamedTuple):
    """What a reliability diagram shows; empty bins have NaN accuracy and confidence."""

    edges: Float[Array, " edges"]
    counts: Int[Array, " bins"]
    accuracy: Float[Array, " bins"]
    confidence: Float[Array, " bins"]


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
    if bins < 1:
        raise InputError(f"bins is {bins}; give at least one bin")
    edges = np.arange(bins + 1) / bins
    index = bin_index(confidence, edges)
    count = jax.ops.segment_sum(jnp.ones_like(index), index, bins)

    def mean(values):
        total = jax.ops.segment_sum(values.astype(confidence.dtype), index, bins)
        return jnp.where(count > 0, total / jnp.maximum(count, 1), jnp.nan)

    return Reliability(jnp.asarray(edges, confidence.dtype), count, mean(correct), mean(confidence))


def bin_index(values: Float[Array, " batch"], edges: np.ndarray) -> Int[Array, " batch"]:
    """Which interval ``(edges[b], edges[b+1]]`` holds each value; the ends are open outwards.

    The index is found by comparison with the edges, because ``ceil(value · bins)`` is wrong where
    the product rounds up (0.7 · 10 is more than 7).

    >>> bin_index(jnp.array([0.0, 0.2, 0.21, 1.0]), np.array([0.0, 0.2, 0.6, 1.0])).tolist()
    [0, 0, 1, 2]
    """
    slack = _EDGE_ROUNDINGS * jnp.finfo(values.dtype).eps
    inner = jnp.asarray(edges[1:-1], values.dtype) * (1 + slack)
    return jnp.searchsorted(inner, values, side="left")


def ece(
    prediction: ClassPrediction, y: Int[Array, " batch"], *, bins: int = BINS
) -> Float[Array, ""]:
    """Expected calibration error, ``Σ_b n_b/N |accuracy_b - confidence_b|``; empty bins skipped.

    Top label, equal-width bins. The value depends on the number of bins: always print it.
    Reference: C. Guo et al., On calibration of modern neural networks, ICML 2017.

    >>> p = ClassPrediction.from_probs([[[0.8, 0.2], [0.8, 0.2]]])
    >>> round(float(ece(p, jnp.array([0, 1]))), 6)
    0.3
    """
    table = reliability(prediction, y, bins=bins)
    gap = jnp.where(table.counts > 0, jnp.abs(table.accuracy - table.confidence), 0.0)
    return jnp.sum(table.counts * gap) / jnp.sum(table.counts)
