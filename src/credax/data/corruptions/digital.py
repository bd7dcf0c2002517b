"""Digital damage: coarse pixels, elastic warps, drops on the lens. JPEG has a file of its own."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from credax.data.corruptions import colour, filters
from credax.data.corruptions.sizes import grain, proportion, span

_Image = Float[Array, "height width channels"]
_WATER = (175 / 255, 238 / 255, 238 / 255)
_MUD = (63 / 255, 42 / 255, 20 / 255)
_INSIDE = 0.8


def pixelate(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """Block means: ``⌊share · size⌋`` blocks along each axis; parameters ``(share,)``.

    A pixel belongs to the block its centre falls into, so blocks hold whole pixels and may differ
    in size by one.
    """
    (share,) = parameters
    rows, columns = (_blocks(size, share) for size in image.shape[:2])
    return filters.separable(rows, image, columns)


def elastic_transform(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """An affine warp and a smooth random one; parameters ``(amplitude, σ, affine)``, in sides.

    Three points (two of them opposite corners of the middle square, a third of the side from the
    centre) move by up to ``affine`` along each axis and carry the plane with them; each pixel is
    then displaced by ``amplitude`` times uniform noise in [-1, 1], blurred with ``σ``.
    """
    height, width, _ = image.shape
    side = min(height, width)
    amplitude, sigma, affine = parameters * side
    draws = jax.random.uniform(key, (3 + height * width, 2), minval=-1.0)
    first, second, third = draws[:3] * affine
    down = (jnp.arange(height) - height // 2)[:, None, None] / (side // 3)
    right = (jnp.arange(width) - width // 2)[None, :, None] / (side // 3)
    carried = first + (down - 1) * (second - third) / 2 + (right - 1) * (first - second) / 2
    # Blurring over more pixels thins the noise out, hence the factor for large images; over less
    # than half a pixel it would tear small ones apart.
    noise = draws[3:].reshape(height, width, 2) * grain(image.shape)
    smooth = filters.gaussian_blur(noise, sigma * span(image.shape) / proportion(image.shape))
    moved = carried + amplitude * smooth
    rows = jnp.arange(height)[:, None] + moved[..., 0]
    columns = jnp.arange(width)[None, :] + moved[..., 1]
    return sample(image, rows, columns)


def spatter(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """Drops of water, or of mud.

    Parameters ``(mean, deviation, σ, threshold, amount, mud)``: drops are where a blurred normal
    field passes the threshold. Water brightens by up to ``amount``, most on the side the light
    falls from; mud (``mud`` = 1) covers the inside of its drops, found by a blur of ``amount``.
    """
    mean, deviation, sigma, threshold, amount, mud = parameters
    scale = grain(image.shape)
    # Blurring over more pixels thins the noise out: its deviation grows with the scale.
    noise = jax.random.normal(key, (*image.shape[:2], 1)) * deviation * scale
    liquid = mean + filters.gaussian_blur(noise, sigma * scale)
    drops = (liquid > threshold).astype(image.dtype)
    water = image + amount * _glints(liquid * drops) * colour.tint(_WATER, image.shape[-1])
    inside = filters.gaussian_blur(drops, amount * scale)
    cover = jnp.where(inside < _INSIDE, 0.0, inside)
    muddy = image * (1 - cover) + cover * colour.tint(_MUD, image.shape[-1])
    return jnp.where(mud > 0.5, muddy, water)


def sample(
    image: _Image, rows: Float[Array, "height width"], columns: Float[Array, "height width"]
) -> _Image:
    """The image read at real positions, interpolated linearly and reflected at the border."""
    height, width, _ = image.shape
    top, left = jnp.floor(rows), jnp.floor(columns)
    down, right = (rows - top)[..., None], (columns - left)[..., None]
    top, left = top.astype(jnp.int32), left.astype(jnp.int32)
    read = lambda i, j: image[filters.reflect(i, height), filters.reflect(j, width)]  # noqa: E731
    upper = (1 - right) * read(top, left) + right * read(top, left + 1)
    lower = (1 - right) * read(top + 1, left) + right * read(top + 1, left + 1)
    return (1 - down) * upper + down * lower


def _blocks(size: int, share: Float[Array, ""]) -> Float[Array, "size size"]:
    # A tolerance keeps a product that is whole on paper (0.9 of 20) from falling below it.
    blocks = jnp.maximum(jnp.floor(size * share + 1e-3), 1.0)
    block = jnp.floor((jnp.arange(size) + 0.5) * blocks / size)
    same = (block[:, None] == block[None, :]).astype(jnp.float32)
    return same / same.sum(axis=1, keepdims=True)


def _glints(depth: Float[Array, "height width 1"]) -> Float[Array, "height width 1"]:
    """Drops lit from the upper left: the slope facing the light and a faint body, at most 1."""
    height, width, _ = depth.shape
    up = depth[filters.reflect(jnp.arange(height) - 1, height)]
    left = depth[:, filters.reflect(jnp.arange(width) - 1, width)]
    lit = jnp.maximum(depth - 0.5 * (up + left), 0.0) + 0.3 * depth
    lit = filters.gaussian_blur(lit, jnp.float32(0.5))
    return lit / jnp.maximum(lit.max(), jnp.finfo(lit.dtype).tiny)
