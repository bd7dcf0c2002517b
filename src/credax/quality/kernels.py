"""Kernels on distances between networks, and the grid of bandwidths of MMDAgg.

Reference: Schrab et al. 2023, MMD aggregated two-sample test.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from credax.errors import InputError, unknown
from credax.quality.distances import Distances

FIRST = 500


class DistanceKernel(NamedTuple):
    """``profile(d / h)`` of the ``absolute`` (L1) or Euclidean (L2) distance ``d``."""

    norm: str
    profile: Callable[[np.ndarray], np.ndarray]


def _matern(order: float) -> Callable[[np.ndarray], np.ndarray]:
    """Matern of half-integer order ``ν = p + 1/2``, ``u = sqrt(2ν) d/h``.

    ``e^{-u} p!/(2p)! Σ_i (p+i)!/(i!(p-i)!) (2u)^{p-i}``.
    """
    p = int(order - 0.5)
    first = math.factorial(p) / math.factorial(2 * p)
    coefficients = [
        first * math.factorial(p + i) / (math.factorial(i) * math.factorial(p - i)) * 2 ** (p - i)
        for i in range(p + 1)
    ]

    def profile(ratio: np.ndarray) -> np.ndarray:
        u = math.sqrt(2 * order) * ratio
        return np.polyval(coefficients, u) * np.exp(-u)

    return profile


_MATERN = {f"matern_{order}": _matern(order) for order in (0.5, 1.5, 2.5, 3.5, 4.5)}
KERNELS: dict[str, DistanceKernel] = {
    "laplace": DistanceKernel("l1", lambda ratio: np.exp(-ratio)),
    "gaussian": DistanceKernel("l2", lambda ratio: np.exp(-np.square(ratio))),
    "imq": DistanceKernel("l2", lambda ratio: 1 / np.sqrt(1 + np.square(ratio))),
    **{f"{name}_l1": DistanceKernel("l1", profile) for name, profile in _MATERN.items()},
    **{f"{name}_l2": DistanceKernel("l2", profile) for name, profile in _MATERN.items()},
}
"""By name: exp(-|x-y|₁/h), exp(-|x-y|₂²/h²), (1+|x-y|₂²/h²)^{-1/2}, Matern on L1 and on L2."""


def kernel(name: str) -> DistanceKernel:
    """A kernel by name."""
    if name not in KERNELS:
        raise unknown("kernel", name, KERNELS)
    return KERNELS[name]


def distance_for(name: str, distances: Distances) -> Float[np.ndarray, "all all"]:
    """The distance a kernel is a function of."""
    return distances.absolute if kernel(name).norm == "l1" else np.sqrt(distances.squared)


def bandwidth_grid(distances: Float[np.ndarray, " pairs"], count: int) -> np.ndarray:
    """``count`` bandwidths in geometric steps from half the least distance to twice the greatest.

    As in MMDAgg: a least distance below 0.1 is replaced by the 5 % quantile (the value at place
    ``floor(0.05 n)`` of the sorted ones, at least 0.1), and the greatest is at least 0.3.

    >>> bandwidth_grid(np.array([1.0, 2.0]), 3).round(4).tolist()
    [0.5, 1.4142, 4.0]
    """
    flat = np.sort(np.asarray(distances, np.float64).ravel())
    if not flat.size:
        raise InputError("there are no distances; both populations need at least one network")
    least, greatest = float(flat[0]), max(float(flat[-1]), 0.3)
    if least < 0.1:
        least = max(float(flat[int(0.05 * flat.size)]), 0.1)
    low, high = least / 2, 2 * greatest
    if count == 1:
        return np.array([math.sqrt(low * high)])
    step = (high / low) ** (1 / (count - 1))
    return low * step ** np.arange(count)


def cross_pairs(distance: np.ndarray, first: int, limit: int | None = FIRST) -> np.ndarray:
    """Distances between the two populations, of the first ``limit`` members of each."""
    rows = distance[: min(first, limit or first), first:]
    return rows[:, : limit or rows.shape[1]].ravel()


def pooled_pairs(distance: np.ndarray) -> np.ndarray:
    """Distances of all pairs, whichever population they come from."""
    return distance[np.triu_indices(len(distance), 1)]
