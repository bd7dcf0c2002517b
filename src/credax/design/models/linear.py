"""A line: its coefficients are measured where the design says."""

import jax
import jax.numpy as jnp
from jax.scipy.stats import norm

from credax.design.model import DesignModel
from credax.errors import InputError


def linear_regression(
    prior_std: float = 1.0, noise: float = 1.0, largest: float = 3.0
) -> DesignModel:
    """``y = θ_1 + ξ θ_2 + noise ε``, ``θ ~ N(0, prior_std²)``, ``|ξ| ≤ largest``.

    Its information is ``½ log(1 + (1 + ξ²) prior_std² / noise²)``: largest at either end.
    """
    if prior_std <= 0 or noise <= 0:
        raise InputError(f"prior_std is {prior_std} and noise is {noise}; both are positive")

    def mean(theta, xi):
        return theta[0] + xi * theta[1]

    return DesignModel(
        prior_sample=lambda key: prior_std * jax.random.normal(key, (2,)),
        prior_log_prob=lambda theta: norm.logpdf(theta, 0, prior_std).sum(),
        outcome_sample=lambda key, theta, xi: mean(theta, xi) + noise * jax.random.normal(key),
        outcome_log_prob=lambda y, theta, xi: norm.logpdf(y, mean(theta, xi), noise),
        designs=jnp.linspace(-largest, largest, 13),
        bounds=(-largest, largest),
        name="linear-regression",
        title="Linear regression",
    )
