"""What is known of one array in a trace, and the records that the rules write while it runs."""

import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from credax.errors import InputError
from credax.structure.labels import (
    Atoms,
    Form,
    Label,
    Leaf,
    Uniform,
    combined,
    leaves,
    rebuild,
)
from credax.structure.unify import unify


class StructureError(InputError):
    """An operation could not be followed; the message names it and the parameters that reach it."""


class Value(NamedTuple):
    """One array of the trace: a label an axis, and where it comes from.

    ``const`` is its one number where that is known. ``origin`` is the parameter it is, up to
    reshaping (and a constant factor, then it is not ``pure``); ``where`` are that parameter's axes.
    ``data`` says that it depends on the inputs. ``tags`` remember what was done on the way.
    """

    axes: tuple[Label, ...]
    const: float | None = None
    origin: str | None = None
    pure: bool = True
    where: tuple[int | None, ...] = ()
    data: bool = False
    tags: frozenset = frozenset()

    def relabelled(self, axes, where=None) -> "Value":
        """The same numbers under other axes."""
        return self._replace(axes=tuple(axes), where=tuple(where or (None,) * len(tuple(axes))))


def named(tags: frozenset, kind: str) -> set[str]:
    """The paths that carry a tag."""
    return {path for name, path in tags if name == kind}


@dataclass(frozen=True)
class KernelRead:
    """A parameter that is contracted with an activation, by a product or a convolution."""

    path: str
    equation: int
    feature_group_count: int = 1


@dataclass
class Records:
    """What one pass over the computation found."""

    constraints: list[Form] = field(default_factory=list)
    seen: list[tuple[tuple[Label, ...], tuple]] = field(default_factory=list)
    reads: list[KernelRead] = field(default_factory=list)
    axis_roles: dict[tuple[str, int], str] = field(default_factory=dict)
    leaf_roles: dict[tuple[str, int], str] = field(default_factory=dict)
    biases: dict[str, str] = field(default_factory=dict)
    factors: set[str] = field(default_factory=set)
    shifts: dict[str, float] = field(default_factory=dict)
    pairs: set[tuple[str, str]] = field(default_factory=set)
    uses: Counter = field(default_factory=Counter)
    first_use: dict[str, int] = field(default_factory=dict)
    ignored: set[float] = field(default_factory=set)


@dataclass
class Context:
    """The state of a trace: atoms, records, options, and where in the computation it stands."""

    space: Atoms
    on_unknown: str = "raise"
    epsilon: str = "exact"
    records: Records = field(default_factory=Records)
    previous: Records | None = None
    stack: tuple = ()
    sources: tuple = ()
    count: int = 0
    memory: dict = field(default_factory=dict)
    scans: tuple = ()
    params: dict[str, tuple[Label, ...]] = field(default_factory=dict)

    def fresh(self, size: int, reason: str | None, slot: Any) -> Label:
        """An atom that belongs to this place of the computation: the same one on every pass."""
        place = (self.stack, slot)
        if place not in self.memory:
            self.memory[place] = self.space.fresh(size, reason)
        return self.memory[place]

    def zero(self, form: Form) -> None:
        """Ask that a degree be zero."""
        if form:
            self.records.constraints.append(form)

    def unscaled(self, label: Label) -> Label:
        """Ask that every degree of a label be zero."""
        for leaf in leaves(self.space.resolve(label)):
            self.zero(leaf.form)
        return self.without_form(label)

    def without_form(self, label: Label) -> Label:
        """The label of a value that does not scale."""
        strip = lambda leaf: Leaf(leaf.atom, {}) if isinstance(leaf, Leaf) else Uniform(leaf.size)  # noqa: E731
        return rebuild(self.space.resolve(label), strip)

    def scaled(self, label: Label, factor: Fraction) -> Label:
        """The label with every degree times a number."""

        def times(leaf):
            if isinstance(leaf, Uniform):
                return leaf
            return Leaf(leaf.atom, {name: factor * value for name, value in leaf.form.items()})

        return rebuild(self.space.resolve(label), times)

    def unify(self, left: Label, right: Label, combine) -> Label:
        """The common label of two axes."""
        return unify(self.space, left, right, combine)

    def same(self, left: Leaf | Uniform, right: Leaf | Uniform) -> Form:
        """Sums: degrees are equal; what is known to be zero has any degree."""
        if isinstance(left, Leaf) and isinstance(right, Leaf):
            self.zero(combined(left.form, right.form, -1))
            return left.form
        flat, other = (left, right) if isinstance(left, Uniform) else (right, left)
        if isinstance(other, Uniform):
            return {}
        if flat.zero:  # pyright: ignore
            return other.form
        self.zero(other.form)
        return {}

    def product(self, left: Leaf | Uniform, right: Leaf | Uniform) -> Form:
        """Products: degrees add."""
        return combined(form_of(left), form_of(right), 1)

    def quotient(self, left: Leaf | Uniform, right: Leaf | Uniform) -> Form:
        """Quotients: degrees are subtracted."""
        return combined(form_of(left), form_of(right), -1)

    def contracted(self, left: Leaf | Uniform, right: Leaf | Uniform) -> Form:
        """Sums of products: degrees cancel, unless one side is known to be zero."""
        if not any(isinstance(side, Uniform) and side.zero for side in (left, right)):
            self.zero(self.product(left, right))
        return {}

    def inert(self, left: Leaf | Uniform, right: Leaf | Uniform) -> Form:
        """Both have degree zero."""
        for side in (left, right):
            self.zero(form_of(side))
        return {}

    def read(self, value: Value, roles: dict[int, str], groups: int = 1) -> None:
        """Note that a parameter is contracted with an activation, and the roles of its axes."""
        if value.origin is None:
            return
        path, records = value.origin, self.records
        records.reads.append(KernelRead(path, self.count, groups))
        for axis, role in roles.items():
            if axis < len(value.where) and (source := value.where[axis]) is not None:
                records.axis_roles[path, source] = role
            for leaf in leaves(self.space.resolve(value.axes[axis])):
                for unknown in leaf.form:
                    if unknown[0] == path:
                        records.leaf_roles[unknown] = role

    def reaching(self, labels) -> list[str]:
        """The free parameter axes that share an atom with these labels, in words."""
        atoms = {leaf.atom for label in labels for leaf in leaves(self.space.resolve(label))}
        atoms = {atom for atom in atoms if self.space.reason[atom] is None}
        found = []
        for path, axes in self.params.items():
            for axis, label in enumerate(axes):
                inside = {leaf.atom for leaf in leaves(self.space.resolve(label))}
                if inside & atoms:
                    size = self.space.size(label)
                    found.append(f"axis {axis} of {path} ({size} units)")
        return found


def form_of(part: Leaf | Uniform) -> Form:
    """The degree of a leaf; a uniform axis does not scale."""
    return part.form if isinstance(part, Leaf) else {}


def constant(value: float | None, shape: tuple[int, ...]) -> Value:
    """An array with one number everywhere (or nowhere known)."""
    return Value(tuple(Uniform(size) for size in shape), value, where=(None,) * len(shape))


def is_free(number: float | None, infinities: bool = False) -> bool:
    """Whether a constant operand leaves the degree of the other free: 0, or where asked ±inf."""
    if number is None:
        return False
    return number == 0 or (infinities and not math.isfinite(number))
