"""How many digits can a person remember? The example of the expected-information literature."""

import jax
import jax.numpy as jnp
import numpy as np

from credax.design.model import DesignModel

NODES = 401
WIDTH = 10.0
"""The nodes reach so many prior standard deviations to either side."""


def working_memory(mean: float = 7.0, std: float = 2.0, most: int = 15) -> DesignModel:
    """``p(y = 1 | θ, l) = sigmoid(θ - l)``: are ``l`` digits remembered; ``θ ~ N(mean, std²)``.

    Designs are ``l = 1 .. most``. Too few digits are remembered by everybody, too many by nobody:
    both say nothing. Source: the tutorial on working memory of Pyro's ``contrib.oed``.
    """

    def nodes():
        z = jnp.linspace(-WIDTH, WIDTH, NODES)
        return mean + std * z, jnp.exp(-0.5 * z**2)

    def log_prob(y, theta, length):
        return jax.nn.log_sigmoid(jnp.where(y == 1, theta - length, length - theta))

    def sample(key, theta, length):
        return jax.random.bernoulli(key, jax.nn.sigmoid(theta - length)).astype(jnp.int32)

    return DesignModel(
        prior_sample=lambda key: mean + std * jax.random.normal(key),
        prior_log_prob=lambda theta: jax.scipy.stats.norm.logpdf(theta, mean, std),
        outcome_sample=sample,
        outcome_log_prob=log_prob,
        outcomes=np.array([0, 1], np.int32),
        nodes=nodes,
        designs=np.arange(1.0, most + 1),
        bounds=(1.0, float(most)),
        name="working-memory",
        title="Working memory",
    )
