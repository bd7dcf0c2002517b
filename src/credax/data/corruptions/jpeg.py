"""JPEG compression without a JPEG library: what quantising the cosine transform loses.

Baseline JPEG (ITU-T T.81) with the quantisation tables of its Annex K, quality as the Independent
JPEG Group scales them, colour halved in both directions (4:2:0) and smoothly enlarged again. The
entropy coding is lossless and left out. By hand and not by Pillow, which is an extra: corruptions
run on whole batches in one compiled program, on any device; a test compares with Pillow.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

_Image = Float[Array, "height width channels"]
_Plane = Float[Array, "height width"]
_OtherPlane = Float[Array, "rows columns"]
_BLOCK = 8
_WHITE = 255.0
_LUMINANCE = np.array(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ],
    np.float32,
)
_CHROMINANCE = np.full((8, 8), 99, np.float32)
_CHROMINANCE[:4, :4] = [[17, 18, 24, 47], [18, 21, 26, 66], [24, 26, 56, 99], [47, 66, 99, 99]]
# JFIF: luminance, then blue and red minus luminance, scaled to the range of a byte.
_TO_YCC = np.array(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]], np.float32
)
_TO_RGB = np.array([[1, 0, 1.402], [1, -0.344136, -0.714136], [1, 1.772, 0]], np.float32)


def jpeg_compression(key: Key[Array, ""], image: _Image, parameters) -> _Image:
    """Compressed and read again at a quality of 1 to 100; parameters ``(quality,)``.

    One channel is luminance, three are red, green and blue; of any other number each is treated as
    luminance.
    """
    (quality,) = parameters
    pixels = jnp.round(image * _WHITE)
    if image.shape[-1] == 3:
        return _colour(pixels, quality) / _WHITE
    planes = [_coded(pixels[..., c], _table(_LUMINANCE, quality)) for c in range(image.shape[-1])]
    return jnp.stack(planes, axis=-1) / _WHITE


def _colour(pixels: _Image, quality) -> _Image:
    height, width, _ = pixels.shape
    centre = jnp.array([0.0, 128.0, 128.0])
    planes = jnp.clip(jnp.round(pixels @ _TO_YCC.T + centre), 0.0, _WHITE)
    luminance = _coded(planes[..., 0], _table(_LUMINANCE, quality), multiple=2 * _BLOCK)
    table = _table(_CHROMINANCE, quality)
    chrominance = [_enlarged(_coded(_halved(planes[..., c]), table), height, width) for c in (1, 2)]
    coded = jnp.stack([luminance, *chrominance], axis=-1) - centre
    return jnp.round(coded @ _TO_RGB.T)


def _table(base: np.ndarray, quality) -> Float[Array, "8 8"]:
    percent = jnp.where(quality < 50, jnp.floor(5000.0 / quality), 200.0 - 2.0 * quality)
    return jnp.clip(jnp.floor((base * percent + 50.0) / 100.0), 1.0, _WHITE)


def _coded(plane: _Plane, table: Float[Array, "8 8"], multiple: int = _BLOCK) -> _Plane:
    """The plane after its 8 by 8 cosine coefficients were rounded to multiples of the table."""
    height, width = plane.shape
    padded = _padded(plane, multiple) - 128.0
    rows, columns = (size // _BLOCK for size in padded.shape)
    blocks = padded.reshape(rows, _BLOCK, columns, _BLOCK).transpose(0, 2, 1, 3)
    basis = _cosines()
    coefficients = jnp.einsum("ui,rcij,vj->rcuv", basis, blocks, basis)
    # Integer coders keep eighths and round halves away from zero, where halves are not rare.
    eighths = jnp.round(8.0 * jnp.abs(coefficients))
    quantised = jnp.sign(coefficients) * jnp.floor((eighths / (8.0 * table)) + 0.5) * table
    blocks = jnp.einsum("ui,rcuv,vj->rcij", basis, quantised, basis)
    plane = blocks.transpose(0, 2, 1, 3).reshape(padded.shape)[:height, :width]
    return jnp.clip(jnp.round(plane + 128.0), 0.0, _WHITE)


def _halved(plane: _Plane) -> _OtherPlane:
    """Means of 2 by 2 pixels as bytes; ties round down and up in turn along the row."""
    padded = _padded(plane, 2)
    height, width = (size // 2 for size in padded.shape)
    sums = padded.reshape(height, 2, width, 2).sum(axis=(1, 3))
    return jnp.floor((sums + 1.0 + jnp.arange(width) % 2) / 4.0)


def _enlarged(plane: _Plane, height: int, width: int) -> _OtherPlane:
    """Twice the size: three quarters of the nearer pixel and a quarter of the next, as bytes."""
    rows, columns = (_doubling(size) for size in plane.shape)
    full = (rows @ plane @ columns.T)[:height, :width]
    return jnp.floor(full + 0.5 - (jnp.arange(width) % 2) / 16.0)


def _doubling(size: int) -> np.ndarray:
    here = np.arange(2 * size)
    near = here // 2
    following = np.clip(near + np.where(here % 2, 1, -1), 0, size - 1)
    matrix = np.zeros((2 * size, size), np.float32)
    np.add.at(matrix, (here, near), 0.75)
    np.add.at(matrix, (here, following), 0.25)
    return matrix


def _padded(plane: _Plane, multiple: int) -> _OtherPlane:
    return jnp.pad(plane, [(0, -size % multiple) for size in plane.shape], mode="edge")


def _cosines() -> np.ndarray:
    """The orthonormal discrete cosine transform (type II) of eight points."""
    frequency = np.arange(_BLOCK)[:, None]
    basis = np.cos(np.pi * (2 * np.arange(_BLOCK) + 1) * frequency / (2 * _BLOCK))
    return (basis * np.where(frequency == 0, np.sqrt(1 / 8), np.sqrt(2 / 8))).astype(np.float32)
