"""What the kernels' recursion carries from layer to layer for every pair of inputs."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.infinite.duals import namespace


class SelfPairs(NamedTuple):
    """Each input with itself: covariance between its positions, and squared distance."""

    covariance: Float[Array, "inputs *positions"]
    distance: Float[Array, "inputs *positions"]


@dataclass(frozen=True)
class PairState:
    """Kernels between two batches at one layer.

    Arrays are ``[first, second]`` without positions; ``[first, second, height, width]`` for equal
    positions of both pictures; ``[first, second, height, width, height, width]`` where a later
    pooling needs every pair of positions (``pairs``). ``distance`` is ``q1 + q2 - 2 covariance``.
    """

    covariance: Float[Array, "first second *positions"]
    tangent: Float[Array, "first second *positions"]
    distance: Float[Array, "first second *positions"]
    first: SelfPairs
    second: SelfPairs
    positions: tuple[int, ...]
    pairs: bool
    width: int
    """Channels or features of one position."""
    gaussian: bool
    """Whether what the layer gives is Gaussian: the condition for an activation."""

    def replace(self, **changes) -> "PairState":
        """The same state with some fields changed."""
        return replace(self, **changes)

    def variances(self) -> tuple[Array, Array]:
        """The variances of both inputs, shaped to meet the covariance."""
        one, other = self.variance(self.first), self.variance(self.second)
        if not self.pairs:
            return one[:, None], other[None]
        return one[:, None, :, :, None, None], other[None, :, None, None]

    def variance(self, own: SelfPairs) -> Float[Array, "inputs *position"]:
        """The variance at each position of each input."""
        return equal_positions(own.covariance) if self.pairs else own.covariance

    def own_variances(self, own: SelfPairs) -> tuple[Array, Array]:
        """The variances of an input's own pairs of positions."""
        variance = self.variance(own)
        if not self.pairs:
            return variance, variance
        return variance[:, :, :, None, None], variance[:, None, None]


def equal_positions(array: Float[Array, "... h w h w"]) -> Float[Array, "... h w"]:
    """The entries of a position with itself."""
    return namespace(array).einsum("...hwhw->...hw", array)


def input_state(x1: Array, x2: Array, pairs: bool) -> PairState:
    """The state of raw inputs, ``K = x·x'/width`` and the distance by explicit differences."""
    xp, positions, width = namespace(x1), tuple(x1.shape[1:-1]), x1.shape[-1]
    if len(positions) not in (0, 2):
        raise InputError(
            f"x has shape {x1.shape}; kernels take [rows, features] or "
            "[rows, height, width, channels]"
        )
    if not positions:
        covariance, distance = x1 @ x2.T / width, _gaps(x1, x2)
        own = [SelfPairs(xp.mean(x * x, -1), xp.zeros(len(x), x.dtype)) for x in (x1, x2)]
    elif not pairs:
        covariance = xp.einsum("ahwc,bhwc->abhw", x1, x2) / width
        distance = _gap(x1[:, None], x2[None])
        own = [SelfPairs(xp.mean(x * x, -1), xp.zeros(x.shape[:-1], x.dtype)) for x in (x1, x2)]
    else:
        covariance = xp.einsum("ahwc,bijc->abhwij", x1, x2) / width
        distance = _gap(x1[:, None, :, :, None, None], x2[None, :, None, None])
        own = [
            SelfPairs(
                xp.einsum("ahwc,aijc->ahwij", x, x) / width,
                _gap(x[:, :, :, None, None], x[:, None, None]),
            )
            for x in (x1, x2)
        ]
    tangent = xp.zeros_like(covariance)
    first, second = own
    return PairState(covariance, tangent, distance, first, second, positions, pairs, width, False)


def _gaps(x1: Any, x2: Any) -> Any:
    """Mean squared differences of all rows; NumPy takes one row at a time, to hold less."""
    if isinstance(x1, np.ndarray):
        return np.stack([_gap(row, x2) for row in x1])
    return _gap(x1[:, None], x2[None])


def _gap(one: Array, other: Array) -> Array:
    xp = namespace(one)
    return xp.mean(xp.square(one - other), -1)


def same_place(states: list[PairState], name: str) -> None:
    """Raise one sentence unless branches that are added have the same positions."""
    places = {state.positions for state in states}
    if len(places) > 1:
        raise InputError(f"{name} adds branches with positions {sorted(places)}; they must agree")
