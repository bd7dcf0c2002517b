"""Whether the layers of a network lie symmetrically on square pictures of a size."""

from typing import Any, NamedTuple

import numpy as np

from credax.errors import InputError
from credax.infinite.spatial import AveragePool, Conv, Windows

EXACT = 1e-10


class LatticeDefect(NamedTuple):
    """How far the NTK is from jointly invariant under quarter turns and flips, and why."""

    largest: float
    """Largest change over the largest entry; rounding where the lattice is symmetric."""
    reasons: tuple[str, ...]
    """A sentence for every layer whose taps or positions do not map to themselves."""


def lattice_defect(net: Any, size: int, channels: int = 1, *, rows: int = 2) -> LatticeDefect:
    """Measured on random pictures: ``max_g |Θ(gx, gx') - Θ(x, x')| / max |Θ|`` over D4.

    An augmented ensemble is equivariant on pictures only where this is rounding: every window,
    padding and stride must be mapped to itself by turns about the centre of the picture. Even
    windows with zero padding, or strides that leave a row over, are not. Cost: eight small kernels.

    >>> from credax.infinite import Conv, Dense, Flatten, ReLU, serial
    >>> net = serial(Conv(8, (2, 2)), ReLU(), Flatten(), Dense(1))
    >>> lattice_defect(net, 5).reasons
    ('Conv has 0 positions added before and 1 after; use an odd window',)
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
    return LatticeDefect(largest, reasons)


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
    if isinstance(layer, Conv | AveragePool) and positions:
        windows = layer.windows(positions)
        name = type(layer).__name__
        found += [f"{name} {reason}" for reason in _of_windows(windows)]
        if isinstance(layer, Conv) and layer.support is not None:
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
