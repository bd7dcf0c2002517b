"""The result of a trace: axes, groups of hidden units, and the scalings each group allows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import jax

from credax.structure.companions import companions, merged
from credax.structure.degrees import Row, null_space, reduced, whole
from credax.structure.labels import Label, Leaf, Product, Sum, leaves, parts
from credax.structure.values import Context


class Place(NamedTuple):
    """One leaf of one parameter axis: the same unit group may stand at several places."""

    path: str
    position: int


@dataclass(frozen=True)
class Axis:
    """One axis of an array: its label and what it is for.

    ``role`` is "input" (contracted with an activation), "output" (free in that contraction),
    "elementwise" (biases, scales), "window", "stacked" (steps of a loop) or "data".
    """

    size: int
    label: Label
    role: str


@dataclass(frozen=True)
class Contraction:
    """How an array is read by a product or a convolution."""

    bias: str | None
    read_once: bool
    feature_group_count: int


@dataclass(frozen=True)
class Occurrence:
    """Where a group stands: an array, its axis, and the leaf of that axis."""

    path: str
    axis: int
    place: Place
    role: str


@dataclass(frozen=True)
class Group:
    """Hidden units that may be permuted, and rescaled in the directions ``scalings``.

    The order and the scales may differ for every index of ``base`` (atoms, groups or pinned).
    A scaling maps places to exponents: with factors λ the array there is multiplied by λ to that
    power, and the network computes the same.
    """

    id: int
    atom: int
    size: int
    base: tuple[int, ...]
    base_sizes: tuple[int, ...]
    occurrences: tuple[Occurrence, ...]
    scalings: tuple[Mapping[Place, Fraction], ...]
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    first_equation: int


@dataclass(frozen=True, eq=False)
class Structure:
    """Axes, groups and pins of a network; made by `trace`, compared by identity.

    ``pinned`` maps atoms without symmetry to the reason, ``shifts`` maps arrays to a number that
    the network adds to them and that is scaled along, ``error`` is the greatest relative change of
    outputs under a random symmetry, where it was measured. ``factors`` are the arrays that multiply
    activations unit by unit (the scales of norms).
    """

    axes: Mapping[str, tuple[Axis, ...]]
    groups: tuple[Group, ...]
    pinned: Mapping[int, str]
    sizes: Mapping[int, int]
    contractions: Mapping[str, Contraction]
    shifts: Mapping[str, float]
    statistics: str
    epsilon: str
    pairs: tuple[tuple[str, str], ...] = ()
    first_use: Mapping[str, int] = field(default_factory=dict)
    factors: frozenset[str] = frozenset()
    error: float | None = None
    by_atom: Mapping[int, Group] = field(default_factory=dict)
    network: Any = field(default=None, repr=False)
    """What was traced, with ``example`` inputs and the ``tree`` of its variables."""
    example: Any = field(default=None, repr=False)
    tree: Any = field(default=None, repr=False)
    single: bool = False
    """Whether the network computes in less than float64 whatever it is given."""

    @cached_property
    def run(self) -> Any:
        """The network's outputs for variables and inputs, compiled once a structure."""
        return jax.jit(lambda v, a: self.network.apply(v, a, train=False)[0])

    def exponents(self, group: Group, place: Place) -> list[tuple[int, Fraction]]:
        """Which scalings of a group act at a place, and in which power."""
        return [(k, row[place]) for k, row in enumerate(group.scalings) if place in row]

    def is_bias(self, path: str) -> bool:
        """Whether an array is only ever added: neither contracted nor a factor."""
        return path not in self.contractions and path not in self.factors

    def labels(self, path: str) -> tuple[Label, ...]:
        """The labels of an array's axes."""
        return tuple(axis.label for axis in self.axes[path])

    @property
    def depth_first(self) -> tuple[Group, ...]:
        """Groups with those that rest on others first."""
        return tuple(sorted(self.groups, key=lambda group: (-len(group.base), group.id)))


def place_of(leaf: Leaf) -> Place:
    """Where a parameter's leaf stands: its form is its own unknown."""
    ((path, position),) = leaf.form
    return Place(path, position)


