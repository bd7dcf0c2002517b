"""Small images as PNG, so that a page can hold test images without another package."""

import base64
import struct
import zlib

import numpy as np

from credax.errors import InputError

_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def encode_png(pixels: np.ndarray) -> bytes:
    """PNG file of ``[height, width, channels]`` uint8 pixels: grey, colour, colour and opacity.

    Reference: the PNG specification, ISO/IEC 15948.
    """
    pixels = np.asarray(pixels)
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] not in _COLOUR_TYPES:
        raise InputError(
            f"pixels has shape {pixels.shape} and type {pixels.dtype}; an image is "
            "[height, width, channels] of uint8 with 1, 3 or 4 channels"
        )
    height, width, channels = pixels.shape
    if height == 0 or width == 0:
        raise InputError(f"pixels has shape {pixels.shape}; an image has at least one pixel")
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    # Every row starts with its filter; zero means the bytes as they are.
    rows = np.zeros((height, 1 + width * channels), np.uint8)
    rows[:, 1:] = pixels.reshape(height, -1)
    body = zlib.compress(rows.tobytes(), 9)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def data_uri(pixels: np.ndarray) -> str:
    """The image as an address that holds the file itself."""
    return "data:image/png;base64," + base64.b64encode(encode_png(pixels)).decode()


def to_pixels(image: np.ndarray, low: float, high: float) -> np.ndarray:
    """An image of any number type as uint8, ``low`` black and ``high`` white; NaN is black."""
    if image.dtype == np.uint8 and (low, high) == (0, 255):
        return image
    scaled = (image.astype(np.float64) - low) / max(high - low, np.finfo(np.float64).tiny)
    return (np.clip(np.nan_to_num(scaled), 0, 1) * 255).round().astype(np.uint8)


def value_range(images: np.ndarray) -> tuple[float, float]:
    """The values to show black and white: a usual range that the images fill, else their extremes.

    Usual are 0 to 1, and 0 to 255 for bytes; bytes that stay in the lower half of it (digits with
    16 levels) are stretched, for they would be too dark to see.
    """
    finite = images[np.isfinite(images)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if images.dtype == np.uint8:
        return (0.0, 255.0) if high > 127 else (0.0, max(high, 1.0))
    return (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
