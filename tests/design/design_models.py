"""Models whose expected information is known."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from credax.design import DesignModel


def linear(scale=1.0) -> DesignModel:
    """``y = ξ θ + ε``; ``scale`` measures ``θ`` in another unit."""
    return DesignModel(
        prior_sample=lambda key: scale * jax.random.normal(key),
        prior_log_prob=lambda theta: norm.logpdf(theta, 0, scale),
        outcome_sample=lambda key, theta, xi: xi * theta / scale + jax.random.normal(key),
        outcome_log_prob=lambda y, theta, xi: norm.logpdf(y, xi * theta / scale),
        name="linear",
    )


def two_parameters() -> DesignModel:
    """Two independent experiments on two independent parameters, a pytree of them."""
    return DesignModel(
        prior_sample=lambda key: {"a": jax.random.normal(key, (2,))},
        prior_log_prob=lambda theta: norm.logpdf(theta["a"]).sum(),
        outcome_sample=lambda key, theta, xi: xi * theta["a"] + jax.random.normal(key, (2,)),
        outcome_log_prob=lambda y, theta, xi: norm.logpdf(y, xi * theta["a"]).sum(),
        name="two-parameters",
    )


def coin() -> DesignModel:
    """``θ ~ Bernoulli(0.4)``, ``y ~ Bernoulli((ξ + θ) / 2)``."""

    def log_prob(y, theta, xi):
        p = (xi + theta) / 2
        return jnp.log(jnp.where(y == 1, p, 1 - p))

    return DesignModel(
        prior_sample=lambda key: jax.random.bernoulli(key, 0.4).astype(float),
        prior_log_prob=lambda theta: jnp.log(jnp.where(theta == 1, 0.4, 0.6)),
        outcome_sample=lambda key, theta, xi: jax.random.bernoulli(key, (xi + theta) / 2) * 1,
        outcome_log_prob=log_prob,
        outcomes=np.array([0, 1]),
        nodes=lambda: (jnp.array([0.0, 1.0]), jnp.array([0.6, 0.4])),
        name="coin",
    )
