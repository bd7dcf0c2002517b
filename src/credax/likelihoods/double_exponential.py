"""Regression with Laplace noise: absolute errors in place of squared ones."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from credax.distributions import LaplaceDistribution
from credax.likelihoods.gaussian import MeanAndVariance
from credax.likelihoods.learned import VARIANCE_FLOOR
from credax.mixture_prediction import MixturePrediction


class LaplaceNoise(MeanAndVariance):
    """Regression whose noise has a Laplace density and depends on the input.

    ``log p = -|y - mean| / b - log 2b`` with ``b² = variance / 2``; the network has two outputs per
    target, the mean and a raw variance, ``softplus(raw) + 1e-6``. An error counts by its absolute
    value, so that outliers move the mean less than with a Gaussian: the usual choice for depths.
    Laplace approximations take the Fisher information. Reference: Kendall, Gal, What uncertainties
    do we need in Bayesian deep learning for computer vision?, NeurIPS 2017.

    >>> outputs = jnp.array([[0.0, jnp.log(jnp.expm1(2.0))]])  # variance 2, so b = 1
    >>> round(float(LaplaceNoise().log_prob(outputs, jnp.array([1.0]))[0]), 4)
    -1.6931
    """

    def log_prob(self, outputs: Array, y: Float[Array, "batch *targets"]) -> Array:
        """Log-density of each row, summed over targets."""
        each = self._each(outputs)
        return jnp.sum(each.log_prob(jnp.reshape(y, each.loc.shape)), axis=-1)

    def predict(self, outputs: Float[Array, "members batch *grid outputs"]) -> MixturePrediction:
        """Mixture of the members' Laplace distributions."""
        return MixturePrediction(self._each(outputs))

    def curvature_root(self, params, outputs, y):
        """The root of the Fisher information: ``1/b`` of the mean, ``v' / 2v`` of the variance."""
        _, raw = jnp.split(outputs, 2)
        variance = jax.nn.softplus(raw) + VARIANCE_FLOOR
        slope = jax.nn.sigmoid(raw) / (2 * variance)
        return jnp.diag(jnp.concatenate([jnp.sqrt(2 / variance), slope]))

    def _each(self, outputs) -> LaplaceDistribution:
        mean, variance = self.moments(outputs)
        return LaplaceDistribution(mean, jnp.sqrt(variance / 2))
