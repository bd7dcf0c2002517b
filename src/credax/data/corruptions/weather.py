"""Weather and light: snow, frost, fog, brightness, contrast, saturation.

Nothing is photographed: crystals and clouds are drawn from random fields.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from credax.data.corruptions import colour, filters
from credax.data.corruptions.sizes import proportion, span

_Image = Float[Array, "height width channels"]
# Needles: half length in reference pixels, share of pixels that seed one, decay of their cloud.
_NEEDLE = 2.5
_SEEDED = 0.1
_PATCHY = 1.3
_ICE = (0.82, 0.9, 1.0)


def snow(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """Streaks of falling flakes over a whitened image.

    Parameters ``(mean, deviation, zoom, threshold, radius, σ, mix)``: flakes are the values above
    the threshold of a normal field, enlarged by ``zoom``, drawn out over twice the radius with
    Gaussian weights at an angle within 45° of vertical, and laid over the image twice, once
    turned by 180°. The image keeps the share ``mix``; the rest is whitened.
    """
    mean, deviation, zoom, threshold, radius, sigma, mix = parameters
    height, width, _ = image.shape
    # The last draw turns the streaks: a second call of the generator would double the compilation.
    draws = jax.random.normal(key, (height * width + 1,))
    enlargement = jnp.maximum(zoom * proportion(image.shape), 1.0)
    # As many flakes in an image of any size: interpolation takes a third off the deviation.
    deviation = deviation * jnp.where(zoom > 1, 2 / 3, 1.0) / jnp.where(enlargement > 1, 2 / 3, 1.0)
    field = mean + deviation * _enlarged(draws[:-1].reshape(height, width), enlargement)
    flakes = jnp.where(field < threshold, 0.0, jnp.clip(field, 0.0, 1.0))
    flakes = _fall(height, 2 * radius * span(image.shape), sigma * span(image.shape)) @ flakes
    slope = jnp.tan(np.pi / 2 * (jax.scipy.stats.norm.cdf(draws[-1]) - 0.5))
    flakes = filters.slant(flakes, slope)[..., None]
    white = jnp.maximum(image, 1.5 * colour.luminance(image) + 0.5)
    return mix * image + (1 - mix) * white + flakes + flakes[::-1, ::-1]


def frost(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """Ice crystals on the lens; parameters ``(image weight, ice weight)``."""
    keep, weight = parameters
    height, width, channels = image.shape
    ice = ice_crystals(key, (height, width))[..., None]
    return keep * image + weight * ice * colour.tint(_ICE, channels)


def fog(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """A bright cloud added and the whole dimmed again; parameters ``(weight, decay)``."""
    weight, decay = parameters
    height, width, _ = image.shape
    nodes = jax.random.uniform(key, (cloud_nodes((height, width)),))
    brightest = image.max()
    clouded = image + weight * cloud(nodes, (height, width), decay)[..., None]
    return clouded * brightest / (brightest + weight)


def brightness(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """The value (largest channel) raised, hue and saturation kept; parameters ``(by,)``."""
    (by,) = parameters
    return colour.raise_value(image, by)


def contrast(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """``mean + c (x - mean)``, the mean taken in each channel; parameters ``(c,)``."""
    (factor,) = parameters
    mean = image.mean(axis=(0, 1), keepdims=True)
    return mean + factor * (image - mean)


def saturate(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """Colours made paler or stronger; parameters ``(gain, offset)`` of the saturation."""
    gain, offset = parameters
    return colour.change_saturation(image, gain, offset)


def cloud(
    uniform: Float[Array, "nodes"], shape: tuple[int, int], decay: Float[Array, ""] | float
) -> Float[Array, "height width"]:
    """A random field in [0, 1], rough at every scale: octaves that shrink by ``decay²`` each.

    Octave ``l`` is uniform noise on ``2^l + 1`` nodes per side, interpolated linearly; ``uniform``
    holds the draws of all octaves, `cloud_nodes` together, in [0, 1].
    """
    total, start = jnp.zeros(shape), 0
    for octave, side in enumerate(_octaves(shape)):
        nodes = uniform[start : start + side**2].reshape(side, side)
        start += side**2
        rows, columns = (
            filters.linear_matrix(jnp.linspace(0.0, side - 1, size), side) for size in shape
        )
        total = total + decay ** (-2.0 * octave) * (rows @ nodes @ columns.T)
    return _stretched(total)


def cloud_nodes(shape: tuple[int, int]) -> int:
    """How many uniform draws a cloud over this image takes."""
    return sum(side**2 for side in _octaves(shape))


def ice_crystals(key: Key[Array, ""], shape: tuple[int, int]) -> Float[Array, "height width"]:
    """Frost in [0, 1]: needles in three directions 60° apart, thick where a cloud is."""
    height, width = shape
    draws = jax.random.uniform(key, (3 * height * width + 1 + cloud_nodes(shape),))
    seeds, turn, nodes = jnp.split(draws, [3 * height * width, 3 * height * width + 1])
    seeds = jnp.maximum(seeds - (1 - _SEEDED), 0.0).reshape(3, height, width)
    turn = (turn[0] - 0.5) * np.pi / 6
    length = jnp.float32(_NEEDLE * span(shape))
    down, right = (filters.gaussian_matrix(size, length) for size in shape)
    needles = [filters.slant(down @ seeds[0], jnp.tan(turn))]
    for seed, angle in ((seeds[1], turn + np.pi / 6), (seeds[2], turn - np.pi / 6)):
        needles.append(filters.slant((seed @ right.T).T, jnp.tan(angle)).T)
    ice = _stretched(jnp.stack(needles).max(axis=0))
    return jnp.minimum((0.45 + 0.85 * ice) * (0.5 + 0.6 * cloud(nodes, shape, _PATCHY)), 1.0)


def _octaves(shape: tuple[int, int]) -> list[int]:
    return [2**octave + 1 for octave in range(1, 1 + int(np.ceil(np.log2(max(shape)))))]


def _enlarged(field: Float[Array, "height width"], zoom: Float[Array, ""]):
    rows, columns = (
        filters.linear_matrix((jnp.arange(size) - (size - 1) / 2) / zoom + (size - 1) / 2, size)
        for size in field.shape
    )
    return rows @ field @ columns.T


def _fall(size: int, length: Float[Array, ""], sigma: Float[Array, ""]):
    """Each row the Gaussian mean of itself and those above it, the border taken for more snow."""
    above = jnp.arange(2 * size)
    weights = jnp.where(above <= length, jnp.exp(-0.5 * (above / sigma) ** 2), 0.0)
    rows = filters.reflect(jnp.arange(size)[:, None] - above, size)
    return jnp.einsum("k,hki->hi", weights / weights.sum(), jax.nn.one_hot(rows, size))


def _stretched(field: Float[Array, "height width"]) -> Float[Array, "height width"]:
    low, high = field.min(), field.max()
    return (field - low) / jnp.maximum(high - low, jnp.finfo(field.dtype).tiny)
