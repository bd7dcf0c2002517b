"""Spins on a periodic square lattice and their energies."""

import numpy as np
from jaxtyping import Float

from credax.errors import InputError


def energy(spins: Float[np.ndarray, "... height width"]) -> Float[np.ndarray, "..."]:
    """Energy per site, ``-Σ s_i s_j / sites`` over the bonds to the right and below, periodic.

    >>> float(energy(np.ones((3, 3))))
    -2.0
    """
    bonds = spins * (np.roll(spins, -1, -2) + np.roll(spins, -1, -1))
    return -bonds.mean((-2, -1))


def ising(
    size: int, count: int, *, temperature: float = np.inf, seed: int = 0, sweeps: int = 50
) -> tuple[Float[np.ndarray, "count size size"], Float[np.ndarray, " count"]]:
    """Configurations of a temperature (by default random spins) and their energies per site.

    Finite temperatures are sampled by ``sweeps`` heat-bath sweeps on a checkerboard, for which
    ``size`` must be even, or site by site in a fixed order otherwise. Exact symmetries of the
    energy: quarter turns, flips, shifts, and the reversal of all spins.
    """
    if size < 2 or count < 1:
        raise InputError(f"size is {size} and count {count}; give at least 2 and 1")
    rng = np.random.default_rng(seed)
    spins = rng.choice([-1.0, 1.0], (count, size, size))
    if np.isfinite(temperature):
        row, column = np.indices((size, size))
        colours = 2 if size % 2 == 0 else size * size
        colour = (row + column) % 2 if size % 2 == 0 else row * size + column
        for _ in range(sweeps):
            for now in range(colours):
                field = sum(np.roll(spins, s, a) for s in (1, -1) for a in (1, 2))
                up = rng.random(spins.shape) < 1 / (1 + np.exp(-2 * field / temperature))
                spins = np.where(colour == now, np.where(up, 1.0, -1.0), spins)
    return spins, energy(spins)
