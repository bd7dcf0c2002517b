"""Likelihoods of counts, with the logarithm as link."""

from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from credax.distributions import NegativeBinomialDistribution, PoissonDistribution
from credax.errors import InputError
from credax.likelihoods.base import Likelihood
from credax.likelihoods.checks import check_counts
from credax.likelihoods.learned import Level, OneLevel, check_level
from credax.mixture_prediction import MixturePrediction

DISPERSION_FLOOR = 1e-3
"""Below it a negative binomial is a Poisson up to rounding in single precision."""


class Poisson(Likelihood):
    """Counts by a Poisson distribution with log link: ``y ~ Poisson(exp(output))``.

    Targets are never standardised. A prediction is a mixture of Poisson distributions, one per
    member; aleatoric uncertainty is the members' mean rate.

    >>> round(float(Poisson().log_prob(jnp.zeros((1, 1)), jnp.array([2.0]))[0]), 6)
    -1.693147
    """

    task: ClassVar[Literal["classification", "regression"]] = "regression"
    raw_targets: ClassVar[bool] = True

    def log_prob(self, outputs: Array, y: Array) -> Array:
        """``y f - exp(f) - log y!``, summed over targets."""
        y = jnp.asarray(y, outputs.dtype).reshape(outputs.shape)
        terms = y * outputs - jnp.exp(outputs) - jax.scipy.special.gammaln(y + 1)
        return jnp.sum(terms, axis=-1)

    def predict(self, outputs: Float[Array, "members batch *grid outputs"]) -> MixturePrediction:
        """Mixture of the members' Poisson distributions."""
        return MixturePrediction(PoissonDistribution(jnp.exp(outputs)))

    def check(self, y: np.ndarray, outputs: int) -> None:
        """Counts, one per output."""
        check_counts(y, outputs, "Poisson")

    def curvature_root(self, params, outputs, y):
        """``√exp(f)``: the second derivative does not depend on ``y``."""
        return jnp.diag(jnp.exp(0.5 * outputs))


class NegativeBinomial(OneLevel):
    """Counts with a larger variance than Poisson: mean ``μ = exp(output)``, variance ``μ + α μ²``.

    ``dispersion`` is ``α``, or ``"learned"``: then one number per target is learned with the
    network, starting at ``initial²``, outside the prior. A prediction is a mixture of negative
    binomial distributions.

    >>> round(float(NegativeBinomial(0.5).log_prob(jnp.zeros((1, 1)), jnp.array([2.0]))[0]), 4)
    -1.9095
    """

    dispersion: Level = "learned"
    initial: float = eqx.field(default=0.5, static=True)

    raw_targets: ClassVar[bool] = True

    def __check_init__(self):
        check_level("dispersion", self.dispersion, self.initial)
        known = not self.learns and not isinstance(self.dispersion, Tracer)
        if known and not np.all(np.asarray(self.dispersion) >= DISPERSION_FLOOR):
            raise InputError(
                f"dispersion is {self.dispersion}; it is at least {DISPERSION_FLOOR}: below, use "
                "Poisson"
            )

    def level(self) -> tuple[Level, float]:
        """The dispersion, and where a learned one starts."""
        return self.dispersion, self.initial

    def log_prob(self, outputs: Array, y: Array) -> Array:
        """Log-probability of each row, summed over targets."""
        counts = self._counts(outputs)
        return jnp.sum(counts.log_prob(jnp.reshape(y, counts.rate.shape)), axis=-1)

    def predict(self, outputs: Float[Array, "members batch *grid outputs"]) -> MixturePrediction:
        """Mixture of the members' negative binomial distributions."""
        return MixturePrediction(self._counts(outputs))

    def check(self, y: np.ndarray, outputs: int) -> None:
        """Counts, one per output."""
        check_counts(y, outputs // 2 if self.learns else outputs, "NegativeBinomial")

    def curvature_root(self, params, outputs, y):
        """The root of the Fisher information in ``log μ``, ``μ / (1 + α μ)``."""
        counts = self._counts(self.all_outputs(params, outputs))
        return jnp.diag(jnp.sqrt(counts.rate / (1 + counts.dispersion * counts.rate)))

    def _counts(self, outputs) -> NegativeBinomialDistribution:
        if self.learns:
            logs, raw = jnp.split(outputs, 2, axis=-1)
            dispersion = jax.nn.softplus(raw) + DISPERSION_FLOOR
        else:
            given: Any = self.dispersion
            logs, dispersion = outputs, jnp.full_like(outputs, given)
        return NegativeBinomialDistribution(jnp.exp(logs), dispersion)
