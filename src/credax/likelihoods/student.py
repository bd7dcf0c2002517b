"""Regression with heavy tails: Student's t."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from credax.distributions import StudentTDistribution
from credax.errors import InputError
from credax.likelihoods.learned import (
    Level,
    OneLevel,
    check_level,
    split_variance,
)
from credax.mixture_prediction import MixturePrediction


class StudentT(OneLevel):
    """Regression that outliers move little: ``(y - output) / noise`` is Student's t.

    ``degrees`` of freedom are above 2, so that there is a variance; many are a Gaussian. ``noise``
    is the scale in standard units, or ``"learned"``: one number per target, starting at
    ``initial``, outside the prior. A prediction is a mixture of Student distributions; aleatoric
    is their variance, ``noise² ν / (ν - 2)``. The log-density is not concave, so a mode need not be
    the only one; Laplace takes the Fisher information.

    >>> round(float(StudentT(4.0, 1.0).log_prob(jnp.zeros((1, 1)), jnp.array([2.0]))[0]), 6)
    -2.713697
    """

    degrees: float = eqx.field(default=4.0, static=True)
    noise: Level = "learned"
    initial: float = eqx.field(default=1.0, static=True)

    def __check_init__(self):
        if not (math.isfinite(self.degrees) and self.degrees > 2):
            raise InputError(
                f"degrees is {self.degrees}; it is above 2, so that there is a variance"
            )
        check_level("noise", self.noise, self.initial)

    def level(self) -> tuple[Level, float]:
        """The noise, and where a learned one starts."""
        return self.noise, self.initial

    def log_prob(self, outputs: Array, y: Float[Array, "batch *targets"]) -> Array:
        """Log-density of each row, summed over targets."""
        each = self._each(outputs)
        return jnp.sum(each.log_prob(jnp.reshape(y, each.loc.shape)), axis=-1)

    def predict(self, outputs: Float[Array, "members batch *grid outputs"]) -> MixturePrediction:
        """Mixture of the members' Student distributions."""
        return MixturePrediction(self._each(outputs))

    def curvature_root(self, params, outputs, y):
        """The root of the Fisher information, ``(ν + 1) / ((ν + 3) noise²)``."""
        each = self._each(self.all_outputs(params, outputs))
        return jnp.diag(math.sqrt((self.degrees + 1) / (self.degrees + 3)) / each.scale)

    def _each(self, outputs) -> StudentTDistribution:
        if self.learns:
            loc, variance = split_variance(outputs)
            scale = jnp.sqrt(variance)
        else:
            noise: Any = self.noise
            loc, scale = outputs, jnp.full_like(outputs, noise)
        return StudentTDistribution(loc, scale, jnp.full_like(loc, self.degrees))
