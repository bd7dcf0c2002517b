"""Functions of a Gram matrix that never invert it: time in the eigenbasis, singular or not."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Inexact

from credax.errors import InputError

SMALL = 1e-5
NEGATIVE = 1e-10
Evolution = Literal["flow", "steps"]


@dataclass(frozen=True)
class Ridge:
    """A number added to the diagonal of the Gram matrix, relative to its mean diagonal entry."""

    relative: float


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues, clipped at zero, and eigenvectors of a symmetric matrix."""

    values: Float[np.ndarray, " points"]
    vectors: Inexact[np.ndarray, "points points"]

    @classmethod
    def of(cls, matrix: Float[np.ndarray, "points points"], name: str = "the kernel") -> "Spectrum":
        """Decompose; a clearly negative eigenvalue is an error, rounding is clipped."""
        values, vectors = np.linalg.eigh(matrix)
        if values[0] < -NEGATIVE * max(values[-1], np.finfo(float).tiny):
            raise InputError(
                f"{name} has the eigenvalue {values[0]:.3g} beside {values[-1]:.3g}; a kernel is "
                "positive semidefinite: check that it is symmetric and computed in float64"
            )
        return cls(np.maximum(values, 0.0), vectors)

    @property
    def threshold(self) -> float:
        """Eigenvalues up to this are zero as far as float64 can tell."""
        largest = self.values[-1] if len(self.values) else 0.0
        return len(self.values) * np.finfo(float).eps * float(largest)

    @property
    def rank(self) -> int:
        """Eigenvalues above the threshold."""
        return int(np.sum(self.values > self.threshold))

    @property
    def condition(self) -> float:
        """Largest over smallest eigenvalue above the threshold."""
        kept = self.values[self.values > self.threshold]
        return float(kept[-1] / kept[0]) if len(kept) else float("nan")

    def factor(self) -> Float[np.ndarray, "points rank"]:
        """``L`` with ``L Lᵀ`` the matrix, clipped eigenvalues left out."""
        kept = self.values > self.threshold
        return self.vectors[:, kept] * np.sqrt(self.values[kept])

    def solver(self, evolution: Evolution, rate: float, time: float) -> np.ndarray:
        """``ψ(λ)`` for every eigenvalue: what has been learned of a unit target, over ``λ``.

        Flow: ``(1 - exp(-rate time λ)) / λ``; steps: ``(1 - (1 - rate λ)^time) / λ``; at infinity
        ``1 / λ`` on the range of the matrix. The limit for small ``λ`` is ``rate time``.
        """
        if np.isinf(time):
            kept = self.values > self.threshold
            return np.where(kept, 1 / np.where(kept, self.values, 1.0), 0.0)
        if evolution == "flow":
            return flow(self.values, rate * time)
        return steps(self.values, rate, time)


def flow(values: np.ndarray, time: float) -> np.ndarray:
    """``(1 - exp(-time λ)) / λ``, by its series where ``time λ`` is small."""
    x = time * values
    small = x < SMALL
    safe = np.where(small, 1.0, values)
    return np.where(small, time * (1 - x / 2 + x**2 / 6), -np.expm1(-time * safe) / safe)


def steps(values: np.ndarray, rate: float, count: float) -> np.ndarray:
    """``(1 - (1 - rate λ)^count) / λ`` for ``rate λ`` below 2."""
    count = int(count)
    a = rate * values
    small = count * a < SMALL
    series = rate * count * (1 - (count - 1) * a / 2 + (count - 1) * (count - 2) * a**2 / 6)
    safe = np.where(small, 1.0, values)
    with np.errstate(divide="ignore", invalid="ignore"):
        below = -np.expm1(count * np.log1p(-np.minimum(a, 1.0)))
        above = 1 - (-1.0) ** count * np.exp(count * np.log(np.maximum(a - 1, 0.0)))
    decayed = np.where(a < 1, below, above)
    decayed = np.where(a == 1, 0.0 if count == 0 else 1.0, decayed)
    return np.where(small, series, decayed / safe)
