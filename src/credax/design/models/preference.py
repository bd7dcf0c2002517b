"""Which of two baskets is better, and by how much? Parameters of a utility."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, log_ndtr, logit
from jax.scipy.stats import norm

from credax.design.model import DesignModel

GOODS = 3
EPSILON = 2.0**-22


def preference(noise: float = 0.005) -> DesignModel:
    """The constant elasticity of substitution: ``U(x) = (Σ_i α_i x_i^ρ)^(1/ρ)`` of three goods.

    ``η ~ N(u (U(x) - U(x')), noise² u² (1 + |x - x'|)²)`` and ``y`` is ``sigmoid(η)``, censored to
    ``[ε, 1 - ε]`` with ``ε = 2^-22``: an answer at either end has a probability, one between them a
    density. ``ρ ~ Beta(1, 1)``, ``α ~ Dirichlet(1, 1, 1)``, ``log u ~ N(1, 3²)``; a design is both
    baskets, six numbers from 0 to 100. Reference: Foster et al., A unified stochastic gradient
    approach to designing Bayesian-optimal experiments, AISTATS 2020.
    """

    def utility(basket, theta):
        rho = theta["rho"]
        terms = theta["alpha"] * jnp.exp(rho * jnp.log(jnp.maximum(basket, 1e-6)))
        return jnp.exp(jnp.log(terms.sum()) / rho)

    def moments(theta, xi):
        one, other = xi[:GOODS], xi[GOODS:]
        scale = jnp.exp(theta["log_u"])
        distance = jnp.sqrt(jnp.square(one - other).sum() + 1e-12)
        mean = scale * (utility(one, theta) - utility(other, theta))
        return mean, noise * scale * (1 + distance)

    def sample_prior(key):
        first, second, third = jax.random.split(key, 3)
        exponentials = jax.random.exponential(second, (GOODS,)) + 1e-6
        return {
            "rho": jax.random.uniform(first, minval=0.01, maxval=1.0),
            "alpha": exponentials / exponentials.sum(),
            "log_u": 1 + 3 * jax.random.normal(third),
        }

    def log_prior(theta):
        return gammaln(float(GOODS)) + norm.logpdf(theta["log_u"], 1, 3)

    def sample(key, theta, xi):
        mean, std = moments(theta, xi)
        return jnp.clip(jax.nn.sigmoid(mean + std * jax.random.normal(key)), EPSILON, 1 - EPSILON)

    end = math.log(EPSILON) - math.log1p(-EPSILON)

    def log_prob(y, theta, xi):
        mean, std = moments(theta, xi)
        inside = jnp.clip(y, 2 * EPSILON, 1 - 2 * EPSILON)
        density = norm.logpdf(logit(inside), mean, std) - jnp.log(inside) - jnp.log1p(-inside)
        lowest, highest = log_ndtr((end - mean) / std), log_ndtr((mean + end) / std)
        return jnp.where(y <= EPSILON, lowest, jnp.where(y >= 1 - EPSILON, highest, density))

    corners = np.random.default_rng(0).uniform(0, 100, (24, 2 * GOODS))
    return DesignModel(
        prior_sample=sample_prior,
        prior_log_prob=log_prior,
        outcome_sample=sample,
        outcome_log_prob=log_prob,
        designs=corners,
        bounds=(np.zeros(2 * GOODS), np.full(2 * GOODS, 100.0)),
        name="preference",
        title="Preference",
    )
