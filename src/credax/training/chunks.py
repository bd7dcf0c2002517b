"""Chunks of a training: how long the next one is, and where a chunk's arrays are."""

from typing import Any

import jax
import jax.numpy as jnp

CHUNK_SECONDS = 1.0


def next_length(length: int, seconds: float) -> int:
    """Chunks grow until they take about a second, so that the bar moves and dispatch is cheap."""
    if seconds < CHUNK_SECONDS / 2:
        return length * 4
    return max(1, length // 2) if seconds > 2 * CHUNK_SECONDS else length


def placed_as(old: jax.Array, new: Any) -> jax.Array:
    """An array read back, where the old one is.

    Arrays bound to a device are another program's arguments: a resumed run would compile twice.
    """
    return jax.device_put(new, old.sharding) if old.committed else jnp.asarray(new)
