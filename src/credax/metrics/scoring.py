"""Scores of whole predictions: how often right, and how much probability the truth received."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from credax.prediction import ClassPrediction, Prediction


def accuracy(prediction: ClassPrediction, y: Int[Array, " batch"]) -> Float[Array, ""]:
    """Share of rows whose most probable class is the label: ``mean 1[argmax p̄ = y]``.

    ``p̄`` is the mean of the members' probabilities; ties go to the lowest class.

    >>> p = ClassPrediction.from_probs([[[0.9, 0.1], [0.4, 0.6]]])
    >>> float(accuracy(p, jnp.array([0, 0])))
    0.5
    """
    return jnp.mean(prediction.label == y, dtype=prediction.log_probs.dtype)


def nll(prediction: Prediction, y: Array) -> Float[Array, ""]:
    """Negative log-likelihood of the mixture, ``-mean log (1/M) Σ_m p_m(y)``, in nats a row.

    Classes: ``y`` is ``[batch]`` integers, and a probability below the smallest normal float
    counts as that float (`clipped` says how often), so one impossible label cannot make the mean
    infinite. Regression: ``y`` is ``[batch]`` or ``[batch, targets]``, densities are summed over
    targets, never clipped, and the value depends on the unit of ``y``.

    >>> p = ClassPrediction.from_probs([[[0.5, 0.5], [0.25, 0.75]]])
    >>> round(float(nll(p, jnp.array([0, 0]))), 4)
    1.0397
    """
    log_prob = prediction.log_prob(y)
    if isinstance(prediction, ClassPrediction):
        log_prob = jnp.maximum(log_prob, _smallest_log(log_prob))
    return -jnp.mean(log_prob)


def clipped(prediction: ClassPrediction, y: Int[Array, " batch"]) -> Int[Array, ""]:
    """In how many rows `nll` counted the smallest float in place of the label's probability.

    >>> p = ClassPrediction.from_probs([[[1.0, 0.0], [0.0, 1.0]]])
    >>> int(clipped(p, jnp.array([0, 0])))
    1
    """
    log_prob = prediction.log_prob(y)
    return jnp.sum(log_prob < _smallest_log(log_prob))


def brier(prediction: ClassPrediction, y: Int[Array, " batch"]) -> Float[Array, ""]:
    """Brier score of the mixture, ``mean Σ_k (p̄_k - 1[y = k])²``, between 0 and 2.

    The sum over classes is Brier's own form; some packages divide it by the number of classes.
    Reference: G. W. Brier, Monthly Weather Review 78, 1950.

    >>> p = ClassPrediction.from_probs([[[0.5, 0.5], [0.0, 1.0]]])
    >>> float(brier(p, jnp.array([0, 0])))
    1.25
    """
    probs = prediction.probs
    truth = jax.nn.one_hot(y, probs.shape[-1], dtype=probs.dtype)
    return jnp.mean(jnp.sum(jnp.square(probs - truth), axis=-1))


def _smallest_log(log_prob: Array) -> Array:
    return jnp.log(jnp.finfo(log_prob.dtype).tiny)
