"""Pictures on a disc in a basis that rotations of any angle turn exactly."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special
from jaxtyping import Float, Int

from credax.errors import InputError
from credax.groups.action import Matrices
from credax.groups.group import Group


@dataclass(frozen=True, eq=False)
class DiscHarmonics:
    """Bessel functions times sines and cosines of the angle on the disc inscribed in a picture.

    ``J_m(j_mk r / R)`` times 1, ``√2 cos mφ``, ``√2 sin mφ``, normalised on the disc of radius
    ``R = size / 2`` and kept while ``j_mk ≤ fraction π R``. A rotation by any angle turns each
    pair of coefficients by ``m`` times it: orthogonal and exact, for networks that are fed the
    coefficients. Between pixels and coefficients lies a least squares fit, which loses detail.

    >>> DiscHarmonics.of(28, 0.5).coefficients
    109
    """

    size: int
    frequencies: Int[np.ndarray, " coefficients"]
    sines: Int[np.ndarray, " coefficients"]
    """0 for cosines (and ``m = 0``), 1 for the sine that follows its cosine."""
    basis: Float[np.ndarray, "pixels coefficients"]
    inside: Int[np.ndarray, " pixels"]
    """The pixels of the disc, of the flattened picture."""
    fit: Float[np.ndarray, "coefficients pixels"]

    @classmethod
    def of(cls, size: int, fraction: float = 0.9, max_frequency: int | None = None):
        """The basis for pictures of a size; ``max_frequency`` cuts fine angular detail."""
        if not 0 < fraction <= 1:
            raise InputError(f"fraction is {fraction}; give a share of the finest detail in (0, 1]")
        radius, centre = size / 2, (size - 1) / 2
        row, column = np.divmod(np.arange(size * size), size)
        x, y = column - centre, centre - row
        distance = np.hypot(x, y)
        inside = np.flatnonzero(distance <= radius)
        r, angle = distance[inside] / radius, np.arctan2(y, x)[inside]
        columns, frequencies, sines = [], [], []
        limit = fraction * np.pi * radius
        m = 0
        while max_frequency is None or m <= max_frequency:
            zeros = scipy.special.jn_zeros(m, int(limit / np.pi) + 2)
            zeros = zeros[zeros <= limit]
            if not len(zeros):
                break
            for zero in zeros:
                size_of = np.sqrt(np.pi) * radius * abs(scipy.special.jv(m + 1, zero))
                radial = scipy.special.jv(m, zero * r) / size_of
                waves = [radial] if m == 0 else []
                if m:
                    waves = [2**0.5 * radial * f(m * angle) for f in (np.cos, np.sin)]
                for number, wave in enumerate(waves):
                    columns.append(wave)
                    frequencies.append(m)
                    sines.append(number)
            m += 1
        if not columns:
            raise InputError(
                f"size is {size} and fraction {fraction}; no harmonic is that coarse: use larger "
                "pictures or a larger fraction"
            )
        basis = np.stack(columns, -1)
        return cls(
            size, np.array(frequencies), np.array(sines), basis, inside, np.linalg.pinv(basis)
        )

    @property
    def coefficients(self) -> int:
        """How many numbers describe a picture."""
        return len(self.frequencies)

    def encode(self, pictures: Any) -> Float[np.ndarray, "rows coefficients"]:
        """Coefficients of pictures ``[rows, size, size]`` (or with one channel)."""
        flat = np.asarray(pictures, np.float64).reshape(len(pictures), -1)
        if flat.shape[1] != self.size**2:
            raise InputError(
                f"pictures have shape {np.shape(pictures)}; this basis is for one channel of "
                f"{self.size} by {self.size} pixels"
            )
        return flat[:, self.inside] @ self.fit.T

    def decode(self, coefficients: Any) -> Float[np.ndarray, "rows size size"]:
        """Pictures of coefficients, zero outside the disc."""
        rows = np.asarray(coefficients, np.float64)
        flat = np.zeros((len(rows), self.size**2))
        flat[:, self.inside] = rows @ self.basis.T
        return flat.reshape(-1, self.size, self.size)

    def rotation(self, angle: float) -> Float[np.ndarray, "coefficients coefficients"]:
        """The matrix that turns coefficients by an angle, counter-clockwise."""
        found = np.diag(np.cos(self.frequencies * angle))
        first = np.flatnonzero(self.sines == 1) - 1
        turn = np.sin(self.frequencies[first] * angle)
        # A picture turned by a holds cos(m(φ - a)) = cos ma cos mφ + sin ma sin mφ.
        found[first + 1, first], found[first, first + 1] = turn, -turn
        return found

    def representation(self, order: int) -> Matrices:
        """The cyclic group of so many turns, acting on coefficients."""
        turns = [self.rotation(2 * np.pi * k / order) for k in range(order)]
        return Matrices(Group.cyclic(order), "orthogonal", np.array(turns))
