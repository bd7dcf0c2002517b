"""Noise: each pixel and channel on its own. Images have values in [0, 1] and are not clipped."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

_Image = Float[Array, "height width channels"]
# Up to this mean the distribution is summed term by term (the rest weighs 1e-7); above it the
# expansion of the quantile misses the count, by one, in at most 1.6 of 1000 draws.
_SMALL_MEAN = 4.0
_TERMS = 18


def gaussian_noise(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """``x + σ ε`` with standard normal ``ε``; parameters ``(σ,)``."""
    (sigma,) = parameters
    return image + sigma * jax.random.normal(key, image.shape)


def shot_noise(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """``Poisson(c x) / c``: photons counted, ``c`` at white; parameters ``(c,)``."""
    (photons,) = parameters
    return poisson(key, image * photons) / photons


def impulse_noise(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """A share of the values replaced, by 0 or by 1 with equal chance; parameters ``(share,)``."""
    (share,) = parameters
    uniform = jax.random.uniform(key, image.shape)
    return jnp.where(uniform < share, jnp.where(uniform < share / 2, 0.0, 1.0), image)


def speckle_noise(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """``x + x σ ε``: noise in proportion to the light; parameters ``(σ,)``."""
    (sigma,) = parameters
    return image * (1 + sigma * jax.random.normal(key, image.shape))


def poisson(key: Key[Array, ""], mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Poisson counts by inverting their distribution function at a uniform draw, without rejection.

    For small means the function is summed; for large ones the quantile at the normal ``z`` is
    ``λ + √λ z + (2 + z²)/6 - (2z + z³)/(72 √λ) + (-16 + 7z² + 3z⁴)/(810 λ)``, rounded down. No loop
    depends on the data, so a batch runs in lockstep (rejection would wait for the slowest pixel).

    M. Giles, Algorithm 955: approximation of the inverse Poisson cumulative distribution function,
    ACM TOMS 42 (2016).
    """
    # Half a step away from 0 and 1, where the quantile is infinite.
    uniform = jax.random.uniform(key, mean.shape, minval=2.0**-25, maxval=1 - 2.0**-24)
    return poisson_quantile(uniform, mean)


def poisson_quantile(
    level: Float[Array, "*shape"], mean: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """The first count whose distribution function reaches ``level``, which is inside (0, 1).

    >>> poisson_quantile(jnp.array([0.5, 0.99]), jnp.array([100.0, 0.5])).tolist()
    [100.0, 3.0]
    """
    large = jnp.maximum(mean, _SMALL_MEAN)
    root = jnp.sqrt(large)
    z = jnp.sqrt(2.0) * jax.lax.erf_inv(2 * level - 1)
    square = z * z
    expansion = large + root * z + (2 + square) / 6 - (2 * z + z * square) / (72 * root)
    expansion += (-16 + 7 * square + 3 * square * square) / (810 * large)
    small = jnp.minimum(mean, _SMALL_MEAN)
    term = total = jnp.exp(-small)
    count = jnp.where(level > total, 1.0, 0.0)
    for k in range(1, _TERMS):
        term = term * (small * (1 / k))
        total = total + term
        count = count + jnp.where(level > total, 1.0, 0.0)
    return jnp.where(mean > _SMALL_MEAN, jnp.maximum(jnp.floor(expansion), 0.0), count)
