"""Labels name the index spaces of array axes; a `Atoms` decides which of them are the same.

A label is an atom, a row-major product of labels (after a reshape), a sum of labels (after a
concatenation) or uniform (the value does not vary along the axis). Atoms are joined by union-find
and may be refined into products or sums later. An atom that is pinned admits no symmetry and
remembers why; pinning only ever loses a symmetry, so every undecided case ends in it.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

# A linear form in the unknown exponents of parameter leaves; an unknown is (path, leaf position).
Form = dict[Any, Fraction]


class Leaf(NamedTuple):
    """One atom, with the degree in which the value scales along it."""

    atom: int
    form: Form


class Uniform(NamedTuple):
    """The value is the same at every index; ``zero`` when it is known to be 0 there."""

    size: int
    zero: bool = False


class Product(NamedTuple):
    """Factors of one axis in row-major order."""

    factors: "tuple[Label, ...]"


class Sum(NamedTuple):
    """Segments of one axis, one after another."""

    segments: "tuple[Label, ...]"


Label = Leaf | Uniform | Product | Sum
ONE = Product(())
Combine = Callable[[Leaf | Uniform, Leaf | Uniform], Form]


def combined(left: Form, right: Form, factor: Fraction | int) -> Form:
    """``left + factor right``, without zeros."""
    if not right:
        return left
    total = dict(left)
    for unknown, value in right.items():
        total[unknown] = total.get(unknown, Fraction(0)) + factor * value
    return {unknown: value for unknown, value in total.items() if value}


def parts(label: Label) -> "tuple[Label, ...]":
    """The factors or segments of a label; a leaf has none."""
    if isinstance(label, Product):
        return label.factors
    return label.segments if isinstance(label, Sum) else ()


def leaves(label: Label) -> Iterator[Leaf]:
    """Every atom of a label, from left to right."""
    if isinstance(label, Leaf):
        yield label
    for part in parts(label):
        yield from leaves(part)


def rebuild(label: Label, change: Callable[[Leaf | Uniform], Label]) -> Label:
    """The label with every leaf changed."""
    if isinstance(label, Product):
        return Product(tuple(rebuild(part, change) for part in label.factors))
    if isinstance(label, Sum):
        return Sum(tuple(rebuild(part, change) for part in label.segments))
    return change(label)


def with_form(label: Label, form: Form) -> Label:
    """The label with the same degree on every atom."""
    return rebuild(label, lambda leaf: Leaf(leaf.atom, form) if isinstance(leaf, Leaf) else leaf)


class Atoms:
    """All atoms of a trace: which are equal, what they were refined into, which are pinned."""

    def __init__(self):
        self.parent: list[int] = []
        self.sizes: list[int] = []
        self.expansion: list[Label | None] = []
        self.reason: list[str | None] = []
        self.changes = 0

    def fresh(self, size: int, reason: str | None = None) -> Label:
        """A new atom; an axis of size 1 needs none."""
        if size == 1:
            return ONE
        self.parent.append(len(self.parent))
        self.sizes.append(size)
        self.expansion.append(None)
        self.reason.append(reason)
        return Leaf(len(self.parent) - 1, {})

    def find(self, atom: int) -> int:
        """The representative of an atom."""
        while self.parent[atom] != atom:
            self.parent[atom] = self.parent[self.parent[atom]]
            atom = self.parent[atom]
        return atom

    def size(self, label: Label) -> int:
        """How many indices a label has."""
        if isinstance(label, Leaf):
            return self.sizes[label.atom]
        if isinstance(label, Uniform):
            return label.size
        sizes = [self.size(part) for part in parts(label)]
        return math.prod(sizes) if isinstance(label, Product) else sum(sizes)

    def resolve(self, label: Label) -> Label:
        """The label in normal form: representatives, refinements put in, nothing nested."""
        if isinstance(label, Leaf):
            root = self.find(label.atom)
            expansion = self.expansion[root]
            if expansion is None:
                return label if root == label.atom else Leaf(root, label.form)
            return self.resolve(with_form(expansion, label.form))
        if isinstance(label, Uniform):
            return ONE if label.size == 1 and not label.zero else label
        kind, flat = type(label), []
        for part in map(self.resolve, parts(label)):
            flat.extend(parts(part) if isinstance(part, kind) else [part])
        if kind is Product:
            flat = _merged([part for part in flat if part != ONE], math.prod)
        else:
            flat = _merged([part for part in flat if part != Uniform(0)], sum)
        return flat[0] if len(flat) == 1 else kind(tuple(flat))  # pyright: ignore

    def pin(self, label: Label, reason: str) -> None:
        """Allow no symmetry on any atom of the label."""
        for leaf in leaves(self.resolve(label)):
            if self.reason[leaf.atom] is None:
                self.reason[leaf.atom] = reason
                self.changes += 1

    def why(self, atom: int) -> str | None:
        """Why an atom is pinned, or None."""
        return self.reason[self.find(atom)]

    def is_pinned(self, label: Label) -> bool:
        """Whether no atom of the label is free; uniform axes have nothing to pin."""
        return all(self.reason[leaf.atom] is not None for leaf in leaves(self.resolve(label)))

    def refine(self, leaf: Leaf, expression: Label) -> bool:
        """Make an atom a name for an expression; False, and both pinned, if it contains itself."""
        atom = self.find(leaf.atom)
        if any(inner.atom == atom for inner in leaves(expression)):
            for label in (leaf, expression):
                self.pin(label, "an axis cannot be a part of itself")
            return False
        reason = self.reason[atom]
        fill = lambda part: (  # noqa: E731
            Leaf(part.atom, {}) if isinstance(part, Leaf) else self.fresh(part.size, reason)
        )
        self.expansion[atom] = rebuild(expression, fill)
        if reason is not None:
            self.pin(expression, reason)
        self.changes += 1
        return True

    def join(self, left: Leaf, right: Leaf) -> None:
        """Two atoms are the same; pinned if either is."""
        a, b = sorted((self.find(left.atom), self.find(right.atom)))
        if a != b:
            self.parent[b] = a
            self.reason[a] = self.reason[a] if self.reason[a] is not None else self.reason[b]
            self.changes += 1

    def cut_product(self, label: Label, outer: int) -> tuple[Label, Label]:
        """One factor as ``outer`` times the rest; the size must divide."""
        inner = self.size(label) // outer
        if isinstance(label, Uniform):
            return Uniform(outer, label.zero), Uniform(inner, label.zero)
        pair = Product((self.fresh(outer), self.fresh(inner)))
        if isinstance(label, Leaf):
            self.refine(label, pair)
            outer_part, inner_part = pair.factors
            return with_form(outer_part, label.form), with_form(inner_part, label.form)
        segments = {repr(with_form(part, {})) for part in parts(label)}
        if isinstance(label, Sum) and len(label.segments) == outer and len(segments) == 1:
            return self.fresh(outer, "copies of one axis"), label.segments[0]
        self.pin(label, "a concatenated axis is cut across its parts")
        reason = "a concatenated axis is cut across its parts"
        return self.fresh(outer, reason), self.fresh(inner, reason)

    def cut_sum(self, label: Label, first: int) -> tuple[Label, Label]:
        """The first indices of a label and the others."""
        label = self.resolve(label)
        rest = self.size(label) - first
        if isinstance(label, Uniform):
            return Uniform(first, label.zero), Uniform(rest, label.zero)
        if isinstance(label, Leaf):
            reason = self.reason[label.atom]
            pair = Sum((self.fresh(first, reason), self.fresh(rest, reason)))
            self.refine(label, pair)
            head, tail = pair.segments
            return with_form(head, label.form), with_form(tail, label.form)
        if isinstance(label, Product):
            return self._cut_outer(label, first)
        taken: list[Label] = []
        segments = list(label.segments)
        while first:
            segment = segments.pop(0)
            if (size := self.size(segment)) > first:
                segment, tail = self.cut_sum(segment, first)
                segments.insert(0, tail)
                size = first
            taken.append(segment)
            first -= size
        return self.resolve(Sum(tuple(taken))), self.resolve(Sum(tuple(segments)))

    def _cut_outer(self, label: Product, first: int) -> tuple[Label, Label]:
        outer, inner = label.factors[0], self.resolve(Product(label.factors[1:]))
        if first % self.size(inner) == 0 and not isinstance(outer, Product):
            head, tail = self.cut_sum(outer, first // self.size(inner))
            return self.resolve(Product((head, inner))), self.resolve(Product((tail, inner)))
        return self.cut_sum(self.copies(label), first)

    def copies(self, label: Product) -> Sum:
        """A product as so many copies of its inner part, its outer factor pinned."""
        outer, inner = label.factors[0], self.resolve(Product(label.factors[1:]))
        self.pin(outer, "indices of this axis are told apart")
        return Sum((inner,) * self.size(outer))


def _merged(flat: list[Label], size: Callable) -> list[Label]:
    merged: list[Label] = []
    for part in flat:
        last = merged[-1] if merged else None
        # Neighbouring segments may hold different numbers, unless both are zero.
        if (
            isinstance(part, Uniform)
            and isinstance(last, Uniform)
            and part.zero == last.zero
            and (size is math.prod or part.zero)
        ):
            merged[-1] = Uniform(size((last.size, part.size)), part.zero)
        else:
            merged.append(part)
    return merged
