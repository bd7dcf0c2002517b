"""Groups of hidden units and the scalings each allows, from what a trace recorded."""

from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Any

from credax.structure.co_occurrence import co_occurring, merged
from credax.structure.groups import (
    Axis,
    Contraction,
    Occurrence,
    Place,
    Structure,
    UnitGroup,
    place_of,
)
from credax.structure.labels import Label, Leaf, combined, leaves, parts
from credax.structure.values import Context
from credax.structure.views import length

Row = dict[Hashable, Fraction]


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
    beside = co_occurring(space, records.seen)
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
            assert length(axis, sizes) == wanted[path][i]
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
    return Axis(length(label, sizes), label, role)


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


def _group(number, atom, axes, scalings, base, sizes, records) -> UnitGroup:
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
    return UnitGroup(
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


def reduced(rows: Iterable[Row], order: Sequence[Hashable]) -> list[tuple[Hashable, Row]]:
    """Reduced row echelon form: (pivot, row) in the order of the columns given.

    Every pivot is 1 in its own row and absent from the others. Exact; cost O(rows² columns).

    >>> half = Fraction(1, 2)
    >>> reduced([{"a": half, "b": half}, {"a": half, "b": -half}], ["a", "b"])
    [('a', {'a': Fraction(1, 1)}), ('b', {'b': Fraction(1, 1)})]
    """
    rank = {column: i for i, column in enumerate(order)}
    done: dict[Hashable, Row] = {}
    for row in rows:
        row = {column: value for column, value in row.items() if value}
        for pivot in [column for column in row if column in done]:
            row = combined(row, done[pivot], -row.get(pivot, Fraction(0)))
        if not row:
            continue
        pivot = min(row, key=lambda column: rank[column])
        row = {column: value / row[pivot] for column, value in row.items()}
        for other, known in done.items():
            if pivot in known:
                done[other] = combined(known, row, -known[pivot])
        done[pivot] = row
    return sorted(done.items(), key=lambda item: rank[item[0]])


def null_space(rows: Iterable[Row], order: Sequence[Hashable]) -> list[Row]:
    """A basis of all solutions, in reduced form: each vector owns the earliest column it can.

    >>> null_space([{"in": Fraction(1), "out": Fraction(1)}], ["in", "out"])
    [{'in': Fraction(1, 1), 'out': Fraction(-1, 1)}]
    """
    # Pivots are taken from the back, so that free columns are the earliest ones.
    solved = reduced(rows, list(reversed(order)))
    pivots = {pivot for pivot, _ in solved}
    basis = []
    for free in (column for column in order if column not in pivots):
        vector = {free: Fraction(1)}
        for pivot, row in solved:
            if free in row:
                vector[pivot] = -row[free]
        basis.append(vector)
    return [row for _, row in reduced(basis, order)]


def whole(row: Row) -> Row:
    """The row times the least positive number that makes every entry whole.

    >>> whole({"scale": Fraction(1, 2), "variance": Fraction(1)})
    {'scale': Fraction(1, 1), 'variance': Fraction(2, 1)}
    """
    factor = lcm(*(value.denominator for value in row.values()))
    numbers = [int(value * factor) for value in row.values()]
    common = gcd(*numbers)
    return {column: Fraction(n, common) for column, n in zip(row, numbers, strict=True)}
