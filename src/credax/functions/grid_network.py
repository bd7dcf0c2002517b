"""The network of a convolutional conditional neural process: sets on a grid of one or two axes."""

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from credax.functions.process_network import Latent, Points, ProcessNetwork
from credax.functions.set_layers import dense, init_dense, init_layers, layers

EPSILON = 1e-5


class Axis(NamedTuple):
    """Grid points of one input column: from ``low`` in equal steps."""

    low: float
    step: float
    size: int

    @property
    def high(self) -> float:
        """The last grid point."""
        return self.low + self.step * (self.size - 1)

    @property
    def points(self) -> np.ndarray:
        """All grid points."""
        return self.low + self.step * np.arange(self.size)


class GridNetwork(ProcessNetwork):
    """Density and values of a context on a grid, a convolutional network, and back to targets.

    ``h(g) = (Σ_i w(g - x_i), Σ_i w(g - x_i) y_i / Σ_i w(g - x_i))`` with Gaussian weights ``w`` of
    a learned width. Inputs beyond the grid are moved to its edge.
    """

    axes: tuple[Axis, ...] = eqx.field(static=True)
    hidden: int = 64
    blocks: int = 4
    kernel_size: int = 9
    latent_size: int = 0

    def init(self, key, columns: int, values: int, outputs: int) -> PyTree:
        """Widths of two grid steps, or half of one on pixels; residual blocks that begin small."""
        first, blocks, out = jax.random.split(key, 3)
        positions = self.kernel_size ** len(self.axes)
        steps = 2.0 if len(self.axes) == 1 else 0.5
        width = jnp.log(steps * jnp.asarray([axis.step for axis in self.axes]))
        residual = [
            {
                "spatial": init_dense(jax.random.fold_in(k, 0), positions, self.hidden),
                "mix": init_dense(jax.random.fold_in(k, 1), self.hidden, self.hidden, 0.5),
            }
            for k in jax.random.split(blocks, self.blocks)
        ]
        sizes = (self.hidden, self.hidden, outputs)
        return {
            "width_in": width,
            "width_out": width,
            "lift": init_dense(first, 1 + values, self.hidden),
            "blocks": residual,
            "decoder": init_layers(out, sizes),
        }

    def condition(self, params, context: Points) -> PyTree:
        """Features on the grid after the convolutions."""
        weights = self._weights(params["width_in"], context.x)
        weights[0] = jnp.where(context.mask[..., None], weights[0], 0)
        ones = jnp.ones((*context.values.shape[:-1], 1), context.values.dtype)
        channels = jnp.concatenate([ones, context.values], axis=-1)
        grid = _onto(weights, channels)
        density = grid[..., :1]
        signal = jnp.concatenate([density, grid[..., 1:] / (density + EPSILON)], axis=-1)
        h = dense(params["lift"], signal)
        for block in params["blocks"]:
            found = depthwise(block["spatial"], jax.nn.relu(h), self.kernel_size)
            h = h + dense(block["mix"], jax.nn.relu(found))
        return h

    def latent(self, params, points: Points) -> Latent:
        """No numbers: there is no latent variable."""
        nothing = jnp.zeros((len(points.x), 0))
        return Latent(nothing, nothing)

    def outputs(self, params, context, z, x) -> Array:
        """Gaussian weights of the grid around each target, and a layer."""
        weights = self._weights(params["width_out"], x)
        total = [w / (jnp.sum(w, axis=-1, keepdims=True) + EPSILON) for w in weights]
        return layers(params["decoder"], _back(total, context))

    def stored(self) -> dict[str, Any]:
        """The grid."""
        return {"axes": [list(axis) for axis in self.axes]}

    def _weights(self, log_width: Float[Array, " columns"], x: Array) -> list[Array]:
        """Gaussian weights between points and the grid points of each axis."""
        found = []
        for i, axis in enumerate(self.axes):
            inside = jnp.clip(x[..., i : i + 1], axis.low, axis.high)
            away = (inside - jnp.asarray(axis.points, x.dtype)) / jnp.exp(log_width[i])
            found.append(jnp.exp(-0.5 * jnp.square(away)))
        return found


def _onto(weights: list[Array], channels: Array) -> Array:
    """Sums over points at each grid point."""
    if len(weights) == 1:
        return jnp.einsum("tpg,tpc->tgc", weights[0], channels)
    return jnp.einsum("tpg,tph,tpc->tghc", *weights, channels, optimize="optimal")


def _back(weights: list[Array], grid: Array) -> Array:
    """Sums over grid points at each point."""
    if len(weights) == 1:
        return jnp.einsum("tpg,tgc->tpc", weights[0], grid)
    rows = jnp.einsum("tpg,tghc->tphc", weights[0], grid)
    return jnp.einsum("tph,tphc->tpc", weights[1], rows)


def depthwise(params: dict, h: Array, size: int) -> Array:
    """Each channel of a grid convolved with a kernel of its own, as a sum of shifted grids.

    XLA's own convolution is many times slower inside a loop on a CPU.
    """
    spatial, half = h.ndim - 2, size // 2
    padded = jnp.pad(h, [(0, 0), *[(half, half)] * spatial, (0, 0)])
    total = params["bias"]
    for i, shift in enumerate(itertools.product(range(size), repeat=spatial)):
        window = tuple(slice(s, s + n) for s, n in zip(shift, h.shape[1:-1], strict=True))
        total = total + params["weight"][i] * padded[(slice(None), *window)]
    return total
