"""Finite groups as checked multiplication tables, and rotations to make them of."""

import itertools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex, Float, Int

from credax.errors import InputError

TOLERANCE = 1e-8


EIGENVALUE_GAP = 1e-8
ATTEMPTS = 5


@dataclass(frozen=True, eq=False)
class Group:
    """Elements ``0 .. order - 1`` and their products; the table is checked when it is made.

    ``product[g, h]`` is ``g h`` (first ``h``, then ``g``); element 0 is the identity.

    >>> Group.cyclic(4).product[1, 3].item()
    0
    """

    product: Int[np.ndarray, "order order"]

    def __post_init__(self):
        table = np.asarray(self.product)
        object.__setattr__(self, "product", table)
        order = len(table)
        if table.shape != (order, order) or not order or not np.issubdtype(table.dtype, np.integer):
            raise InputError(f"product has shape {table.shape}; a group's table is [order, order]")
        every = np.arange(order)
        rows, columns = np.sort(table, 1), np.sort(table, 0)
        if not (rows == every).all() or not (columns == every[:, None]).all():
            raise InputError(
                "product is not a group's table: every row and column must hold every element once"
            )
        if not ((table[0] == every).all() and (table[:, 0] == every).all()):
            raise InputError("product is not a group's table: element 0 must be the identity")
        if not all((table[table[g]] == table[g][table]).all() for g in every):
            raise InputError("product is not a group's table: it is not associative")

    @property
    def order(self) -> int:
        """Number of elements."""
        return len(self.product)

    @property
    def inverse(self) -> Int[np.ndarray, " order"]:
        """The inverse of every element."""
        return np.argmax(self.product == 0, axis=1)

    @property
    def abelian(self) -> bool:
        """Whether all elements commute."""
        return bool((self.product == self.product.T).all())

    def subgroup(self, elements) -> tuple["Group", Int[np.ndarray, " order"]]:
        """The subgroup that some elements generate, and which elements of this group it holds."""
        found = {0, *map(int, elements)}
        while new := {int(self.product[g, h]) for g in found for h in found} - found:
            found |= new
        kept = np.array(sorted(found))
        place = {int(element): number for number, element in enumerate(kept)}
        table = [[place[int(self.product[g, h])] for h in kept] for g in kept]
        return Group(np.array(table)), kept

    def classes(self) -> list[list[int]]:
        """The conjugacy classes, each sorted."""
        conjugates = self.product[self.product, self.inverse[:, None]]  # [g, h] = g h g⁻¹
        found = {tuple(sorted(set(conjugates[:, h].tolist()))) for h in range(self.order)}
        return [list(members) for members in sorted(found)]

    @classmethod
    def cyclic(cls, order: int) -> "Group":
        """Rotations by multiples of ``2π / order``."""
        if order < 1:
            raise InputError(f"order is {order}; a cyclic group has at least 1 element")
        every = np.arange(order)
        return cls((every[:, None] + every) % order)

    @classmethod
    def dihedral(cls, order: int) -> "Group":
        """Rotations and flips: element ``k + order f`` is ``k`` rotations after ``f`` flips."""
        if order < 1:
            raise InputError(f"order is {order}; a dihedral group has at least 1 rotation")
        flip, turn = np.divmod(np.arange(2 * order), order)
        turns = (turn[:, None] + np.where(flip, -1, 1)[:, None] * turn) % order
        return cls(turns + order * ((flip[:, None] + flip) % 2))

    @classmethod
    def direct_product(cls, one: "Group", other: "Group") -> "Group":
        """Pairs of elements: ``(g, h)`` is element ``g * other.order + h``."""
        g, h = np.divmod(np.arange(one.order * other.order), other.order)
        table = one.product[g[:, None], g] * other.order + other.product[h[:, None], h]
        return cls(table)

    @classmethod
    def translations(cls, height: int, width: int) -> "Group":
        """Periodic shifts of a lattice: down by ``g // width``, right by ``g % width``."""
        return cls.direct_product(cls.cyclic(height), cls.cyclic(width))

    @classmethod
    def octahedral(cls) -> "Group":
        """The 24 rotations of a cube."""
        return cls.from_matrices(octahedral_matrices())

    @classmethod
    def icosahedral(cls) -> "Group":
        """The 60 rotations of an icosahedron."""
        return cls.from_matrices(icosahedral_matrices())

    @classmethod
    def from_generators(cls, generators: Float[np.ndarray, "count size size"]) -> "Group":
        """The group that some matrices generate; `generated_matrices` has its elements."""
        return cls.from_matrices(generated_matrices(generators))

    @classmethod
    def from_matrices(cls, matrices: Float[np.ndarray, "order size size"]) -> "Group":
        """The group of matrices that are closed under products; the first is the identity."""
        matrices = square_matrices(matrices, "matrices")
        order = len(matrices)
        products = np.einsum("gij,hjk->ghik", matrices, matrices).reshape(order * order, -1)
        distance = np.abs(products[:, None] - matrices.reshape(1, order, -1)).max(-1)
        nearest = np.argmin(distance, axis=1)
        if distance[np.arange(order * order), nearest].max() > TOLERANCE:
            raise InputError("matrices are not closed under products; use generated_matrices")
        return cls(nearest.reshape(order, order))


