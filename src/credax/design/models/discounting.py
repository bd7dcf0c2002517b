"""Money now or more money later: how steeply does a person discount the future?"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jax.scipy.stats import norm

from credax.design.model import DesignModel

LATER, LONGEST = 100.0, 10_000.0


def hyperbolic_discounting(error: float = 0.01, log_delay: bool = False) -> DesignModel:
    """``P(y = 1) = ε + (1 - 2ε) Φ((V_1 - V_0) / α)``: is 100 after ``D`` days chosen over ``R``
    now, with ``V_0 = R`` and ``V_1 = 100 / (1 + k D)``.

    ``log k ~ N(-4.25, 1.5²)``, ``α`` half normal with scale 2; ``θ = (log k, α)``, designs are
    ``(R, D)``, or ``(R, log D)`` with ``log_delay``, which is easier for gradients. Reference:
    Vincent and Rainforth, The DARC toolbox, 2017; settings of Foster et al., Deep adaptive design,
    ICML 2021.
    """

    def chance(theta, xi):
        delay = jnp.exp(xi[1]) if log_delay else xi[1]
        later = LATER / (1 + jnp.exp(theta[0]) * delay)
        return error + (1 - 2 * error) * ndtr((later - xi[0]) / theta[1])

    def sample_prior(key):
        first, second = jax.random.normal(key, (2,))
        return jnp.stack([-4.25 + 1.5 * first, jnp.maximum(2 * jnp.abs(second), 1e-6)])

    def log_prior(theta):
        return norm.logpdf(theta[0], -4.25, 1.5) + norm.logpdf(theta[1], 0, 2) + jnp.log(2.0)

    def log_prob(y, theta, xi):
        p = chance(theta, xi)
        return jnp.where(y == 1, jnp.log(p), jnp.log1p(-p))

    rewards, delays = np.meshgrid(np.arange(5.0, 100, 10), [1.0, 7, 30, 90, 180, 365])
    designs = np.stack([rewards.ravel(), delays.ravel()], -1)
    bounds = np.array([0.0, 0.0]), np.array([LATER, LONGEST])
    if log_delay:
        designs[:, 1] = np.log(designs[:, 1])
        bounds[1][1] = np.log(LONGEST)
    return DesignModel(
        prior_sample=sample_prior,
        prior_log_prob=log_prior,
        outcome_sample=lambda key, theta, xi: jax.random.bernoulli(key, chance(theta, xi)).astype(
            jnp.int32
        ),
        outcome_log_prob=log_prob,
        outcomes=np.array([0, 1], np.int32),
        designs=designs,
        bounds=bounds,
        name="hyperbolic-discounting",
        title="Hyperbolic discounting",
    )
