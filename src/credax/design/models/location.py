"""Hidden sources whose signal fades with distance: where to listen?"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from credax.design.model import DesignModel
from credax.errors import InputError


def location_finding(
    sources: int = 2,
    dimensions: int = 2,
    noise: float = 0.5,
    background: float = 0.1,
    most: float = 1e-4,
    widest: float = 4.0,
) -> DesignModel:
    """``log y ~ N(log(background + Σ_k 1/(most + |ξ - θ_k|²)), noise²)``, ``θ_k ~ N(0, I)``.

    The outcome is the logarithm of the signal. Settings of Foster et al., Deep adaptive design,
    ICML 2021, who leave designs unbounded; here they lie within ``widest`` in every coordinate.
    """
    if sources < 1 or dimensions < 1:
        raise InputError(
            f"sources is {sources} and dimensions is {dimensions}; there is at least 1 of each"
        )
    shape = (sources, dimensions)

    def mean(theta, xi):
        # Written out: sums over axes of two or three numbers keep a processor from vectorising
        # over parameters and designs, which makes them six times slower.
        xi, signal = jnp.reshape(xi, (dimensions,)), background
        for source in range(sources):
            distance = sum(jnp.square(theta[source, d] - xi[d]) for d in range(dimensions))
            signal = signal + 1 / (most + distance)
        return jnp.log(signal)

    grid = np.linspace(-3, 3, 13 if dimensions == 1 else 7)
    designs = np.stack(np.meshgrid(*[grid] * dimensions, indexing="ij"), -1)
    return DesignModel(
        prior_sample=lambda key: jax.random.normal(key, shape),
        prior_log_prob=lambda theta: norm.logpdf(theta).sum(),
        outcome_sample=lambda key, theta, xi: mean(theta, xi) + noise * jax.random.normal(key),
        outcome_log_prob=lambda y, theta, xi: norm.logpdf(y, mean(theta, xi), noise),
        designs=designs.reshape(-1, dimensions),
        bounds=(np.full(dimensions, -widest), np.full(dimensions, widest)),
        name="location-finding",
        title="Location finding",
    )
