"""Blurs: each keeps constant images. Lengths are in pixels of a 32 by 32 image."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from credax.data.corruptions import filters
from credax.data.corruptions.sizes import grain, span

_Image = Float[Array, "height width channels"]
# Widest disc and edge of `defocus_blur` that are represented in full, in reference pixels.
_DISC_REACH = 3.0
_GLASS_ROUNDS = 2
_GLASS_SIXTEENTHS = 6
# Axis and parity: neighbours to the right of even, then odd columns, then below even, odd rows.
_PAIRINGS = ((1, 0), (1, 1), (0, 0), (0, 1))
# Steps of at most half a pixel in a 32 by 32 image at the published strengths.
_ZOOM_STEPS = 10
_LONGEST_TRAIL = 8


def gaussian_blur(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """Blur by a Gaussian; parameters ``(σ,)``."""
    (sigma,) = parameters
    return filters.gaussian_blur(image, sigma * grain(image.shape))


def defocus_blur(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """The mean over a disc with a softened edge; parameters ``(radius, σ of the edge)``."""
    radius, edge = parameters * grain(image.shape)
    reach = int(np.ceil(_DISC_REACH * grain(image.shape)))
    offsets = jnp.arange(-reach, reach + 1)
    disc = (offsets[:, None] ** 2 + offsets**2 <= radius**2).astype(image.dtype)
    soft = filters.gaussian_blur((disc / disc.sum())[..., None], edge)[..., 0]
    return filters.convolve(image, soft)


def motion_blur(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """A trail to one side at an angle within 45° of horizontal; parameters ``(radius, σ)``.

    The trail falls off as a Gaussian and ends after twice the radius, or a quarter of the image.
    """
    radius, sigma = parameters * span(image.shape)
    slope = jnp.tan(jax.random.uniform(key, minval=-jnp.pi / 4, maxval=jnp.pi / 4))
    steps = jnp.arange(1 + int(np.ceil(_LONGEST_TRAIL * span(image.shape))))
    along = steps * jnp.sqrt(1 + slope**2)
    weights = jnp.where(along <= 2 * radius, jnp.exp(-0.5 * (along / sigma) ** 2), 0.0)
    return filters.trail(image, slope, weights / weights.sum())


def zoom_blur(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """The mean of the image and its enlargements 1, 1.01, ... ; parameters ``(largest,)``.

    The enlargements are spread evenly over the same range, as many as the image can show.
    """
    (largest,) = parameters
    height, width, _ = image.shape
    steps = int(np.ceil(_ZOOM_STEPS * span(image.shape)))
    zooms = jnp.linspace(1.0, largest, steps)
    published = 1 + jnp.round((largest - 1) / 0.01)
    weights = jnp.full(steps, published / steps).at[0].add(1.0) / (published + 1)
    rows, columns = (
        filters.linear_matrix(_about_centre(size) / zooms[:, None] + (size - 1) / 2, size)
        for size in (height, width)
    )
    enlarged = jnp.einsum("zhi,ijc->hczj", rows * weights[:, None, None], image)
    return jnp.einsum("hczj,zwj->hwc", enlarged, columns)


def glass_blur(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """Neighbours are swapped between two slight blurs; parameters ``(σ, reach, rounds)``.

    In a round, pixels pair up to the right (first even, then odd columns) and below (even, then odd
    rows), and each pair swaps by chance: pixels move, by one on average, and none is lost. Larger
    reaches repeat this with partners further away.
    """
    sigma, reach, rounds = parameters
    scale = grain(image.shape)
    farthest = int(np.ceil(scale))
    words = jax.random.bits(key, (farthest, *image.shape[:2]))
    # Small images have fewer pixels to spare.
    sixteenths = round(_GLASS_SIXTEENTHS * min(1.0, span(image.shape)))
    image = filters.gaussian_blur(image, sigma * scale)
    for turn in range(_GLASS_ROUNDS):
        for distance in range(1, farthest + 1):
            used = (turn < rounds) & (distance <= jnp.round(reach * scale))
            # A word of 32 bits holds the coins of all four pairings in both rounds.
            for pairing in range(len(_PAIRINGS)):
                bits = words[distance - 1] >> (4 * (len(_PAIRINGS) * turn + pairing)) & 15
                image = _trade((bits < sixteenths) & used, image, distance, *_PAIRINGS[pairing])
    return filters.gaussian_blur(image, sigma * scale)


def shift(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """Blend with the image moved by one pixel, up, down, left or right; parameters ``(blend,)``.

    The edge is repeated where the image moved away.
    """
    (blend,) = parameters
    height, width, _ = image.shape
    direction = jax.random.randint(key, (), 0, 4)
    step = jnp.array([[-1, 0], [1, 0], [0, -1], [0, 1]])[direction]
    rows = filters.linear_matrix((jnp.arange(height) + step[0]).astype(image.dtype), height)
    columns = filters.linear_matrix((jnp.arange(width) + step[1]).astype(image.dtype), width)
    return (1 - blend) * image + blend * filters.separable(rows, image, columns)


def _about_centre(size: int) -> Float[Array, "size"]:
    return jnp.arange(size) - (size - 1) / 2


def _trade(coin: Bool[Array, "height width"], image: _Image, distance, axis, odd) -> _Image:
    partner, leader = _pairs(image.shape[axis], distance, odd * distance)
    swap = jnp.take(coin, leader, axis=axis)
    return jnp.where(swap[..., None], jnp.take(image, partner, axis=axis), image)


def _pairs(size: int, distance: int, first: int) -> tuple[np.ndarray, np.ndarray]:
    """The partner of each position, and the member of its pair whose coin decides."""
    here = np.arange(size)
    leads = (here - first) // distance % 2 == 0
    partner = np.where(leads, here + distance, here - distance)
    partner = np.where((partner < 0) | (partner >= size), here, partner)
    return partner, np.minimum(here, partner)
