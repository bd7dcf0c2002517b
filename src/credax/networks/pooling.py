"""Pooling over windows of an image, and over all of it."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from credax.network import Variables

Padding = Literal["SAME", "VALID"]


@jax.custom_jvp
def _window_max(windows: Float[Array, "batch height rows width columns channels"]):
    return windows.max((2, 4), keepdims=True)


# Why not plain autodiff: on CPU the backward of reduce_window, and of max over a reshape, costs as
# much as a convolution. A mask makes it one comparison and one product, still differentiable.
@_window_max.defjvp
def _window_max_jvp(primals, tangents):
    (windows,), (tangent,) = primals, tangents
    largest = _window_max(windows)
    mask = (windows == largest).astype(windows.dtype)
    share = mask / mask.sum((2, 4), keepdims=True)
    return largest, (share * tangent).sum((2, 4), keepdims=True)


def _windows(x, size: int):
    """The image cut into ``size x size`` windows; a remainder at the far edges is dropped."""
    batch, height, width, channels = x.shape
    rows, columns = height // size, width // size
    x = x[:, : rows * size, : columns * size]
    return x.reshape(batch, rows, size, columns, size, channels)


@jax.tree_util.register_static
@dataclass(frozen=True)
class MaxPool:
    """The largest number of each ``window x window`` square, channel by channel.

    Where several are equally large the gradient is shared evenly (with overlapping windows, the
    first takes it).

    >>> MaxPool(2).apply(Variables({}, {}), jnp.arange(4.0).reshape(1, 2, 2, 1))[0].item()
    3.0
    """

    window: int = 2
    stride: int | None = None
    padding: Padding = "VALID"
    kind: ClassVar[str] = ""

    def init(self, key, x) -> Variables:
        """Nothing."""
        return Variables({}, {})

    def apply(self, variables, x, *, key=None, train=False):
        """``[batch, height, width, channels]`` to one number a window."""
        stride = self.stride or self.window
        if stride == self.window and self.padding == "VALID":
            return _window_max(_windows(x, self.window))[:, :, 0, :, 0], variables.state
        size, steps = (1, self.window, self.window, 1), (1, stride, stride, 1)
        largest = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, size, steps, self.padding)
        return largest, variables.state


@jax.tree_util.register_static
@dataclass(frozen=True)
class AvgPool:
    """The mean of each ``window x window`` square; padding is left out of the mean.

    >>> AvgPool(2).apply(Variables({}, {}), jnp.arange(4.0).reshape(1, 2, 2, 1))[0].item()
    1.5
    """

    window: int = 2
    stride: int | None = None
    padding: Padding = "VALID"
    kind: ClassVar[str] = ""

    def init(self, key, x) -> Variables:
        """Nothing."""
        return Variables({}, {})

    def apply(self, variables, x, *, key=None, train=False):
        """``[batch, height, width, channels]`` to one number a window."""
        stride = self.stride or self.window
        if stride == self.window and self.padding == "VALID":
            return _windows(x, self.window).mean((2, 4)), variables.state
        size, steps = (1, self.window, self.window, 1), (1, stride, stride, 1)

        def total(a):
            return jax.lax.reduce_window(a, 0.0, jax.lax.add, size, steps, self.padding)

        return total(x) / total(jnp.ones_like(x[:1, :, :, :1])), variables.state


@jax.tree_util.register_static
@dataclass(frozen=True)
class GlobalAveragePool:
    """The mean over all positions, ``[batch, ..., channels]`` to ``[batch, channels]``."""

    kind: ClassVar[str] = ""

    def init(self, key, x) -> Variables:
        """Nothing."""
        return Variables({}, {})

    def apply(self, variables, x, *, key=None, train=False):
        """The mean of each channel."""
        return x.mean(tuple(range(1, x.ndim - 1))), variables.state
