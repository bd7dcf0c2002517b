"""A convolutional network whose filters turn: equivariant to C_n by its architecture."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credax.errors import InputError
from credax.network import Variables
from credax.networks.convolution import convolve
from credax.networks.layers import Activation, Dense, Parameterless
from credax.networks.pooling import AvgPool, GlobalAveragePool
from credax.networks.sequential import Sequential

RING_WIDTH = 0.6
MOST_FREQUENCY = (0, 2, 3, 2)
"""Angular detail a ring of pixels can carry, by its radius."""


@lru_cache
def turned_filters(order: int, window: int) -> Float[np.ndarray, "order pixels basis"]:
    """A basis of filters, turned by every element.

    For quarter turns every pixel is its own basis function, and turning permutes pixels. For other
    orders the basis is rings (Gaussians of the radius) times circular harmonics, turned by their
    phase: exact at multiples of a quarter turn, steerable between.
    """
    if order in (1, 2, 4):
        pixels = np.eye(window**2).reshape(window, window, -1)
        turns = [np.rot90(pixels, 4 * k // order) for k in range(order)]
        return np.stack([t.reshape(window**2, -1) for t in turns])
    half = window // 2
    row, column = np.divmod(np.arange(window**2), window)
    x, y = column - half, half - row
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    columns = []
    for ring in range(half + 1):
        envelope = np.exp(-((radius - ring) ** 2) / (2 * RING_WIDTH**2))
        limit = MOST_FREQUENCY[min(ring, len(MOST_FREQUENCY) - 1)]
        for m in range(limit + 1):
            # At the centre no angle is defined: only the constant has a value there.
            wave = envelope * np.where((radius > 0) | (m == 0), 1.0, 0.0)
            size = np.linalg.norm(wave)
            for phase in (0.0,) if m == 0 else (0.0, np.pi / 2):
                columns.append((wave / size, m, phase))
    turns = []
    for k in range(order):
        turn = 2 * np.pi * k / order
        turns.append(np.stack([w * np.cos(m * (angle - turn) - p) for w, m, p in columns], -1))
    return np.stack(turns)


@jax.tree_util.register_static
@dataclass(frozen=True)
class GroupConv:
    """A convolution of pictures or of regular fields with filters turned by every element.

    Lifting (``lift=True``) takes pictures ``[..., channels]``; otherwise channels are ``fields``
    times ``order`` orientations, and the filter of an output orientation sees the inputs'
    relative to its own. Reference: Cohen and Welling 2016; steerable filters, Weiler and Cesa 2019.
    """

    fields: int
    order: int
    window: int = 3
    lift: bool = False
    kind: ClassVar[str] = "turning_conv"

    def __post_init__(self):
        if self.window % 2 == 0:
            raise InputError(f"window is {self.window}; turning filters have odd windows")
        if self.order < 1:
            raise InputError(f"order is {self.order}; give at least 1 orientation")

    def init(self, key, x) -> Variables:
        """Weights ``[basis, inputs, relative orientations, fields]`` and a bias a field."""
        inputs, relative = self._inputs(x.shape[-1])
        basis = turned_filters(self.order, self.window)
        shape = (basis.shape[-1], inputs, relative, self.fields)
        # With this scale the variance is kept from layer to layer.
        size = float(np.sqrt(2 / (inputs * relative * np.square(basis[0]).sum())))
        kernel = size * jax.random.normal(key, shape, x.dtype)
        return Variables({"kernel": kernel, "bias": jnp.zeros(self.fields, x.dtype)}, {})

    def apply(self, variables, x, *, key=None, train=False):
        """Fields times orientations, at the same positions."""
        weights = variables.params["kernel"]
        basis = jnp.asarray(turned_filters(self.order, self.window), weights.dtype)
        inputs, relative = self._inputs(x.shape[-1])
        kernels = []
        for element in range(self.order):
            # Input orientation i is i - element as this output orientation sees it.
            seen = jnp.roll(weights, element, axis=2) if relative > 1 else weights
            kernels.append(jnp.einsum("pb,biro->piro", basis[element], seen))
        kernel = jnp.stack(kernels, axis=-1)  # pixels, inputs, relative, fields, order
        shape = (self.window, self.window, inputs * relative, self.fields * self.order)
        bias = jnp.repeat(variables.params["bias"], self.order)
        return convolve(x, kernel.reshape(shape), bias), variables.state

    def _inputs(self, channels: int) -> tuple[int, int]:
        if self.lift:
            return channels, 1
        if channels % self.order:
            raise InputError(f"there are {channels} channels, not a multiple of {self.order}")
        return channels // self.order, self.order


@jax.tree_util.register_static
@dataclass(frozen=True)
class LargestOrientation(Parameterless):
    """The largest of a field's orientations: what turning does not change."""

    order: int

    def apply(self, variables, x, *, key=None, train=False):
        """``[..., fields * order]`` to ``[..., fields]``."""
        return x.reshape(*x.shape[:-1], -1, self.order).max(-1), variables.state


def GroupCNN(order: int, outputs: int, fields: tuple[int, ...] = (8, 16, 16), window: int = 3):
    """A lifting and then turning convolutions with average pooling between, invariant to C_n.

    Exact for quarter turns of square pictures whose sides the poolings divide evenly; for other
    orders as good as the pixels allow.

    >>> GroupCNN(4, outputs=10).layers[0].order
    4
    """
    layers: list = []
    for position, count in enumerate(fields):
        layers += [GroupConv(count, order, window, lift=position == 0), Activation("relu")]
        if position + 1 < len(fields):
            layers.append(AvgPool(2))
    head = (LargestOrientation(order), GlobalAveragePool(), Dense(outputs))
    return Sequential((*layers, *head))
