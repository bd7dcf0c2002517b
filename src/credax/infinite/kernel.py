"""KernelFunction matrices in float64, in blocks of pairs that fit in memory."""

import dataclasses
import math
import warnings
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from credax.errors import InputError
from credax.infinite.activations import Activation
from credax.problem import check_inputs

KERNEL_MEMORY = 2**30
"""Bytes a block of pairs may take."""
LONGEST_TILE = 512
LIVE_ARRAYS = 14
"""Arrays of the size of a block that the recursion holds at once, measured on two layers."""
QUADRATURE_TOLERANCE = 1e-8
SMALL = 2**19
"""Kernels with fewer entries are computed by NumPy: compiling would take longer than they do."""


class Kernels(NamedTuple):
    """The NNGP (covariance of outputs at initialisation) and the NTK, ``[first, second]``."""

    nngp: Float[np.ndarray, "first second"]
    ntk: Float[np.ndarray, "first second"]


class KernelFunction(Protocol):
    """Anything that gives kernel matrices: a net, an empirical kernel, a group average."""

    def kernels(self, x1: Any, x2: Any = None) -> Any:
        """A pair ``nngp, ntk`` of two batches, or of one with itself."""
        ...


class QuadratureInaccurate(UserWarning):
    """Doubling the quadrature's nodes changes the kernel by more than 1e-8."""


def compute(net: Any, x1, x2, memory_limit: int) -> Kernels:
    """Both kernels, tile by tile; without ``x2`` the upper triangle, mirrored."""
    first = _checked(x1, "x1")
    second = first if x2 is None else _checked(x2, "x2")
    if first.shape[1:] != second.shape[1:]:
        raise InputError(
            f"x1 has rows of shape {first.shape[1:]} and x2 of {second.shape[1:]}; they must agree"
        )
    _check_quadrature(net, first, second)
    entries = len(first) * len(second) * _entries(net, first.shape[1:])
    block = _compiled if entries >= SMALL or _quadratures(net) else _recursion
    height, width = tile_shape(net, len(first), len(second), first.shape[1:], memory_limit)
    nngp, ntk = np.empty((2, len(first), len(second)))
    for i in range(0, len(first), height):
        for j in range(0, len(second), width):
            if x2 is None and j + width <= i:
                continue
            found = block(net, _rows(first, i, height), _rows(second, j, width))
            for whole, part in zip((nngp, ntk), found, strict=True):
                target = whole[i : i + height, j : j + width]
                target[...] = part[: target.shape[0], : target.shape[1]]
    if x2 is None:
        _mirror(nngp)
        _mirror(ntk)
    return Kernels(nngp, ntk)


def variances(net: Any, x: Float[np.ndarray, "rows ..."], block: int = 256) -> np.ndarray:
    """The NNGP of every input with itself, without the other pairs."""
    found = []
    for start in range(0, len(x), block):
        rows = np.asarray(x[start : start + block], np.float64)
        if hasattr(net, "pair_state") and not _quadratures(net):
            found.append(net.pair_state(rows[:1], rows).second.covariance)
        else:
            found.append(np.diag(net.kernels(rows).nngp))
    return np.concatenate(found)


def tile_shape(
    net: Any, first: int, second: int, shape: tuple[int, ...], memory_limit: int
) -> tuple[int, int]:
    """Rows and columns of a block within the memory, or one sentence why there is none."""
    entries = _entries(net, shape)
    nodes = max((layer.nodes for layer in _quadratures(net)), default=1)
    bytes_per_pair = 8 * LIVE_ARRAYS * entries * (nodes if nodes > 1 else 1)
    if bytes_per_pair > memory_limit:
        raise InputError(
            f"memory_limit is {memory_limit} bytes and one pair of inputs of shape {shape} needs "
            f"{bytes_per_pair}: pooling needs every pair of positions; use smaller pictures, end "
            "in Flatten instead of pooling, or raise memory_limit"
        )
    # A pooled block also holds every input with itself, so a block of n by n counts n² + 2n.
    edge = max(1, math.isqrt(memory_limit // bytes_per_pair + 1) - 1)
    edge = min(edge, LONGEST_TILE)
    height = min(edge, first)
    width = min(max(edge, memory_limit // bytes_per_pair // (height + 2) - 1), second, LONGEST_TILE)
    return height, max(width, 1) if second != first else min(max(width, 1), height)


def _entries(net: Any, shape: tuple[int, ...]) -> int:
    """Numbers a pair of inputs has in the state of the first layer, the largest."""
    positions = math.prod(shape[:-1])
    return positions**2 if net.pairs else positions


def _recursion(net, x1, x2):
    state = net.pair_state(x1, x2)
    if state.positions:
        raise InputError(
            f"the network ends with {state.positions} positions; end in Flatten or "
            "GlobalAveragePool and an InfiniteDense layer"
        )
    return state.covariance, state.tangent


_jitted = partial(jax.jit, static_argnums=0)(_recursion)


def _compiled(net: Any, x1: np.ndarray, x2: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    with jax.enable_x64(True):
        nngp, ntk = _jitted(net, jnp.asarray(x1), jnp.asarray(x2))
        return np.asarray(nngp), np.asarray(ntk)


def _rows(x: np.ndarray, start: int, length: int) -> np.ndarray:
    """A block of rows, the last one repeated where there are too few: one compiled program."""
    rows = x[start : start + length]
    return np.concatenate([rows, np.repeat(rows[-1:], length - len(rows), axis=0)])


def _mirror(matrix: np.ndarray) -> None:
    lower = np.tril_indices(len(matrix), -1)
    matrix[lower] = matrix.T[lower]


def _checked(x, name: str) -> np.ndarray:
    x = np.asarray(x)
    if x.ndim < 2 or len(x) == 0:
        raise InputError(f"{name} has shape {x.shape}; give at least one row [rows, features]")
    check_inputs(x, name)
    return np.asarray(x, np.float64)


def _quadratures(layer: Any) -> list[Activation]:
    if isinstance(layer, Activation):
        return [layer]
    inner = getattr(layer, "layers", None) or getattr(layer, "branches", ())
    return [found for part in inner for found in _quadratures(part)]


def _finer(layer: Any) -> Any:
    if isinstance(layer, Activation):
        return dataclasses.replace(layer, nodes=2 * layer.nodes)
    for name in ("layers", "branches"):
        if hasattr(layer, name):
            inner = tuple(_finer(part) for part in getattr(layer, name))
            return dataclasses.replace(layer, **{name: inner})
    return layer


def _check_quadrature(net: Any, first: np.ndarray, second: np.ndarray) -> None:
    """Compare with twice the nodes on the longest inputs, where quadrature is worst."""
    if not _quadratures(net):
        return
    rows = np.concatenate([first, second])
    longest = rows[np.argsort(np.square(rows).reshape(len(rows), -1).sum(1))[-2:]]
    coarse, fine = (np.stack(_compiled(n, longest, longest)) for n in (net, _finer(net)))
    error = np.max(np.abs(fine - coarse)) / np.max(np.abs(fine))
    if error > QUADRATURE_TOLERANCE:
        warnings.warn(
            f"doubling the quadrature's nodes changes the kernel by {error:.1e}; give Activation "
            "more nodes, scale the inputs down, or use an activation with a closed form",
            QuadratureInaccurate,
            stacklevel=4,
        )
