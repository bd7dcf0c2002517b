"""Linear filters of one image as small matrices, reflected at the border.

A separable filter of an image ``X [height, width]`` is ``A X Bᵀ``. Written so, a batch is one
matrix product, the strength may be traced (one compiled program for all severities), and what a
filter keeps can be read off ``A``: rows that sum to one keep constants, columns that sum to one
keep the total.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

# Below this a Gaussian is one pixel wide in float32, and dividing by its variance stays finite.
_SMALLEST_SIGMA = 0.01


def reflect(index: Int[Array, "..."], size: int) -> Int[Array, "..."]:
    """Any integer position folded into ``0 .. size - 1``, the border pixel repeated: ``ba|abc|cb``.

    >>> reflect(jnp.array([-2, -1, 0, 2, 3, 4]), 3).tolist()
    [1, 0, 0, 2, 2, 1]
    """
    index = index % (2 * size)
    return jnp.minimum(index, 2 * size - 1 - index)


def gaussian_matrix(size: int, sigma: Float[Array, ""]) -> Float[Array, "size size"]:
    """Blur along an axis by ``exp(-d² / 2σ²)``, reflected: rows and columns sum to one.

    >>> gaussian_matrix(2, jnp.float32(0.0)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    sigma = jnp.maximum(sigma, _SMALLEST_SIGMA)
    here = jnp.arange(size)
    # Two periods of reflections reach four sigma whenever sigma is below the size of the image.
    periods = 2 * size * jnp.arange(-2, 3)
    direct = here[:, None] - here[None, :]
    mirrored = here[:, None] + here[None, :] + 1
    distance = jnp.stack([direct, mirrored])[..., None] + periods
    weights = jnp.exp(-0.5 * (distance / sigma) ** 2).sum(axis=(0, -1))
    return weights / weights.sum(axis=1, keepdims=True)


def linear_matrix(at: Float[Array, "*rows"], size: int) -> Float[Array, "*rows {size}"]:
    """Rows that read an axis of ``size`` pixels at real positions by linear interpolation.

    >>> linear_matrix(jnp.array([0.25, -0.5]), 2).tolist()
    [[0.75, 0.25], [1.0, 0.0]]
    """
    lower = jnp.floor(at)
    part = (at - lower)[..., None]
    first = lower.astype(jnp.int32)
    one_hot = lambda index: jax.nn.one_hot(reflect(index, size), size, dtype=at.dtype)  # noqa: E731
    return (1 - part) * one_hot(first) + part * one_hot(first + 1)


def separable(
    rows: Float[Array, "new_height height"],
    image: Float[Array, "height width channels"],
    columns: Float[Array, "new_width width"],
) -> Float[Array, "new_height new_width channels"]:
    """``rows · image · columnsᵀ`` in every channel."""
    return jnp.einsum("hi,ijc,wj->hwc", rows, image, columns)


def gaussian_blur(
    image: Float[Array, "height width channels"], sigma: Float[Array, ""]
) -> Float[Array, "height width channels"]:
    """Gaussian blur of standard deviation ``sigma`` pixels."""
    height, width, _ = image.shape
    return separable(gaussian_matrix(height, sigma), image, gaussian_matrix(width, sigma))


def convolve(
    image: Float[Array, "height width channels"], kernel: Float[Array, "odd odd"]
) -> Float[Array, "height width channels"]:
    """Correlate every channel with a small kernel that need not be separable.

    Row ``k`` of the kernel acts along the width as a matrix; the sum over ``k`` and the width is
    one product, so a batch that shares the kernel costs one matrix product.
    """
    height, width, _ = image.shape
    size = kernel.shape[0]
    offsets = jnp.arange(size) - size // 2
    across = jax.nn.one_hot(reflect(jnp.arange(width)[:, None] + offsets, width), width)
    columns = jnp.einsum("kl,wlj->kwj", kernel, across)
    shifted = image[reflect(jnp.arange(height)[:, None] + offsets, height)]
    return jnp.einsum("hkjc,kwj->hwc", shifted, columns)


def trail(
    image: Float[Array, "height width channels"],
    slope: Float[Array, ""],
    weights: Float[Array, "steps"],
) -> Float[Array, "height width channels"]:
    """The weighted mean of the image moved right by 0, 1, 2, ... pixels and down ``slope`` each.

    Moves to the right are whole pixels and cost nothing; moves down are interpolated linearly.
    """
    height, width, _ = image.shape
    steps = jnp.arange(len(weights))
    down = linear_matrix(jnp.arange(height) - (steps * slope)[:, None], height)
    right = image[:, reflect(jnp.arange(width) - steps[:, None], width)]
    return jnp.einsum("khi,ikwc->hwc", down * weights[:, None, None], right)


def slant(
    field: Float[Array, "height width"], slope: Float[Array, ""]
) -> Float[Array, "height width"]:
    """Every row of a random field moved by ``slope`` pixels more than the one above it.

    What leaves on one side enters on the other: a reflection would slant the other way.
    """
    height, width = field.shape
    at = jnp.arange(width) - slope * jnp.arange(height)[:, None]
    left = jnp.floor(at)
    part = at - left
    index = left.astype(jnp.int32)
    read = lambda columns: jnp.take_along_axis(field, columns % width, axis=1)  # noqa: E731
    return (1 - part) * read(index) + part * read(index + 1)
