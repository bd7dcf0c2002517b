"""Random changes of a batch of images that keep the label, on the device, in raw pixels."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from credax.errors import InputError, unknown

CROP_PADDING = 4


def flip(key: Key[Array, ""], x: Array) -> Array:
    """Mirror each image ``[height, width, channels]`` left to right, or not, by a fair coin."""
    mirrored = jax.random.bernoulli(key, 0.5, (len(x),))
    return jnp.where(mirrored[:, None, None, None], x[:, :, ::-1], x)


def crop(key: Key[Array, ""], x: Array, padding: int = CROP_PADDING) -> Array:
    """Pad each image with zeros on every side, then cut its size out at a random place."""
    batch, height, width, channels = x.shape
    padded = jnp.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    corners = jax.random.randint(key, (batch, 2), 0, 2 * padding + 1)

    def cut(picture, corner):
        return jax.lax.dynamic_slice(picture, (corner[0], corner[1], 0), (height, width, channels))

    return jax.vmap(cut)(padded, corners)


AUGMENTATIONS: dict[str, Callable[[Key[Array, ""], Array], Array]] = {"flip": flip, "crop": crop}


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
    augmentations: tuple[Any, ...], key: Key[Array, ""], x: Array, y: Array
) -> tuple[Array, Array]:
    """Apply names and functions ``(key, x, y) -> (x, y)`` one after another, each with its key."""
    for position, one in enumerate(augmentations):
        own = jax.random.fold_in(key, position)
        if isinstance(one, str):
            x = AUGMENTATIONS[one](own, x)
        else:
            x, y = one(own, x, y)
    return x, y
