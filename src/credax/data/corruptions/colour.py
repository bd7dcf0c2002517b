"""Value and saturation of pixels with any number of channels, and colours for as many.

Value is the largest channel, saturation the range below it, ``(value - smallest) / value``: the V
and S of HSV, which do not need three channels. Hue is what stays when they change.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

_Image = Float[Array, "height width channels"]
_LUMA = (0.299, 0.587, 0.114)


def raise_value(image: _Image, by: Float[Array, ""]) -> _Image:
    """Add to the value and keep hue and saturation; black becomes grey.

    >>> raise_value(jnp.array([[[0.2, 0.4, 0.0]]]), 0.4).round(6).tolist()
    [[[0.4000000059604645, 0.800000011920929, 0.0]]]
    """
    value = image.max(axis=-1, keepdims=True)
    raised = jnp.clip(value + by, 0.0, 1.0)
    return jnp.where(value > 0, image * (raised / jnp.where(value > 0, value, 1.0)), raised)


def change_saturation(image: _Image, gain: Float[Array, ""], offset: Float[Array, ""]) -> _Image:
    """``saturation · gain + offset``, within [0, 1], at the same hue and value; grey stays grey."""
    value = image.max(axis=-1, keepdims=True)
    below = value - image
    spread = below.max(axis=-1, keepdims=True)
    coloured = spread > 0
    saturation = spread / jnp.where(coloured, value, 1.0)
    changed = jnp.clip(saturation * gain + offset, 0.0, 1.0)
    return value - below * jnp.where(coloured, changed / jnp.where(coloured, saturation, 1.0), 0.0)


def luminance(image: _Image) -> Float[Array, "height width 1"]:
    """Brightness as seen: the weighted mean of red, green and blue, else the plain mean."""
    if image.shape[-1] == 3:
        return (image * jnp.array(_LUMA, image.dtype)).sum(axis=-1, keepdims=True)
    return image.mean(axis=-1, keepdims=True)


def tint(rgb: tuple[float, float, float], channels: int) -> Float[Array, "channels"]:
    """A colour for three channels; its luminance for any other number of them."""
    if channels == 3:
        return jnp.array(rgb)
    return jnp.full(channels, sum(w * c for w, c in zip(_LUMA, rgb, strict=True)))