def generated_matrices(
    generators: np.ndarray, most: int = 2000
) -> Float[np.ndarray, "order size size"]:
    """All products of some matrices, the identity first; an error if there are too many."""
    generators = square_matrices(generators, "generators")
    found = [np.eye(generators.shape[1])]
    waiting = list(found)
    while waiting:
        matrix = waiting.pop()
        for generator in generators:
            new = generator @ matrix
            if min(np.abs(new - old).max() for old in found) > TOLERANCE:
                found.append(new)
                waiting.append(new)
                if len(found) > most:
                    raise InputError(f"generators give more than {most} elements; is it finite?")
    return np.array(found)


def square_matrices(matrices, name: str) -> Float[np.ndarray, "count size size"]:
    """Matrices in float64, or one sentence why they are none."""
    matrices = np.asarray(matrices, np.float64)
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or not matrices.size:
        raise InputError(
            f"{name} has shape {matrices.shape}; give square matrices [count, size, size]"
        )
    if not np.isfinite(matrices).all():
        raise InputError(f"{name} holds NaN or infinity; give finite numbers")
    return matrices


def octahedral_matrices() -> Float[np.ndarray, "24 3 3"]:
    """Signed permutations of three axes with determinant one, the identity first."""
    found = []
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1, -1), repeat=3):
            matrix = np.diag(signs)[list(order)].astype(float)
            if np.linalg.det(matrix) > 0:
                found.append(matrix)
    return np.array(sorted(found, key=lambda m: not (m == np.eye(3)).all()))


def icosahedral_matrices() -> Float[np.ndarray, "60 3 3"]:
    """Generated by a fifth of a turn about a vertex and a third about a face, kept orthogonal."""
    golden = (1 + 5**0.5) / 2
    fifth = rotation_about(np.array([0.0, 1.0, golden]), 2 * np.pi / 5)
    third = rotation_about(np.array([1.0, 1.0, 1.0]), 2 * np.pi / 3)
    left, _, right = np.linalg.svd(generated_matrices(np.array([fifth, third])))
    return left @ right


def rotation_about(axis: Float[np.ndarray, " 3"], angle: float) -> Float[np.ndarray, "3 3"]:
    """The rotation by an angle about an axis of space (Rodrigues)."""
    axis = np.asarray(axis, np.float64)
    if axis.shape != (3,) or not np.linalg.norm(axis) > 0:
        raise InputError(f"axis is {axis.tolist()}; give three numbers that are not all zero")
    x, y, z = axis / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross


def random_rotations(rng: np.random.Generator, count: int) -> Float[np.ndarray, "count 3 3"]:
    """Uniform (Haar) rotations of space."""
    q, r = np.linalg.qr(rng.standard_normal((count, 3, 3)))
    q = q * np.sign(np.einsum("cii->ci", r))[:, None]
    return q * np.linalg.det(q)[:, None, None]


def covering_radius(order: int, frequency: int = 1) -> float:
    """``max_g min_b ‖ρ(g) - ρ(b)‖`` of the cyclic group in SO(2) at an angular frequency.

    ``2 sin(frequency π / 2 order)`` up to its maximum 2.

    >>> round(covering_radius(4), 3), round(covering_radius(16), 3)
    (0.765, 0.196)
    """
    if order < 1 or frequency < 0:
        raise InputError(
            f"order is {order} and frequency {frequency}; give at least 1 element and frequency 0"
        )
    return float(2 * np.sin(min(frequency * np.pi / (2 * order), np.pi / 2)))


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
    starts = np.flatnonzero(
        np.diff(values, prepend=-np.inf) > EIGENVALUE_GAP * np.abs(values).max()
    )
    found, characters = [], []
    for space in np.split(vectors, starts[1:], axis=1):
        # Left translation by g moves a function's value at g⁻¹ h to h.
        matrices = space.conj().T @ space[back]
        character = np.einsum("gii->g", matrices)
        alone = abs(np.vdot(character, character) / group.order - 1) < EIGENVALUE_GAP
        if alone and all(abs(np.vdot(character, other)) < 0.5 for other in characters):
            found.append(matrices)
            characters.append(character)
    return found


def _place(matrices: np.ndarray) -> tuple[int, bool, tuple[float, ...]]:
    """By size, the trivial one first, then by the character: the order does not hang on a seed."""
    character = np.einsum("gii->g", matrices).round(6) + 0.0
    order = tuple(-part for value in character for part in (value.real, value.imag))
    return matrices.shape[1], not np.allclose(character, 1), order
