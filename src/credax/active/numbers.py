"""Scores of predictions of numbers: information in nats under mixtures of Gaussians."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.mixing import Weights, member_mean, spread
from credax.prediction import GaussianPrediction, RegressionPrediction

NODES = 64


def bald_of_numbers(
    prediction: RegressionPrediction, quadrature: bool = False
) -> Float[Array, " batch"]:
    """Mutual information of the targets and the member: of one Gaussian, or by quadrature."""
    gaussian = _gaussian(prediction, "bald")
    means, variances = jnp.asarray(gaussian.means), jnp.asarray(gaussian.variances)
    shares = gaussian.weights
    own = member_mean(jnp.sum(jnp.log(variances), axis=-1), shares)
    if quadrature:
        entropy = _mixture_entropy(_one_target(means, "quadrature"), variances[..., 0], shares)
        own = own + jnp.log(2 * jnp.pi * jnp.e)
        return jnp.maximum(entropy - 0.5 * own, 0.0)
    gaps = means - member_mean(means, shares)
    noise = member_mean(variances, shares)
    if means.shape[-1] == 1:
        log_total = jnp.log(noise[..., 0] + member_mean(jnp.square(gaps[..., 0]), shares))
    else:
        counted = gaps if shares is None else len(means) * spread(shares, gaps) * gaps
        between = jnp.einsum("sbi,sbj->bij", counted, gaps) / len(means)
        total = between + noise[:, :, None] * jnp.eye(means.shape[-1], dtype=noise.dtype)
        log_total = jnp.linalg.slogdet(total)[1]
    return jnp.maximum(0.5 * (log_total - own), 0.0)


def epig_of_numbers(
    prediction: RegressionPrediction, targets: RegressionPrediction
) -> Float[Array, " batch"]:
    """``mean_x* -½ log(1 - ρ²)``, the information between two numbers that are jointly Gaussian."""
    here, there = _gaussian(prediction, "epig"), _gaussian(targets, "epig")
    own = _one_target(jnp.asarray(here.means), "epig")
    other = _one_target(jnp.asarray(there.means), "epig")
    shares = here.weights
    own, other = own - member_mean(own, shares), other - member_mean(other, shares)
    counted = own if shares is None else len(own) * spread(shares, own) * own
    covariance = counted.T @ other / len(own)
    squared = jnp.square(covariance) / (here.var[:, None] * there.var[None, :])
    return jnp.mean(-0.5 * jnp.log1p(-squared), axis=1)


def _mixture_entropy(
    means: Float[Array, "members batch"],
    variances: Float[Array, "members batch"],
    shares: Weights = None,
) -> Float[Array, " batch"]:
    """``-E log p(y)`` of a mixture of Gaussians, each one's part by Gauss-Hermite quadrature."""
    points, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = jnp.asarray(weights / weights.sum(), means.dtype)
    deviations = jnp.sqrt(variances)

    def member(item):
        mean, deviation = item
        y = mean + deviation * jnp.asarray(points, means.dtype)[:, None]
        z = (y[:, None] - means) / deviations
        each = -0.5 * (jnp.log(2 * jnp.pi) + jnp.square(z)) - jnp.log(deviations)
        if shares is not None:
            each = each + jnp.log(len(means) * spread(shares, means))
        return weights @ (logsumexp(each, axis=1) - jnp.log(len(means)))

    return -member_mean(jax.lax.map(member, (means, deviations)), shares)


def _gaussian(prediction: RegressionPrediction, score: str) -> GaussianPrediction:
    if not isinstance(prediction, GaussianPrediction):
        raise InputError(
            f"{score} of numbers needs Gaussian predictions and these are a "
            f"{type(prediction).__name__}; use variance"
        )
    return prediction


def _one_target(values: Array, what: str) -> Float[Array, "members batch"]:
    if values.shape[-1] != 1:
        raise InputError(
            f"{what} is for one target and the prediction has {values.shape[-1]}; use variance, "
            "or bald without quadrature"
        )
    return values[..., 0]
