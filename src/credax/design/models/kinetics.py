"""When to draw blood after a dose: absorption, elimination and volume."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from credax.design.model import DesignModel

DOSE = 400.0
CENTRE = np.log(np.array([1.0, 0.1, 20.0]))
VARIANCE = 0.05
PROPORTIONAL, ADDITIVE = 0.01, 0.1


def pharmacokinetic(latest: float = 24.0) -> DesignModel:
    """One compartment with first-order absorption: ``y = μ(t) (1 + ε_1) + ε_2`` at time ``t``.

    ``μ(t) = dose/V k_a/(k_a - k_e) (exp(-k_e t) - exp(-k_a t))`` with a dose of 400; ``θ`` is the
    logarithm of ``(k_a, k_e, V)``, normal around ``(1, 0.1, 20)`` with variance 0.05; variances of
    the noise are 0.01 and 0.1. Reference: Ryan et al., Towards Bayesian experimental design for
    nonlinear models that require a large number of sampling times, 2014.
    """
    spread = np.sqrt(VARIANCE)

    def moments(theta, time):
        absorption, elimination, volume = jnp.exp(theta)
        # Equal rates are a removable singularity that no draw meets exactly.
        decay = jnp.exp(-elimination * time) - jnp.exp(-absorption * time)
        mean = DOSE / volume * absorption / (absorption - elimination) * decay
        return mean, jnp.sqrt(PROPORTIONAL * jnp.square(mean) + ADDITIVE)

    def sample(key, theta, time):
        mean, std = moments(theta, time)
        return mean + std * jax.random.normal(key)

    return DesignModel(
        prior_sample=lambda key: CENTRE + spread * jax.random.normal(key, (3,)),
        prior_log_prob=lambda theta: norm.logpdf(theta, CENTRE, spread).sum(),
        outcome_sample=sample,
        outcome_log_prob=lambda y, theta, time: norm.logpdf(y, *moments(theta, time)),
        designs=np.arange(0.5, latest + 0.25, 0.5),
        bounds=(0.0, latest),
        name="pharmacokinetic",
        title="Pharmacokinetics",
    )