def build(context: Context, wanted: dict, statistics: str, epsilon: str) -> Structure:
    """Groups and scalings from what the last pass recorded."""
    space, records = context.space, context.records
    params = {}
    for path, axes in context.params.items():
        count, labels = 0, []
        for axis in axes:
            label, count = _numbered(space.resolve(axis), path, count)
            labels.append(label)
        params[path] = tuple(labels)
    beside = companions(space, records.seen)
    params, beside = merged(space, params, beside)
    order = _first_places(params, records.first_use)
    bases = _bases(space, order, beside)
    sizes = {
        leaf.atom: space.sizes[leaf.atom]
        for axes in params.values()
        for a in axes
        for leaf in leaves(a)
    }
    for path, axes in params.items():
        for i, axis in enumerate(axes):
            assert _size(axis, sizes) == wanted[path][i]
    system = [
        {Place(*k) if k[0] in wanted else k: v for k, v in form.items()}
        for form in records.constraints
    ]
    pairs = _statistics(params, records.pairs, statistics, system)
    axes = {
        path: tuple(_axis(path, i, label, records, sizes) for i, label in enumerate(labels))
        for path, labels in params.items()
    }
    free = [atom for atom in order if space.reason[atom] is None]
    rows = {atom: _scalings(atom, params, system, records.first_use) for atom in free}
    rows = _without_contained(rows, bases)
    groups = tuple(
        _group(number, atom, axes, rows[atom], bases[atom], sizes, records)
        for number, atom in enumerate(free)
    )
    pinned = {atom: space.reason[atom] or "" for atom in sizes if space.reason[atom] is not None}
    reads = {read.path: read for read in reversed(records.reads)}
    contractions = {
        path: Contraction(
            records.biases.get(path),
            records.uses[path] == 1 and sum(r.path == path for r in records.reads) == 1,
            read.feature_group_count,
        )
        for path, read in reads.items()
    }
    return Structure(
        axes,
        groups,
        pinned,
        sizes,
        contractions,
        dict(records.shifts),
        statistics,
        epsilon,
        pairs,
        dict(records.first_use),
        frozenset(records.factors),
        by_atom={group.atom: group for group in groups},
    )


def _numbered(label: Label, path: str, count: int) -> tuple[Label, int]:
    """The label with each leaf marked by its position in the array."""
    if isinstance(label, Leaf):
        return Leaf(label.atom, {(path, count): Fraction(1)}), count + 1
    if not parts(label):
        return label, count
    done = []
    for part in parts(label):
        part, count = _numbered(part, path, count)
        done.append(part)
    return type(label)(tuple(done)), count  # pyright: ignore


def _size(label: Label, sizes) -> int:
    if isinstance(label, Leaf):
        return sizes[label.atom]
    if isinstance(label, Product):
        total = 1
        for part in label.factors:
            total *= _size(part, sizes)
        return total
    return (
        sum(_size(part, sizes) for part in label.segments) if isinstance(label, Sum) else label.size
    )


def _first_places(params, first_use) -> list[int]:
    """Atoms in the order in which the computation first meets them."""
    order: dict[int, None] = {}
    for path in sorted(params, key=lambda path: (first_use.get(path, 10**9), path)):
        for label in params[path]:
            for leaf in leaves(label):
                order.setdefault(leaf.atom)
    return list(order)


def _bases(space, order, beside) -> dict[int, tuple[int, ...]]:
    """The atoms each atom is fibred over; of two that need each other, the earlier is the base."""
    rank = {atom: i for i, atom in enumerate(order)}
    result = {}
    for atom in order:
        found = [other for other in beside.get(atom, ()) if other in rank]
        found = [
            other
            for other in found
            if atom not in beside.get(other, ())
            or space.reason[other] is not None
            or rank[other] < rank[atom]
        ]
        result[atom] = tuple(sorted(found, key=rank.__getitem__))
    return result


