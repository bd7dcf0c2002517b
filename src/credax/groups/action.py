"""How a group acts on inputs and outputs: gathers of pixels, matrices, and measured defects."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from credax.errors import InputError
from credax.groups.group import Group, square_matrices

Kind = Literal["permutation", "signed_permutation", "orthogonal", "approximate"]
KINDS: tuple[Kind, ...] = ("permutation", "signed_permutation", "orthogonal", "approximate")


class Defects(NamedTuple):
    """How far an action is from a representation, and from an orthogonal one: zero if it is."""

    homomorphism: float
    orthogonality: float


class Representation(Protocol):
    """A group acting on arrays ``[..., *shape]``."""

    @property
    def group(self) -> Group:
        """Who acts."""
        ...

    @property
    def kind(self) -> Kind:
        """What is known of the action."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """What it acts on."""
        ...

    def apply(self, element: int, x: Any) -> Any:
        """One element on every row; NumPy stays NumPy."""
        ...


@dataclass(frozen=True, eq=False)
class Gather:
    """Every position of the result is a weighted sum of positions: permutations, interpolation.

    ``result[p] = Σ_k weights[g, p, k] x[indices[g, p, k]]``; positions are the flattened ``shape``
    without its axis of channels, where it has one.
    """

    group: Group
    kind: Kind
    shape: tuple[int, ...]
    indices: Int[np.ndarray, "order positions taps"]
    weights: Float[np.ndarray, "order positions taps"] | None = None

    def apply(self, element: int, x: Any) -> Any:
        """One element on every row ``[..., *shape]``."""
        lead = x.shape[: x.ndim - len(self.shape)]
        flat = x.reshape(*lead, self.indices.shape[1], -1)
        if self.weights is None:
            return flat[..., self.indices[element, :, 0], :].reshape(x.shape)
        kind = x.dtype if np.issubdtype(x.dtype, np.floating) else np.dtype(np.float32)
        weights = self.weights[element][:, :, None].astype(kind)
        return (flat[..., self.indices[element], :] * weights).sum(-2).reshape(x.shape)


@dataclass(frozen=True, eq=False)
class Matrices:
    """A matrix for every element, acting on the last axis."""

    group: Group
    kind: Kind
    matrices: Float[np.ndarray, "order size size"]

    @property
    def shape(self) -> tuple[int, ...]:
        """The vectors it acts on."""
        return (self.matrices.shape[1],)

    def apply(self, element: int, x: Any) -> Any:
        """One element on every row ``[..., size]``."""
        return x @ self.matrices[element].T.astype(x.dtype)


@dataclass(frozen=True, eq=False)
class Trivial:
    """Nothing happens: invariance."""

    group: Group
    shape: tuple[int, ...] = ()
    kind: Kind = "permutation"

    def apply(self, element: int, x: Any) -> Any:
        """The rows themselves."""
        return x


def check_shape(x: Any, representation: Representation, name: str = "x") -> None:
    """Raise one sentence unless the last axes of ``x`` are what the group acts on."""
    shape = tuple(representation.shape)
    if np.ndim(x) < len(shape) or np.shape(x)[np.ndim(x) - len(shape) :] != shape:
        raise InputError(
            f"{name} has shape {np.shape(x)}; the group acts on [..., {', '.join(map(str, shape))}]"
        )


def every(representation: Representation, x: Any) -> Any:
    """All elements on every row: a new axis of elements before the shape."""
    check_shape(x, representation)
    xp = np if isinstance(x, np.ndarray) else jnp
    turned = [representation.apply(g, x) for g in range(representation.group.order)]
    return xp.stack(turned, axis=x.ndim - len(representation.shape))


def matrix(representation: Representation, element: int) -> Float[np.ndarray, "size size"]:
    """The element as a matrix on flattened inputs; costs the square of the input's size."""
    order = representation.group.order
    if not 0 <= element < order:
        raise InputError(f"element is {element}; this group has elements 0 to {order - 1}")
    size = int(np.prod(representation.shape, dtype=int))
    basis = np.eye(size).reshape(size, *representation.shape)
    return representation.apply(element, basis).reshape(size, size).T


