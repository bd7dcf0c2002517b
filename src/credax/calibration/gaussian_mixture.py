"""Distribution function, density, quantiles and moments of a mixture of Gaussians in float64.

`GaussianPrediction` works in the dtype it holds; a recalibrated tail needs more digits, and many
levels at once, so both are here, on the host or in a scope of jax's double precision.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Float
from scipy.special import logsumexp
from scipy.special import ndtr as host_ndtr

from credax.mixing import Weights, member_mean
from credax.prediction import GaussianPrediction

_HALVINGS = 60


def mixture_cdf(
    prediction: GaussianPrediction, y: Float[np.ndarray, "batch targets"]
) -> Float[np.ndarray, "batch targets"]:
    """The mixture's distribution function at ``y``, target by target."""
    means = np.asarray(prediction.means, np.float64)
    deviations = np.sqrt(np.asarray(prediction.variances, np.float64))
    each = host_ndtr((y - means) / deviations)
    if prediction.weights is None:
        return each.mean(axis=0)
    return np.average(each, axis=0, weights=prediction.weights)


def mixture_log_density(
    prediction: GaussianPrediction, y: Float[np.ndarray, "batch targets"]
) -> Float[np.ndarray, "batch targets"]:
    """The logarithm of the mixture's density at ``y``, target by target."""
    variances = np.asarray(prediction.variances, np.float64)
    squares = np.square(y - np.asarray(prediction.means, np.float64)) / variances
    each = -0.5 * (np.log(2 * np.pi * variances) + squares)
    return log_mixture(each, prediction.weights)


def log_mixture(values: Float[np.ndarray, "members ..."], weights: Weights) -> np.ndarray:
    """``log Σ_m w_m exp v_m`` on the host."""
    if weights is None:
        return logsumexp(values, axis=0) - np.log(len(values))
    with np.errstate(divide="ignore"):
        logs = np.log(weights).reshape((-1,) + (1,) * (values.ndim - 1))
    return np.asarray(logsumexp(values + logs, axis=0))


def mixture_quantiles(
    means: Float[np.ndarray, "members batch"],
    variances: Float[np.ndarray, "members batch"],
    levels: Float[np.ndarray, "levels *batch"],
    weights: Weights = None,
) -> Float[np.ndarray, "levels batch"]:
    """The mixture's quantiles at many levels (or rows of levels); infinite at level 0 or 1."""
    with jax.enable_x64(True):
        arrays = (jnp.asarray(a, jnp.float64) for a in (means, variances, levels))
        return np.asarray(_quantiles(*arrays, weights))


@partial(jax.jit, static_argnums=3)
def _quantiles(means, variances, levels, weights):
    return jax.lax.map(partial(_quantile, weights, means, jnp.sqrt(variances)), levels)


def _quantile(weights, means, deviations, level):
    # The mixture's quantile lies between the least and the greatest of its members' quantiles.
    each = means + deviations * ndtri(level)

    def halve(_, bounds):
        low, high = bounds
        middle = 0.5 * (low + high)
        below = member_mean(ndtr((middle - means) / deviations), weights) < level
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.fori_loop(0, _HALVINGS, halve, (each.min(axis=0), each.max(axis=0)))
    return 0.5 * (low + high)


def partial_moments(
    means: Float[np.ndarray, "members batch"],
    variances: Float[np.ndarray, "members batch"],
    ends: Float[np.ndarray, "ends batch"],
    weights: Weights = None,
) -> Float[np.ndarray, "3 ends batch"]:
    """``∫ (1, t, t²) f(t) dt`` up to each end, for the mixture's density ``f``.

    For one Gaussian with ``z = (end - μ)/σ``: ``Φ(z)``, ``μ Φ(z) - σ φ(z)`` and
    ``(μ² + σ²) Φ(z) - σ (2 μ + σ z) φ(z)``.
    """
    total = np.zeros((3, *ends.shape))
    shares = (1.0,) * len(means) if weights is None else weights
    for share, mean, deviation in zip(shares, means, np.sqrt(variances), strict=True):
        z = (ends - mean) / deviation
        below = host_ndtr(z)
        height = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
        # At an infinite end the density times z is zero, not infinity times zero.
        tilt = np.where(np.isfinite(z), z, 0.0) * height
        total[0] += share * below
        total[1] += share * (mean * below - deviation * height)
        total[2] += share * (
            (mean**2 + deviation**2) * below - deviation * (2 * mean * height + deviation * tilt)
        )
    return total / len(means) if weights is None else total
