"""Regression whose noise depends on the input, by its standard deviation."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credax.errors import InputError
from credax.likelihoods.gaussian import HeteroscedasticGaussian


class DeviationGaussian(HeteroscedasticGaussian):
    """As `HeteroscedasticGaussian`, with a standard deviation of ``softplus(raw)``.

    The variance is ``softplus(raw)² + floor²``, in standard units. A noise of 1 % needs ``raw``
    near -4.6 here, and near -9.2 where softplus gives the variance: a prior on the weights then
    pulls less towards large noise, and gradients change less. So it suits samplers of posteriors,
    such as MILE and HMC, where the noise is small. Reference: Sommer et al., Microcanonical
    Langevin ensembles, ICLR 2025.

    Targets that are rounded, such as grades, need a ``floor`` of their resolution over ``√12`` (see
    `rounding_noise`): without it the density at a whole number has no bound, and a long chain
    finds networks that are certain of one.

    >>> outputs = jnp.array([[0.0, -4.6]])
    >>> round(float(DeviationGaussian().moments(outputs)[1][0, 0]) ** 0.5, 3)
    0.01
    """

    floor: float = eqx.field(default=1e-3, static=True)

    def __check_init__(self):
        if not 0 < self.floor < 1:
            raise InputError(
                f"floor is {self.floor}; give a standard deviation between 0 and 1, in units of "
                "the targets' own"
            )

    def moments(self, outputs: Array) -> tuple[Array, Array]:
        """Means, and variances from raw standard deviations."""
        mean, raw = jnp.split(outputs, 2, axis=-1)
        return mean, jnp.square(jax.nn.softplus(raw)) + self.floor**2

    def with_floor(self, outputs, floor):
        """``σ = floor + (1 - floor) softplus(raw)``, as a raw standard deviation."""
        mean, raw = jnp.split(outputs, 2, axis=-1)
        deviation = floor + (1 - floor) * jax.nn.softplus(raw)
        # The inverse of softplus, without overflow.
        return jnp.concatenate([mean, deviation + jnp.log(-jnp.expm1(-deviation))], axis=-1)

    def with_least_noise(self, deviation):
        """With the greater of its own floor and this."""
        return dataclasses.replace(self, floor=float(np.clip(deviation, self.floor, 0.9)))

    def curvature_root(self, params, outputs, y):
        """``1/σ`` of the mean and, of the variance ``v(raw)``, ``v' / (√2 v)``."""
        _, raw = jnp.split(outputs, 2)
        deviation = jax.nn.softplus(raw)
        variance = jnp.square(deviation) + self.floor**2
        slope = jnp.sqrt(2.0).astype(raw.dtype) * deviation * jax.nn.sigmoid(raw) / variance
        return jnp.diag(jnp.concatenate([1 / jnp.sqrt(variance), slope]))

    def from_regressed(self, outputs, scale):
        """Means, followed by raw standard deviations."""
        deviation = np.sqrt(max(scale**2 - self.floor**2, self.floor**2))
        raw = np.log(np.expm1(deviation))
        return np.concatenate([outputs, np.full_like(outputs, raw)], axis=-1)


def rounding_noise(targets: np.ndarray) -> float:
    """Standard deviation of the rounding of targets that lie on a grid; 0 where they do not.

    Numbers rounded to a step ``s`` have an error of variance ``s²/12``. A grid is told by steps of
    one size and by values that come back, at least two times each on average.

    >>> round(rounding_noise(np.array([3, 4, 4, 5, 3, 5])), 4), rounding_noise(np.arange(5.0))
    (0.2887, 0.0)
    """
    values = np.asarray(targets, np.float64).ravel()
    distinct = np.unique(values)
    if len(distinct) < 2 or 2 * len(distinct) > len(values):
        return 0.0
    step = float(np.min(np.diff(distinct)))
    places = (distinct - distinct[0]) / step
    return step / 12**0.5 if np.allclose(places, np.rint(places), atol=1e-3) else 0.0
