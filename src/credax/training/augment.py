"""Random changes of a batch of images that keep the label, on the device, in raw pixels.

Where every pixel has a target, picture and targets move together; targets that come from outside
the picture do not count.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from credax.errors import InputError, unknown

CROP_PADDING = 4
SCALES = (0.75, 1.33)
"""The range of `scale`."""


def flip(key: Key[Array, ""], x: Array, fill: Any = 0) -> Array:
    """Mirror each image ``[height, width, channels]`` left to right, or not, by a fair coin."""
    mirrored = jax.random.bernoulli(key, 0.5, (len(x),))
    return jnp.where(mirrored[:, None, None, None], x[:, :, ::-1], x)


def crop(key: Key[Array, ""], x: Array, fill: Any = 0, padding: int = CROP_PADDING) -> Array:
    """Pad each image with zeros on every side, then cut its size out at a random place."""
    batch, height, width, channels = x.shape
    widths = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    padded = jnp.pad(x, widths, constant_values=fill)
    corners = jax.random.randint(key, (batch, 2), 0, 2 * padding + 1)

    def cut(picture, corner):
        return jax.lax.dynamic_slice(picture, (corner[0], corner[1], 0), (height, width, channels))

    return jax.vmap(cut)(padded, corners)


def scale(key: Key[Array, ""], x: Array, fill: Any = None) -> Array:
    """Enlarge or shrink each image by a factor of 0.75 to 1.33 about a random point.

    Inputs are interpolated bilinearly, with zeros outside; targets (``fill`` given) are those of
    the nearest pixel, with ``fill`` outside.
    """
    batch, height, width, _ = x.shape
    factor_key, place_key = jax.random.split(key)
    low, high = jnp.log(jnp.asarray(SCALES))
    factor = jnp.exp(jax.random.uniform(factor_key, (batch, 1), minval=low, maxval=high))
    place = jax.random.uniform(place_key, (batch, 2)) * jnp.array([height - 1, width - 1])

    def one(picture, factor, place):
        down = place[0] + (jnp.arange(height) - place[0]) / factor
        across = place[1] + (jnp.arange(width) - place[1]) / factor
        where = jnp.meshgrid(down, across, indexing="ij")
        inside = (where[0] > -0.5) & (where[0] < height - 0.5)
        inside &= (where[1] > -0.5) & (where[1] < width - 0.5)
        if fill is not None:
            row, column = (jnp.rint(axis).astype(jnp.int32) for axis in where)
            found = picture[row.clip(0, height - 1), column.clip(0, width - 1)]
            return jnp.where(inside[..., None], found, jnp.asarray(fill, picture.dtype))
        sample = lambda channel: jax.scipy.ndimage.map_coordinates(  # noqa: E731
            channel.astype(jnp.float32), where, order=1, mode="nearest"
        )
        found = jnp.where(inside[..., None], jax.vmap(sample, -1, -1)(picture), 0)
        whole = jnp.issubdtype(picture.dtype, jnp.integer)
        return (jnp.rint(found) if whole else found).astype(picture.dtype)

    return jax.vmap(one)(x, factor, place)


AUGMENTATIONS: dict[str, Callable[..., Array]] = {"flip": flip, "crop": crop, "scale": scale}


def check_augmentations(augmentations: tuple[Any, ...], input_shape: tuple[int, ...]) -> None:
    """Raise an error for an unknown name or inputs that are not images."""
    names = tuple(name for name in augmentations if not callable(name))
    for name in names:
        if name not in AUGMENTATIONS:
            raise unknown("augmentation", name, AUGMENTATIONS)
    if names and len(input_shape) != 3:
        raise InputError(
            f"augment is {', '.join(names)} and inputs have shape {input_shape}; augmentations "
            "need images of shape (height, width, channels): drop --augment"
        )


def augment(names: tuple[str, ...], key: Key[Array, ""], x: Array) -> Array:
    """Apply the named augmentations one after another, each with its own key."""
    for position, name in enumerate(names):
        x = AUGMENTATIONS[name](jax.random.fold_in(key, position), x)
    return x


def augment_rows(
    augmentations: tuple[Any, ...],
    key: Key[Array, ""],
    x: Array,
    y: Array,
    outside: float | None = None,
) -> tuple[Array, Array]:
    """Apply names and functions ``(key, x, y) -> (x, y)`` one after another, each with its key.

    ``outside`` is the target of a pixel that does not count; None where rows have one target each.
    """
    for position, one in enumerate(augmentations):
        own = jax.random.fold_in(key, position)
        if isinstance(one, str):
            x = AUGMENTATIONS[one](own, x)
            y = y if outside is None else _moved(one, own, y, outside)
        else:
            x, y = one(own, x, y)
    return x, y


def _moved(name: str, key: Key[Array, ""], y: Array, outside: float) -> Array:
    """Targets of every pixel, moved as the picture is by the same key."""
    maps = y[..., None] if y.ndim == 3 else y
    return AUGMENTATIONS[name](key, maps, jnp.asarray(outside, y.dtype)).reshape(y.shape)
