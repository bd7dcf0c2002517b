"""Scores of real-valued predictions: the error of the mean, and the honesty of the spread."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.prediction import GaussianPrediction


def rmse(prediction: GaussianPrediction, y: Float[Array, "batch *targets"]) -> Float[Array, ""]:
    """Root mean squared error of the mixture's mean, over rows and targets, in the unit of ``y``.

    >>> p = GaussianPrediction(jnp.array([[[1.0], [2.0]]]), jnp.ones((1, 2, 1)))
    >>> round(float(rmse(p, jnp.array([4.0, 6.0]))), 5)
    3.53553
    """
    return jnp.sqrt(jnp.mean(jnp.square(prediction.mean - _like(y, prediction))))


def moment_matched_nll(
    prediction: GaussianPrediction, y: Float[Array, "batch *targets"]
) -> Float[Array, ""]:
    """Negative log-likelihood of one Gaussian with the mixture's mean and variance, nats a row.

    This is what many papers on ensembles report; `nll` is that of the mixture itself.

    >>> p = GaussianPrediction(jnp.array([[[1.0]], [[3.0]]]), jnp.array([[[0.5]], [[1.5]]]))
    >>> round(float(moment_matched_nll(p, jnp.array([2.0]))), 5)
    1.26551
    """
    return -jnp.mean(prediction.log_prob(y, moment_matched=True))


def coverage(
    prediction: GaussianPrediction, y: Float[Array, "batch *targets"], *, level: float = 0.9
) -> Float[Array, ""]:
    """Share of targets inside the mixture's central interval of a level; right when equal to it.

    >>> p = GaussianPrediction(jnp.zeros((1, 3, 1)), jnp.ones((1, 3, 1)))
    >>> round(float(coverage(p, jnp.array([0.0, 1.6, 1.7]))), 4)
    0.6667
    """
    return coverage_curve(prediction, y, levels=(level,))[0]


def coverage_curve(
    prediction: GaussianPrediction,
    y: Float[Array, "batch *targets"],
    *,
    levels: tuple[float, ...] = tuple(np.arange(1, 20) / 20),
) -> Float[Array, " levels"]:
    """`coverage` at many levels: the calibration of the quantiles.

    With ``F`` the mixture's distribution function, ``y`` is between the quantiles ``(1 ± level)/2``
    exactly when ``|2 F(y) - 1| <= level``, so no quantile is searched for.
    """
    if not all(0.0 < level < 1.0 for level in levels):
        raise InputError(f"levels is {levels}; an interval's level lies strictly between 0 and 1")
    away = jnp.abs(2 * prediction.cdf(y) - 1)
    inside = away.reshape(-1) <= jnp.asarray(levels, away.dtype)[:, None]
    return jnp.mean(inside, axis=1, dtype=away.dtype)


def _like(y: Array, prediction: GaussianPrediction) -> Array:
    # The mean of a single target has no trailing axis; y may have one.
    mean = prediction.mean
    y = jnp.asarray(y)
    if y.shape != mean.shape and y.shape != prediction.means.shape[1:]:
        raise InputError(f"y has shape {y.shape}; this prediction needs {mean.shape}")
    return y.reshape(mean.shape)
