"""Pooling over windows of an image, and over all of it."""

from dataclasses import dataclass
from functools import reduce
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credax.networks.layers import Parameterless
from credax.networks.once import computed_once

Padding = Literal["SAME", "VALID"]


@jax.custom_jvp
def _window_max(windows: Float[Array, "batch height rows width columns channels"]):
    return reduce(jnp.maximum, _corners(windows))


# Why not plain autodiff: on CPU the backward of reduce_window, and of max over a reshape, costs as
# much as a convolution. Remembering which number of the window won makes it one elementwise pass,
# and the rule is made of ordinary operations, so it can be differentiated again.
@_window_max.defjvp
def _window_max_jvp(primals, tangents):
    (windows,), (tangent,) = primals, tangents
    largest = _window_max(windows)
    _, _, rows, _, columns, _ = windows.shape
    winner = jnp.full_like(largest, rows * columns - 1)
    for position, corner in reversed(list(enumerate(_corners(windows)))):
        winner = jnp.where(corner == largest, position, winner)
    winner = computed_once(winner)[:, :, None, :, None]
    position = jnp.arange(rows * columns, dtype=winner.dtype).reshape(rows, 1, columns, 1)
    return largest, jnp.where(winner == position, tangent, 0).sum((2, 4))


def _corners(windows):
    """The first number of every window, the second, ...: elementwise work on whole rows."""
    return [windows[:, :, i, :, j] for i, j in np.ndindex(windows.shape[2], windows.shape[4])]


def _windows(x, size: int):
    """The image cut into ``size x size`` windows; a remainder at the far edges is dropped."""
    batch, height, width, channels = x.shape
    rows, columns = height // size, width // size
    x = x[:, : rows * size, : columns * size]
    return x.reshape(batch, rows, size, columns, size, channels)


@jax.tree_util.register_static
@dataclass(frozen=True)
class MaxPool(Parameterless):
    """The largest number of each ``window x window`` square, channel by channel.

    Where several are equally large the first takes the gradient.

    >>> MaxPool(2).apply(MaxPool(2).init(None, None), jnp.arange(4.0).reshape(1, 2, 2, 1))[0].item()
    3.0
    """

    window: int = 2
    stride: int | None = None
    padding: Padding = "VALID"

    def apply(self, variables, x, *, key=None, train=False):
        """``[batch, height, width, channels]`` to one number per window."""
        stride = self.stride or self.window
        if stride == self.window and self.padding == "VALID":
            return _window_max(_windows(x, self.window)), variables.state
        size, steps = (1, self.window, self.window, 1), (1, stride, stride, 1)
        largest = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, size, steps, self.padding)
        return largest, variables.state


@jax.tree_util.register_static
@dataclass(frozen=True)
class AvgPool(Parameterless):
    """The mean of each ``window x window`` square; padding is left out of the mean.

    >>> AvgPool(2).apply(AvgPool(2).init(None, None), jnp.arange(4.0).reshape(1, 2, 2, 1))[0].item()
    1.5
    """

    window: int = 2
    stride: int | None = None
    padding: Padding = "VALID"

    def apply(self, variables, x, *, key=None, train=False):
        """``[batch, height, width, channels]`` to one number per window."""
        stride = self.stride or self.window
        if stride == self.window and self.padding == "VALID":
            return _windows(x, self.window).mean((2, 4)), variables.state
        size, steps = (1, self.window, self.window, 1), (1, stride, stride, 1)

        def total(a):
            return jax.lax.reduce_window(a, 0.0, jax.lax.add, size, steps, self.padding)

        return total(x) / total(jnp.ones_like(x[:1, :, :, :1])), variables.state


@jax.tree_util.register_static
@dataclass(frozen=True)
class GlobalAveragePool(Parameterless):
    """The mean over all positions, ``[batch, ..., channels]`` to ``[batch, channels]``."""

    def apply(self, variables, x, *, key=None, train=False):
        """The mean of each channel."""
        return x.mean(tuple(range(1, x.ndim - 1))), variables.state