def _statistics(params, pairs, statistics, system) -> tuple[tuple[str, str], ...]:
    """Running means and variances are tied: their scalings go together, or the variance stays."""
    tied = []
    for mean, variance in sorted(pairs):
        if not (mean.startswith("state/") and variance.startswith("state/")):
            continue
        tied.append((mean, variance))
        means, variances = (_places(params[path]) for path in (mean, variance))
        for at_mean, at_variance in zip(means, variances, strict=False):
            if statistics == "consistent":
                system.append({at_variance: Fraction(1), at_mean: Fraction(-2)})
            elif statistics == "held":
                system.append({at_variance: Fraction(1)})
    return tuple(tied)


def _places(labels) -> list[Place]:
    return [place_of(leaf) for label in labels for leaf in leaves(label)]


def _axis(path, number, label, records, sizes) -> Axis:
    role = records.axis_roles.get((path, number))
    if role is None:
        found = {records.leaf_roles.get(place_of(leaf)) for leaf in leaves(label)} - {None}
        role = found.pop() if len(found) == 1 else None
    read = any(read.path == path for read in records.reads)
    if role is None:
        role = "data" if read or not records.uses[path] else "elementwise"
    return Axis(_size(label, sizes), label, role)


def _scalings(atom, params, system, first_use) -> list[Row]:
    """All exponents that satisfy every equation the atom takes part in."""
    places = [p for labels in params.values() for p in _atom_places(labels, atom)]
    places.sort(key=lambda place: (first_use.get(place.path, 10**9), place))
    known: set[Any] = set(places)
    rows, rest = [], list(system)
    grown = True
    while grown:
        touching = [row for row in rest if not known.isdisjoint(row)]
        rest = [row for row in rest if known.isdisjoint(row)]
        rows += touching
        new = {name for row in touching for name in row} - known
        known |= new
        grown = bool(new)
    extra = sorted((name for name in known if name not in set(places)), key=repr)
    order = [*places, *extra]
    basis = null_space(rows, order)
    own = set(places)
    basis = [{name: value for name, value in row.items() if name in own} for row in basis]
    return [whole(row) for _, row in reduced(basis, order) if row]


def _atom_places(labels, atom) -> list[Place]:
    return [place_of(leaf) for label in labels for leaf in leaves(label) if leaf.atom == atom]


def _without_contained(rows: dict, bases: dict) -> dict:
    """Scalings of a base that the scalings of what rests on it already contain are dropped."""
    kept = {}
    for atom, own in rows.items():
        above = [row for other, others in rows.items() if atom in bases[other] for row in others]
        span = [_by_path(row) for row in above]
        result = []
        for row in own:
            columns = sorted({path for r in [*span, _by_path(row)] for path in r}, key=str)
            grown = reduced([*span, _by_path(row)], columns)
            if len(grown) > len(reduced(span, columns)):
                result.append(row)
                span.append(_by_path(row))
        kept[atom] = result if above else own
    return kept


def _by_path(row: Row) -> Row:
    total: Row = {}
    for place, value in row.items():
        total[place.path] = total.get(place.path, Fraction(0)) + value  # pyright: ignore
    return total


def _group(number, atom, axes, scalings, base, sizes, records) -> Group:
    found = []
    for path, labelled in axes.items():
        for i, axis in enumerate(labelled):
            found += [
                Occurrence(
                    path, i, place_of(leaf), records.leaf_roles.get(place_of(leaf), axis.role)
                )
                for leaf in leaves(axis.label)
                if leaf.atom == atom
            ]
    found.sort(key=lambda o: (records.first_use.get(o.path, 10**9), o.path, o.axis))
    producers = tuple(dict.fromkeys(o.path for o in found if o.role == "output"))
    consumers = tuple(dict.fromkeys(o.path for o in found if o.role == "input"))
    first = min((records.first_use.get(o.path, 10**9) for o in found), default=0)
    return Group(
        number,
        atom,
        sizes[atom],
        base,
        tuple(sizes[other] for other in base),
        tuple(found),
        tuple(scalings),
        producers,
        consumers,
        first,
    )
