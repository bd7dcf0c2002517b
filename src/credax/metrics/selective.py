"""What is gained by answering only where the prediction is confident."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from credax.prediction import ClassPrediction


def risk_coverage(
    prediction: ClassPrediction, y: Int[Array, " batch"]
) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
    """Error rate among the ``k`` most confident rows, for every coverage ``k/N``.

    Returns ``(coverage, risk)``, both ``[batch]``: ``risk[k-1] = (1/k) Σ_{i≤k} error_i`` with rows
    sorted by falling confidence. Rows of equal confidence have no order, so each counts as the mean
    error of its tied block. Reference: Y. Geifman and R. El-Yaniv, NeurIPS 2017.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]])
    >>> risk_coverage(p, jnp.array([0, 1, 0]))[1].round(4).tolist()
    [0.0, 0.5, 0.33329999446868896]
    """
    return risk_coverage_of(prediction.confidence, prediction.label != y)


def risk_coverage_of(
    score: Float[Array, " batch"], error: Array
) -> tuple[Float[Array, " batch"], Float[Array, " batch"]]:
    """`risk_coverage` for any score (larger is surer) and any error a row."""
    rows = score.shape[0]
    order = jnp.argsort(-score)
    score, error = score[order], error[order].astype(score.dtype)
    starts = jnp.concatenate([jnp.zeros(1, bool), score[1:] != score[:-1]])
    block = jnp.cumsum(starts)
    size = jax.ops.segment_sum(jnp.ones_like(error), block, rows)
    mean = jax.ops.segment_sum(error, block, rows) / jnp.maximum(size, 1)
    answered = jnp.arange(1, rows + 1, dtype=score.dtype)
    return answered / rows, jnp.cumsum(mean[block]) / answered
