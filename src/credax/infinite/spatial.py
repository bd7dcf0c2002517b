"""Layers of pictures: convolution and average pooling, with their kernel rules."""

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credax.errors import InputError, unknown
from credax.infinite.duals import namespace, snap
from credax.infinite.layers import Parameterisation, check_scales, draw, float_of, scaled, trained
from credax.infinite.state import PairState, SelfPairs
from credax.network import Variables
from credax.networks.convolution import convolve
from credax.networks.layers import Parameterless

Padding = Literal["zero", "circular", "valid"]
PADDINGS = ("zero", "circular", "valid")


def _places(window: tuple[int, int]) -> list[tuple[int, int]]:
    """Every position of a window."""
    return [(i, j) for i in range(window[0]) for j in range(window[1])]


def _check_window(window: tuple[int, ...], stride: int) -> None:
    if len(window) != 2 or min(window) < 1 or stride < 1:
        raise InputError(
            f"window is {window} and stride {stride}; give two sides and a stride of at least 1"
        )


@dataclass(frozen=True)
class Windows:
    """Where windows of a size lie on pictures of a size: zeros before and after, and how many."""

    window: tuple[int, int]
    stride: int
    padding: Padding
    positions: tuple[int, ...]

    @property
    def pads(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns added before and after."""
        if self.padding == "valid":
            return ((0, 0), (0, 0))
        pads = []
        for size, window in zip(self.positions, self.window, strict=True):
            total = max((-(-size // self.stride) - 1) * self.stride + window - size, 0)
            pads.append((total // 2, total - total // 2))
        return tuple(pads)

    @property
    def outputs(self) -> tuple[int, ...]:
        """Positions after."""
        sizes = zip(self.positions, self.window, self.pads, strict=True)
        found = tuple((size + sum(pad) - window) // self.stride + 1 for size, window, pad in sizes)
        if min(found) < 1:
            raise InputError(
                f"window is {self.window} and the picture has {self.positions} positions there; "
                "use a smaller window or padding"
            )
        return found

    def pad(self, array: Array, first: int) -> Array:
        """Add the border to two axes, from ``first``."""
        mode = {"mode": "wrap"} if self.padding == "circular" else {}
        widths = [(0, 0)] * array.ndim
        widths[first : first + 2] = self.pads
        return namespace(array).pad(array, widths, **mode)

    def tap(self, array: Array, first: int, offset: tuple[int, int]) -> Array:
        """The entry at one offset of every window of a padded array."""
        for axis, (start, count) in enumerate(zip(offset, self.outputs, strict=True), first):
            stop = start + self.stride * (count - 1) + 1
            array = array[(slice(None),) * axis + (slice(start, stop, self.stride),)]
        return array

    def inside(self) -> np.ndarray:
        """Ones on the picture and zeros on the border that was added."""
        if self.padding == "circular":
            return np.ones([s + sum(p) for s, p in zip(self.positions, self.pads, strict=True)])
        return np.pad(np.ones(self.positions), self.pads)


def _taps(state: PairState, windows: Windows) -> Callable[[Array, Any], Array]:
    """Sums of both positions' windows over pairs of offsets."""

    def total(array: Array, offsets: Iterable) -> Array:
        parts = []
        for one, other in offsets:
            if state.pairs:
                parts.append(
                    windows.tap(windows.tap(array, -4 + array.ndim, one), array.ndim - 2, other)
                )
            else:
                parts.append(windows.tap(array, array.ndim - 2, one))
        return sum(parts[1:], parts[0])

    return total


def _padded(state: PairState, windows: Windows, array: Array) -> Array:
    array = windows.pad(array, array.ndim - 2)
    return windows.pad(array, array.ndim - 4) if state.pairs else array


def _padded_distance(state: PairState, windows: Windows, distance, q1, q2) -> Array:
    """Distances with a border of zeros: from a position to the border it is the variance."""
    padded = _padded(state, windows, distance)
    if not state.pairs or windows.padding != "zero":
        return padded
    inside = windows.inside()
    outside = 1 - inside
    one = windows.pad(q1, q1.ndim - 4)
    other = windows.pad(q2, q2.ndim - 2)
    return padded + one * outside + other * outside[..., None, None]


def window_means(state: PairState, windows: Windows, offsets: list, count: int) -> PairState:
    """Means of covariance, tangent and distance over pairs of offsets, for cross and own pairs."""
    total = _taps(state, windows)

    def pair(covariance, distance, q1, q2):
        covariance = total(_padded(state, windows, covariance), offsets) / count
        distance = total(_padded_distance(state, windows, distance, q1, q2), offsets) / count
        return covariance, distance

    covariance, distance = pair(state.covariance, state.distance, *state.variances())
    own = [SelfPairs(*pair(*o, *state.own_variances(o))) for o in (state.first, state.second)]
    return state.replace(
        covariance=covariance,
        tangent=total(_padded(state, windows, state.tangent), offsets) / count,
        distance=distance,
        first=own[0],
        second=own[1],
        positions=windows.outputs,
    )


def centred_distance(mean: PairState) -> PairState:
    """After averaging over windows: the distance of means from the means of distances.

    ``|ā - b̄|² = mean |a - b|² - ½ mean |a - a'|² - ½ mean |b - b'|²``.
    """
    means = [mean.variance(SelfPairs(o.distance, o.distance)) for o in (mean.first, mean.second)]
    one, other = means
    left, right = mean.variances()
    size = left + right
    across = one[:, None, :, :, None, None] + other[None, :, None, None]
    own = []
    for o, within in zip((mean.first, mean.second), means, strict=True):
        gap = o.distance - (within[:, :, :, None, None] + within[:, None, None]) / 2
        here, there = mean.own_variances(o)
        own.append(SelfPairs(o.covariance, snap(gap, here + there)))
    distance = snap(mean.distance - across / 2, size)
    return mean.replace(distance=distance, first=own[0], second=own[1])


@dataclass(frozen=True)
class InfiniteConv:
    """A convolution ``z[p] = (weight_std / √(taps · channels)) Σ_d W[d] h[p + d] + bias_std b``.

    The kernel is the mean over the taps of what came in, at the same offset in both pictures.
    ``padding`` is "zero" (as many positions as before, divided by the stride), "circular" or
    "valid"; ``support`` leaves taps out (rows of booleans). References: Novak et al. 2019, Arora
    et al. 2019.
    """

    features: int
    window: tuple[int, int] = (3, 3)
    stride: int = 1
    padding: Padding = "zero"
    weight_std: float = 1.0
    bias_std: float = 0.0
    parameterisation: Parameterisation = "ntk"
    support: tuple[tuple[bool, ...], ...] | None = None
    kind: ClassVar[str] = "conv"

    def __post_init__(self):
        check_scales(self)
        if self.padding not in PADDINGS:
            raise unknown("padding", self.padding, PADDINGS)
        object.__setattr__(self, "window", tuple(self.window))
        _check_window(self.window, self.stride)
        if self.support is not None:
            support = np.asarray(self.support, bool)
            if support.shape != self.window or not support.any():
                raise InputError(
                    f"support has shape {support.shape}; it marks at least one tap of the "
                    f"{self.window} window"
                )
            object.__setattr__(self, "support", tuple(map(tuple, support.tolist())))

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """The taps that are used."""
        taps = _places(self.window)
        return [tap for tap in taps if self.support is None or self.support[tap[0]][tap[1]]]

    def windows(self, positions: tuple[int, ...]) -> Windows:
        """Where this layer looks on pictures of a size."""
        return Windows(self.window, self.stride, self.padding, positions)

    def propagate(self, state: PairState) -> PairState:
        """The kernels after this layer."""
        if not state.positions:
            raise InputError(
                "InfiniteConv needs pictures [rows, height, width, channels] before it"
            )
        offsets = self.offsets
        both = [(tap, tap) for tap in offsets]
        mean = window_means(state, self.windows(state.positions), both, len(offsets))
        return trained(state, mean, self, state.width * len(offsets))

    def init(self, key, x) -> Variables:
        """A kernel ``[rows, columns, inputs, features]`` and a bias ``[features]``."""
        shape = (*self.window, x.shape[-1], self.features)
        return draw(self, key, shape, x.shape[-1] * len(self.offsets), float_of(x))

    def apply(self, variables, x, *, key=None, train=False):
        """The convolved pictures."""
        kernel = variables.params["kernel"]
        if self.support is not None:
            kernel = kernel * jnp.asarray(self.support, kernel.dtype)[:, :, None, None]
        padded = self.windows(x.shape[1:3]).pad(x, 1)
        outputs = convolve(padded, kernel, stride=self.stride, padding="VALID")
        fan_in = x.shape[-1] * len(self.offsets)
        return scaled(self, variables.params, outputs, fan_in), variables.state


@dataclass(frozen=True)
class AveragePool(Parameterless):
    """The mean of each window, a border of zeros counted in: the mean over pairs of positions."""

    window: tuple[int, int] = (2, 2)
    stride: int | None = None
    padding: Padding = "valid"

    def __post_init__(self):
        object.__setattr__(self, "window", tuple(self.window))
        if self.padding not in PADDINGS:
            raise unknown("padding", self.padding, PADDINGS)
        _check_window(self.window, self.window[0] if self.stride is None else self.stride)

    def windows(self, positions: tuple[int, ...]) -> Windows:
        """Where this layer looks on pictures of a size."""
        return Windows(self.window, self.stride or self.window[0], self.padding, positions)

    def propagate(self, state: PairState) -> PairState:
        """The kernels after this layer."""
        if not state.positions:
            raise InputError("AveragePool needs pictures [rows, height, width, channels] before it")
        taps = _places(self.window)
        both = list(itertools.product(taps, taps))
        return centred_distance(window_means(state, self.windows(state.positions), both, len(both)))

    def apply(self, variables, x, *, key=None, train=False):
        """One number per window and channel."""
        windows = self.windows(x.shape[1:3])
        padded = windows.pad(x, 1)
        total = sum(windows.tap(padded, 1, tap) for tap in _places(self.window))
        return total / math.prod(self.window), variables.state


@dataclass(frozen=True)
class GlobalAveragePool(Parameterless):
    """The mean over all positions: the mean over all pairs of positions."""

    def propagate(self, state: PairState) -> PairState:
        """The kernels after this layer."""
        if not state.positions:
            return state
        xp, axes = namespace(state.covariance), (-4, -3, -2, -1)
        mean = [xp.mean(o.distance, axes) for o in (state.first, state.second)]
        variance = [xp.mean(o.covariance, axes) for o in (state.first, state.second)]
        size = variance[0][:, None] + variance[1][None]
        gap = xp.mean(state.distance, axes) - (mean[0][:, None] + mean[1][None]) / 2
        return state.replace(
            covariance=xp.mean(state.covariance, axes),
            tangent=xp.mean(state.tangent, axes),
            distance=snap(gap, size),
            first=SelfPairs(variance[0], xp.zeros_like(variance[0])),
            second=SelfPairs(variance[1], xp.zeros_like(variance[1])),
            positions=(),
            pairs=False,
        )

    def apply(self, variables, x, *, key=None, train=False):
        """The mean of each channel."""
        return x.mean(tuple(range(1, x.ndim - 1))), variables.state
