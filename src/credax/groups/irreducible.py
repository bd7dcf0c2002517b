"""Irreducible representations of a finite group, found in its own multiplication table."""

import numpy as np
from jaxtyping import Complex

from credax.errors import InputError
from credax.groups.group import Group

GAP = 1e-8
ATTEMPTS = 5


def irreps(group: Group) -> list[Complex[np.ndarray, "order size size"]]:
    """Every irreducible representation once, as unitary matrices, the trivial one first.

    A random Hermitian matrix ``M[h, k] = a(h⁻¹ k)`` commutes with all left translations, and its
    eigenspaces are irreducible under them unless two eigenvalues happen to meet; equal ones are
    told by their characters. Cost: the cube of the order. Reference: Dixon 1970.

    >>> [found.shape[1] for found in irreps(Group.dihedral(4))]
    [1, 1, 1, 1, 2]
    """
    for seed in range(ATTEMPTS):
        found = _attempt(group, np.random.default_rng(seed))
        if sum(matrices.shape[1] ** 2 for matrices in found) == group.order:
            return sorted(found, key=_place)
    raise InputError(f"the group of order {group.order} could not be split into irreps")


def _attempt(group: Group, rng: np.random.Generator) -> list[np.ndarray]:
    weights = rng.standard_normal(group.order) + 1j * rng.standard_normal(group.order)
    weights = weights + weights[group.inverse].conj()
    back = group.product[group.inverse]  # [h, k] = h⁻¹ k
    values, vectors = np.linalg.eigh(weights[back])
    starts = np.flatnonzero(np.diff(values, prepend=-np.inf) > GAP * np.abs(values).max())
    found, characters = [], []
    for space in np.split(vectors, starts[1:], axis=1):
        # Left translation by g moves a function's value at g⁻¹ h to h.
        matrices = space.conj().T @ space[back]
        character = np.einsum("gii->g", matrices)
        alone = abs(np.vdot(character, character) / group.order - 1) < GAP
        if alone and all(abs(np.vdot(character, other)) < 0.5 for other in characters):
            found.append(matrices)
            characters.append(character)
    return found


def _place(matrices: np.ndarray) -> tuple[int, bool, tuple[float, ...]]:
    """By size, the trivial one first, then by the character: the order does not hang on a seed."""
    character = np.einsum("gii->g", matrices).round(6) + 0.0
    order = tuple(-part for value in character for part in (value.real, value.imag))
    return matrices.shape[1], not np.allclose(character, 1), order
