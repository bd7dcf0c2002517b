"""Pictures as arrays of bytes: decoding files, and the units networks see."""

import io
from typing import Any

import numpy as np
from jaxtyping import UInt8

from credax.data.checks import first_line
from credax.errors import InputError, MissingExtra
from credax.standardise import Standardise

WHITE = 255


def decode(contents: bytes, where: str, reduce: int = 1) -> UInt8[np.ndarray, "height width 3"]:
    """A picture as red, green and blue bytes, averaged over ``reduce`` by ``reduce`` blocks."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra("pillow", "data", "reading pictures") from None
    try:
        with Image.open(io.BytesIO(contents)) as picture:
            colours = picture.convert("RGB")
        return np.asarray(colours.reduce(reduce) if reduce > 1 else colours)
    # Pillow reports broken PNG chunks as SyntaxError.
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(
            f"{where} is not a readable picture ({first_line(error)}); delete it and get it again"
        ) from error


def units(mean: Any, deviation: Any) -> Standardise:
    """Published means and deviations, one or one a channel, of pixels in [0, 1], for bytes.

    >>> units(0.2, 0.4).mean.item()
    51.0
    """
    scaled: Any = (WHITE * np.asarray(mean), WHITE * np.asarray(deviation))
    return Standardise(*scaled)
