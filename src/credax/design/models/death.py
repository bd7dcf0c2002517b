"""A population that dies at an unknown rate: when to count?"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, ndtri, xlog1py, xlogy
from jax.scipy.stats import norm

from credax.design.model import DesignModel

LARGEST = 11.0
"""The prior has no mass beyond that double precision can see."""
_LEFT = 0.15865525393145707
"""Mass of a standard normal below -1, which is cut off."""


def death_process(individuals: int = 50, latest: float = 3.0, nodes: int = 2000) -> DesignModel:
    """``θ ~ N(1, 1)`` cut off below 0; ``y ~ Binomial(individuals, 1 - exp(-ξ θ))`` are dead at
    time ``ξ``. ``nodes`` is the size of the Gauss-Legendre rule of the prior.

    Reference: Foster et al., Deep adaptive design, ICML 2021, and the papers cited there.
    """

    def log_prob(y, theta, time):
        # A float: the gradient by the time does not pass a whole number. Below zero, where the
        # prior has no mass, the density is that of a rate near zero and not NaN.
        y, alive = jnp.asarray(y, float), -time * jnp.maximum(theta, 1e-6)
        dead = -jnp.expm1(alive)
        count = individuals
        choose = gammaln(count + 1.0) - gammaln(y + 1.0) - gammaln(count - y + 1.0)
        return choose + xlogy(y, dead) + (count - y) * alive

    def log_prior(theta):
        density = norm.logpdf(theta, 1, 1) - xlog1py(1.0, -_LEFT)
        return jnp.where(theta > 0, density, -jnp.inf)

    def sample_prior(key):
        # By inversion of the part above zero.
        u = jax.random.uniform(key, minval=1e-6, maxval=1 - 1e-6)
        return jnp.maximum(1 + ndtri(_LEFT + (1 - _LEFT) * u), 1e-6)

    def sample(key, theta, time):
        dead = -jnp.expm1(-time * theta)
        drawn = jax.random.uniform(key, (individuals,)) < dead
        return drawn.sum().astype(jnp.int32)

    def rule():
        z, weights = np.polynomial.legendre.leggauss(nodes)
        theta = jnp.asarray((z + 1) * LARGEST / 2)
        return theta, jnp.asarray(weights) * jnp.exp(norm.logpdf(theta, 1, 1))

    return DesignModel(
        prior_sample=sample_prior,
        prior_log_prob=log_prior,
        outcome_sample=sample,
        outcome_log_prob=log_prob,
        outcomes=np.arange(individuals + 1, dtype=np.int32),
        nodes=rule,
        designs=np.arange(0.1, latest + 0.05, 0.1).round(1),
        bounds=(0.01, latest),
        name="death-process",
        title="Death process",
    )
