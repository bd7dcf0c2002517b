"""Images as arrays of bytes: decoding files, and the units networks see."""

import io
import warnings
from typing import Any

import numpy as np
from jaxtyping import UInt8

from credax.errors import MissingExtra
from credax.reading import damage
from credax.standardise import Standardise

WHITE = 255
MOST_PIXELS = 2**25
"""Pixels of one image; the published batches of images have a third of it."""


def decode(
    contents: bytes, where: str, reduce: int = 1, formats: tuple[str, ...] = ("PNG", "JPEG")
) -> UInt8[np.ndarray, "height width 3"]:
    """An image as red, green and blue bytes, averaged over ``reduce`` by ``reduce`` blocks."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra("pillow", "data", "reading images") from None
    # Pillow warns of images that are too large and of damage that it can read around.
    refused = damage(where, "delete it and get it again", problem="is not a readable image")
    with refused, warnings.catch_warnings(action="error"):
        with Image.open(io.BytesIO(contents), formats=formats) as picture:
            if picture.width * picture.height > MOST_PIXELS:
                raise ValueError(f"it has {picture.width} by {picture.height} pixels")
            colours = picture.convert("RGB")
        return np.asarray(colours.reduce(reduce) if reduce > 1 else colours)


def units(mean: Any, deviation: Any) -> Standardise:
    """Published means and deviations, one or one per channel, of pixels in [0, 1], for bytes.

    >>> units(0.2, 0.4).mean.item()
    51.0
    """
    scaled: Any = (WHITE * np.asarray(mean), WHITE * np.asarray(deviation))
    return Standardise(*scaled)
