"""Null spaces of small rational systems: which exponents leave a network alone."""

from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from math import gcd, lcm

Row = dict[Hashable, Fraction]


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
            row = _minus(row, done[pivot], row.get(pivot, Fraction(0)))
        if not row:
            continue
        pivot = min(row, key=lambda column: rank[column])
        row = {column: value / row[pivot] for column, value in row.items()}
        for other, known in done.items():
            if pivot in known:
                done[other] = _minus(known, row, known[pivot])
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


def _minus(row: Row, other: Row, factor: Fraction) -> Row:
    total = dict(row)
    for column, value in other.items():
        total[column] = total.get(column, Fraction(0)) - factor * value
    return {column: value for column, value in total.items() if value}
