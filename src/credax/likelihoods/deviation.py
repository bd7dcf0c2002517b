"""Regression whose noise depends on the input, by its standard deviation."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credax.likelihoods.gaussian import HeteroscedasticGaussian
from credax.likelihoods.learned import VARIANCE_FLOOR


class DeviationGaussian(HeteroscedasticGaussian):
    """As `HeteroscedasticGaussian`, with a standard deviation of ``softplus(raw)``.

    The variance is ``softplus(raw)² + 1e-6``, in standard units. A noise of 1 % needs ``raw`` near
    -4.6 here, and near -9.2 where softplus gives the variance: a prior on the weights then pulls
    less towards large noise, and gradients change less. So it suits samplers of posteriors, such as
    MILE and HMC, where the noise is small. Reference: Sommer et al., Microcanonical Langevin
    ensembles, ICLR 2025.

    >>> outputs = jnp.array([[0.0, -4.6]])
    >>> round(float(DeviationGaussian().moments(outputs)[1][0, 0]) ** 0.5, 3)
    0.01
    """

    def moments(self, outputs: Array) -> tuple[Array, Array]:
        """Means, and variances from raw standard deviations."""
        mean, raw = jnp.split(outputs, 2, axis=-1)
        return mean, jnp.square(jax.nn.softplus(raw)) + VARIANCE_FLOOR

    def with_floor(self, outputs, floor):
        """``σ = floor + (1 - floor) softplus(raw)``, as a raw standard deviation."""
        mean, raw = jnp.split(outputs, 2, axis=-1)
        deviation = floor + (1 - floor) * jax.nn.softplus(raw)
        # The inverse of softplus, without overflow.
        return jnp.concatenate([mean, deviation + jnp.log(-jnp.expm1(-deviation))], axis=-1)

    def curvature_root(self, params, outputs, y):
        """``1/σ`` of the mean and, of the variance ``v(raw)``, ``v' / (√2 v)``."""
        _, raw = jnp.split(outputs, 2)
        deviation = jax.nn.softplus(raw)
        variance = jnp.square(deviation) + VARIANCE_FLOOR
        slope = jnp.sqrt(2.0).astype(raw.dtype) * deviation * jax.nn.sigmoid(raw) / variance
        return jnp.diag(jnp.concatenate([1 / jnp.sqrt(variance), slope]))

    def from_regressed(self, outputs, scale):
        """Means, followed by raw standard deviations."""
        raw = np.log(np.expm1(np.sqrt(scale**2 - VARIANCE_FLOOR)))
        return np.concatenate([outputs, np.full_like(outputs, raw)], axis=-1)
