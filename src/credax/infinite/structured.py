"""The empirical NTK of a network of our own layers, from activations and backward signals.

The Jacobian of a dense layer is an outer product, so ``Θ`` is a sum over layers of products of two
small Gram matrices: ``(w² / n) (δ·δ') (h·h') + b² (δ·δ')`` with what came into the layer, ``h``,
and the slopes of an output by what goes out of it, ``δ``. No Jacobian of a dense layer is formed.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from credax.errors import InputError
from credax.infinite.layers import Dense
from credax.infinite.net import Serial, Sum
from credax.infinite.spatial import Conv
from credax.network import Variables
from credax.networks.sequential import Sequential


def check_structured(network: Any) -> Serial:
    """The network, if it is built of layers whose Jacobians are known."""
    if not isinstance(network, Serial):
        raise InputError(
            f"method is 'structured' and the network a {type(network).__name__}; it is for those "
            "made by infinite.serial: use 'contraction' or 'vector_products'"
        )
    return network


def row_bytes(network: Any, variables: Variables, x: Array) -> int:
    """Twice what one input's activations and backward signals take in float64."""
    params = variables.params
    inputs, slopes = jax.eval_shape(lambda row: _signals(network, params, row), x[0])
    return 16 * sum(math.prod(leaf.shape) for leaf in (*inputs, *slopes))


def structured(network: Any, variables: Variables, x1: Array, x2: Array) -> Array:
    """``Θ(x1, x2)`` as ``[first, second, outputs, outputs]``."""
    layers: list[Any] = []
    jax.eval_shape(lambda row: _signals(network, variables.params, row, layers), x1[0])
    both = [jax.vmap(lambda row: _signals(network, variables.params, row))(x) for x in (x1, x2)]
    total: Any = 0.0
    for number, layer in enumerate(layers):
        (h1, d1), (h2, d2) = ((inputs[number], slopes[number]) for inputs, slopes in both)
        total = total + _layer_kernel(layer, h1, h2, d1, d2)
    return total


def _signals(network, params, row, layers: list | None = None) -> tuple[list[Array], list[Array]]:
    """Every Gaussian layer's input, and the slopes of every output by what it gives."""

    def run(taps):
        seen: list[tuple[Any, Array, Array]] = []
        outputs = _run(network, params, row[None], taps, seen)[0]
        if layers is not None and not layers:
            layers.extend(layer for layer, _, _ in seen)
        return outputs, ([h[0] for _, h, _ in seen], [z for _, _, z in seen])

    shapes = jax.eval_shape(lambda: run(None)[1][1])
    zeros = [jnp.zeros(shape.shape, shape.dtype) for shape in shapes]
    outputs, pull, (inputs, _) = jax.vjp(run, zeros, has_aux=True)
    (slopes,) = jax.vmap(pull)(jnp.eye(len(outputs), dtype=outputs.dtype))
    return inputs, [slope[:, 0] for slope in slopes]


def _run(layer: Any, params: Any, x: Array, taps: list[Array] | None, seen: list) -> Array:
    """A layer's outputs; Gaussian ones have a tap added and leave what went in and came out."""
    if isinstance(layer, Serial):
        for name, inner in zip(Sequential(layer.layers).names, layer.layers, strict=True):
            x = _run(inner, params.get(name, {}), x, taps, seen)
        return x
    if isinstance(layer, Sum):
        total: Any = x if layer.shortcut else 0.0
        for number, branch in enumerate(layer.branches):
            total = total + _run(branch, params[str(number)], x, taps, seen)
        return total
    outputs = layer.apply(Variables(params, {}), x)[0]
    if not isinstance(layer, Dense | Conv):
        return outputs
    number = len(seen)
    seen.append((layer, x, outputs))
    return outputs if taps is None else outputs + taps[number]


def _layer_kernel(layer: Any, h1: Array, h2: Array, d1: Array, d2: Array) -> Array:
    """One layer's part: products of Gram matrices, or Jacobians where weights are shared."""
    outside = layer.parameterisation == "ntk"
    bias = layer.bias_std**2 if outside else float(layer.bias_std > 0)
    if h1.ndim == 2:
        scale = layer.weight_std**2 / h1.shape[-1] if outside else 1.0
        slopes = jnp.einsum("aif,bjf->abij", d1, d2)
        return (scale * (h1 @ h2.T) + bias)[:, :, None, None] * slopes
    rows1, rows2 = (_patches(layer, h) for h in (h1, h2))
    scale = layer.weight_std**2 / rows1.shape[-1] if outside else 1.0
    flat1, flat2 = (d.reshape(*d.shape[:2], -1, d.shape[-1]) for d in (d1, d2))
    jacobians = [
        jnp.einsum("aipf,apc->aifc", d, rows) for d, rows in ((flat1, rows1), (flat2, rows2))
    ]
    found = scale * jnp.einsum("aifc,bjfc->abij", *jacobians)
    return found + bias * jnp.einsum("aif,bjf->abij", flat1.sum(2), flat2.sum(2))


def _patches(layer: Any, h: Array) -> Array:
    """What every position's weights see, ``[rows, positions, inputs]``."""
    if isinstance(layer, Dense):
        return h.reshape(len(h), -1, h.shape[-1])
    windows = layer.windows(h.shape[1:3])
    padded = windows.pad(h, 1)
    taps = jnp.stack([windows.tap(padded, 1, offset) for offset in layer.offsets], axis=-2)
    return taps.reshape(len(h), -1, taps.shape[-2] * taps.shape[-1])
