"""Quarter turns of pictures: group-convolutional networks, and kernels that are not invariant."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credax.errors import InputError, unknown
from credax.infinite.activations import Nonlinearity, ReLU
from credax.infinite.kernel import KERNEL_MEMORY, Kernels
from credax.infinite.net import Serial
from credax.infinite.spatial import AveragePool, GlobalAveragePool, InfiniteConv, Windows
from credax.network import Variables
from credax.networks.convolution import convolve

ORDERS = (1, 2, 4)
EXACT = 1e-10


@jax.tree_util.register_static
@dataclass(frozen=True)
class GroupConvolutional:
    """A lifting convolution, group convolutions, the mean over orientations and places, a readout.

    ``z[g, p] = (w / √(taps · channels)) Σ_d W[d] x[p + gd] + b β`` lifts; later layers are
    ``(w / √(order · taps · channels)) Σ_{h,d} W[h, d] φ(z)[gh, p + gd] + b β``. All orientations of
    a pair relative to another give the kernels of the plain convolutional network with one picture
    turned by ``r``, ``K(x, r x')``, so behind the pool stands their mean over ``r``: the ensemble
    of these networks has the mean of plain ones trained on whole orbits. References: Cohen and
    Welling 2016; Misof, Kessel and Gerken 2025.

    Cost: ``order`` pooled kernels. Invariant exactly, at every width, on square pictures.
    """

    features: tuple[int, ...]
    """Fields of every convolution; each has ``order`` orientations."""
    outputs: int = 1
    order: int = 4
    """Turns of the filters: 1, 2 or 4, those that pixels allow."""
    window: int = 3
    padding: str = "zero"
    weight_std: float = 2**0.5
    bias_std: float = 0.1
    activation: Nonlinearity = ReLU()  # noqa: RUF009
    kind: ClassVar[str] = "group_convolutional"

    def __post_init__(self):
        if self.order not in ORDERS:
            raise unknown("order", str(self.order), map(str, ORDERS))
        if self.window < 1 or self.window % 2 == 0:
            raise InputError(f"window is {self.window}; filters that turn have odd windows")
        if not self.features or min(self.features) < 1 or self.outputs < 1:
            raise InputError(
                f"features is {self.features} and outputs {self.outputs}; give at least one "
                "convolution, and at least 1 of each"
            )
        self._convolutions  # noqa: B018  (their own checks)

    @property
    def _convolutions(self) -> list[InfiniteConv]:
        scales: Any = (self.padding, self.weight_std, self.bias_std)
        return [InfiniteConv(n, (self.window, self.window), 1, *scales) for n in self.features]

    @property
    def plain(self) -> Serial:
        """The convolutional network of one orientation, up to and with the pool over places."""
        layers = [layer for conv in self._convolutions for layer in (conv, self.activation)]
        return Serial((*layers, GlobalAveragePool()))

    def kernels(self, x1, x2=None, *, memory_limit: int = KERNEL_MEMORY) -> Kernels:
        """NNGP and NTK ``[first, second]`` in float64."""
        first = np.asarray(x1, np.float64)
        if first.ndim != 4 or first.shape[1] != first.shape[2]:
            raise InputError(
                f"x1 has shape {first.shape}; turning filters take square pictures "
                "[rows, side, side, channels]"
            )
        second = first if x2 is None else np.asarray(x2, np.float64)
        each = [
            self.plain.kernels(first, self._turned(second, g), memory_limit=memory_limit)
            for g in range(self.order)
        ]
        nngp, ntk = (np.mean(parts, axis=0) for parts in zip(*each, strict=True))
        if x2 is None:  # equal up to the order of sums: an element and its inverse change places
            nngp, ntk = (nngp + nngp.T) / 2, (ntk + ntk.T) / 2
        scale = self.weight_std**2
        nngp = scale * nngp + self.bias_std**2
        return Kernels(nngp, nngp + scale * ntk)

    def init(self, key, x) -> Variables:
        """Standard normal filters ``[side, side, relative orientations, inputs, fields]``."""
        params, channels = {}, x.shape[-1]
        kind = x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.float32
        widths = (*self.features, self.outputs)
        for number, width in enumerate(widths):
            relative = 1 if number == 0 else self.order
            shape = (self.window, self.window, relative, channels, width)
            shape = (channels, width) if number == len(self.features) else shape
            one, other = jax.random.split(jax.random.fold_in(key, number))
            params[f"{number:02d}"] = {
                "kernel": jax.random.normal(one, shape, kind),
                "bias": jax.random.normal(other, (width,), kind),
            }
            channels = width
        return Variables(params, {})

    def apply(self, variables, x, *, key=None, train=False):
        """The readout of the mean over orientations and places."""
        *names, last = sorted(variables.params)
        hidden = x[..., None, :]
        for name, conv in zip(names, self._convolutions, strict=True):
            hidden = self.activation(self._layer(conv, variables.params[name], hidden))
        mean = hidden.mean((1, 2, 3))
        head = variables.params[last]
        outputs = self.weight_std / math.sqrt(mean.shape[-1]) * mean @ head["kernel"]
        return outputs + self.bias_std * head["bias"], variables.state

    def _layer(self, conv: InfiniteConv, params: dict, x: Array) -> Array:
        """``[rows, side, side, orientations, fields]`` to the same of the next layer."""
        kernel, relative = params["kernel"], x.shape[-2]
        padded = conv.windows(x.shape[1:3]).pad(x.reshape(*x.shape[:3], -1), 1)
        scale = self.weight_std / math.sqrt(kernel.size / kernel.shape[-1])
        each = []
        for g in range(self.order):
            # Orientation u of the inputs is h = u - g as this one sees it; taps turn along.
            seen = jnp.roll(kernel, g, axis=2) if relative > 1 else kernel
            seen = self._turned(seen[None], g)[0]
            flat = seen.reshape(*seen.shape[:2], -1, seen.shape[-1])
            each.append(scale * convolve(padded, flat, padding="VALID"))
        return jnp.stack(each, axis=-2) + self.bias_std * params["bias"]

    def _turned(self, x: Any, element: int) -> Any:
        xp = np if isinstance(x, np.ndarray) else jnp
        return xp.rot90(x, element * 4 // self.order, axes=(1, 2))


class GridAsymmetry(NamedTuple):
    """How far the NTK is from jointly invariant under quarter turns and flips, and why."""

    largest: float
    """Largest change over the largest entry; rounding where the lattice is symmetric."""
    reasons: tuple[str, ...]
    """A sentence for every layer whose taps or positions do not map to themselves."""


def grid_asymmetry(net: Any, size: int, channels: int = 1, *, rows: int = 2) -> GridAsymmetry:
    """Measured on random pictures: ``max_g |Θ(gx, gx') - Θ(x, x')| / max |Θ|`` over D4.

    An augmented ensemble is equivariant on pictures only where this is rounding: every window,
    padding and stride must be mapped to itself by turns about the centre of the picture. Even
    windows with zero padding, or strides that leave a row over, are not. Cost: eight small kernels.

    >>> from credax.infinite import Flatten, InfiniteConv, InfiniteDense, ReLU, serial
    >>> net = serial(InfiniteConv(8, (2, 2)), ReLU(), Flatten(), InfiniteDense(1))
    >>> grid_asymmetry(net, 5).reasons
    ('InfiniteConv has 0 positions added before and 1 after; use an odd window',)
    """
    if size < 1 or channels < 1 or rows < 1:
        raise InputError(
            f"size is {size}, channels {channels}, rows {rows}; give at least 1 of each"
        )
    x = np.random.default_rng(0).standard_normal((rows, size, size, channels))
    plain = net.kernels(x).ntk
    largest = 0.0
    for pictures in (x, x[:, :, ::-1]):
        for count in range(4):
            turned = net.kernels(np.rot90(pictures, count, axes=(1, 2))).ntk
            largest = max(largest, float(np.abs(turned - plain).max() / np.abs(plain).max()))
    reasons = () if largest < EXACT else tuple(_reasons(net, (size, size))[1])
    return GridAsymmetry(largest, reasons)


def _reasons(layer: Any, positions: tuple[int, ...]) -> tuple[tuple[int, ...], list[str]]:
    """Positions after a layer, and what is wrong in it."""
    found: list[str] = []
    for inner in getattr(layer, "layers", ()):
        positions, more = _reasons(inner, positions)
        found += more
    for branch in getattr(layer, "branches", ()):
        after, more = _reasons(branch, positions)
        found += more
        positions = after if branch is layer.branches[-1] else positions
    if isinstance(layer, InfiniteConv | AveragePool) and positions:
        windows = layer.windows(positions)
        name = type(layer).__name__
        found += [f"{name} {reason}" for reason in _of_windows(windows)]
        if isinstance(layer, InfiniteConv) and layer.support is not None:
            support = np.asarray(layer.support)
            if not all(np.array_equal(support, s) for s in (np.rot90(support), support[:, ::-1])):
                found.append(f"{name} has taps that turns do not map to taps; use a symmetric mask")
        positions = windows.outputs
    return positions, found


def _of_windows(windows: Windows) -> list[str]:
    found = []
    if windows.window[0] != windows.window[1]:
        found.append(f"has the window {windows.window}; use a square one")
    for size, window, (before, after) in zip(
        windows.positions, windows.window, windows.pads, strict=True
    ):
        left = (size + before + after - window) % windows.stride
        if before != after:
            found.append(
                f"has {before} positions added before and {after} after; use an odd window"
                + (
                    f" and {size} positions that {windows.stride} fits"
                    if windows.stride > 1
                    else ""
                )
            )
        elif left:
            found.append(f"leaves {left} of {size} positions out at one edge; use another size")
    return list(dict.fromkeys(found))