def defects(representation: Representation, rows: int = 4, seed: int = 0) -> Defects:
    """Measured on random rows: ``|ρ(g)ρ(h)x - ρ(gh)x|`` and ``|⟨ρ(g)x, ρ(g)y⟩ - ⟨x, y⟩|``.

    Both are relative and the largest over all elements; 1e-12 and less for exact actions.
    """
    group = representation.group
    x = np.random.default_rng(seed).standard_normal((rows, *representation.shape))
    turned = [representation.apply(g, x) for g in range(group.order)]
    size = np.abs(x).max()
    worst = 0.0
    for g in range(group.order):
        for h in range(group.order):
            gap = representation.apply(g, turned[h]) - turned[group.product[g, h]]
            worst = max(worst, float(np.abs(gap).max() / size))
    grams = [t.reshape(rows, -1) @ t.reshape(rows, -1).T for t in turned]
    largest = np.abs(grams[0]).max()
    return Defects(worst, max(float(np.abs(gram - grams[0]).max() / largest) for gram in grams))


def vectors(matrices: Float[np.ndarray, "order size size"]) -> Matrices:
    """Orthogonal matrices that form a group, acting on vectors; anything else is refused."""
    matrices = square_matrices(matrices, "matrices")
    gap = np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(matrices.shape[1])).max()
    if gap > 1e-10:
        raise InputError(f"matrices are not orthogonal: they miss by {gap:.1e}; give rotations")
    entries = np.abs(matrices)
    signed = bool(np.all((entries < 1e-12) | (np.abs(entries - 1) < 1e-12)))
    kind: Kind = "signed_permutation" if signed else "orthogonal"
    if signed and (matrices > -0.5).all():
        kind = "permutation"
    return Matrices(Group.from_matrices(matrices), kind, matrices)


def direct_sum(*parts: Matrices) -> Matrices:
    """Several vectors side by side, each turned by its own matrices of the same group."""
    if not parts:
        raise InputError("direct_sum was given nothing; give at least one representation")
    first = parts[0]
    for part in parts:
        if not np.array_equal(part.group.product, first.group.product):
            raise InputError(
                "direct_sum was given representations of different groups; give those of one group"
            )
    size = sum(part.matrices.shape[1] for part in parts)
    whole = np.zeros((first.group.order, size, size))
    start = 0
    for part in parts:
        stop = start + part.matrices.shape[1]
        whole[:, start:stop, start:stop] = part.matrices
        start = stop
    kind = KINDS[max(KINDS.index(part.kind) for part in parts)]
    return Matrices(first.group, kind, whole)


def conjugate(representation: Matrices, by: Float[np.ndarray, "size size"]) -> Matrices:
    """The same group seen from turned axes: ``by ρ(g) byᵀ``."""
    size = representation.matrices.shape[1]
    by = np.asarray(by, np.float64)
    if by.shape != (size, size) or np.abs(by @ by.T - np.eye(size)).max() > 1e-10:
        raise InputError(f"by has shape {by.shape}; give an orthogonal matrix of {size} by {size}")
    turned = by @ representation.matrices @ by.T
    return Matrices(representation.group, "orthogonal", turned)


def plane_rotations(order: int) -> Matrices:
    """The cyclic group turning vectors of the plane."""
    angles = 2 * np.pi * np.arange(order) / order
    c, s = np.cos(angles), np.sin(angles)
    matrices = np.stack([np.stack([c, -s], -1), np.stack([s, c], -1)], -2)
    return Matrices(Group.cyclic(order), "orthogonal", matrices)


def sign_flip(size: int) -> Matrices:
    """``x`` and ``-x``."""
    if size < 1:
        raise InputError(f"size is {size}; vectors have at least 1 entry")
    matrices = np.stack([np.eye(size), -np.eye(size)])
    return Matrices(Group.cyclic(2), "signed_permutation", matrices)
