"""Which atoms always occur together: the base indices that an order or a scale may depend on."""

from collections import Counter

from credax.structure.labels import Atoms, Label, Leaf, Product, Sum, leaves, parts, rebuild


def co_occurring(space: Atoms, seen) -> dict[int, set[int]]:
    """For every atom, the atoms that stand beside it, once, in every array of the trace."""
    found: dict[int, set[int]] = {}
    for labels, scans in seen:
        axes = [space.resolve(label) for label in labels]
        if not any(True for axis in axes for _ in leaves(axis)):
            continue
        extra = _loops(space, scans)
        for number, axis in enumerate(axes):
            others = Counter()
            for other in axes[:number] + axes[number + 1 :]:
                others += _direct(other)
            for atom, around in _walk(axis, others):
                beside = {a for a, count in around.items() if count == 1 and a != atom}
                beside |= {loop for loop, shared in extra if atom not in shared}
                found[atom] = found[atom] & beside if atom in found else beside
    return found


def _loops(space: Atoms, scans) -> list[tuple[int, set[int]]]:
    """The step axis of every loop around, and the atoms that are the same in all its steps."""
    result = []
    for length, shared in scans:
        label = space.resolve(length)
        if isinstance(label, Leaf):
            atoms = {leaf.atom for other in shared for leaf in leaves(space.resolve(other))}
            result.append((label.atom, atoms))
    return result


def _direct(label: Label) -> Counter:
    """Atoms reached through products; those inside a sum count as ambiguous."""
    if isinstance(label, Leaf):
        return Counter([label.atom])
    if isinstance(label, Sum):
        return Counter({leaf.atom: 2 for leaf in leaves(label)})
    total = Counter()
    for part in parts(label):
        total += _direct(part)
    return total


def _walk(label: Label, around: Counter):
    if isinstance(label, Leaf):
        yield label.atom, around
    elif isinstance(label, Sum):
        for segment in label.segments:
            yield from _walk(segment, around)
    elif isinstance(label, Product):
        for number, factor in enumerate(label.factors):
            beside = around.copy()
            for other in label.factors[:number] + label.factors[number + 1 :]:
                beside += _direct(other)
            yield from _walk(factor, beside)


def merged(space: Atoms, params: dict, beside: dict[int, set[int]]) -> tuple[dict, dict]:
    """Parameter labels with pairs that never part joined into one atom; and who joined whom.

    A pair is joined when each accompanies the other everywhere, both are free, and in every
    parameter they are neighbouring factors of one axis in the same order.
    """
    joined: dict[int, int] = {}
    pairs = {(a, b) for axes in params.values() for axis in axes for a, b in _neighbours(axis)}
    for first, second in sorted(pairs):
        if first in joined or second in joined or first == second:
            continue
        if second not in beside.get(first, ()) or first not in beside.get(second, ()):
            continue
        if space.reason[first] is not None or space.reason[second] is not None:
            continue
        places = [
            (_count(axis, first), _count(axis, second), _adjacent(axis, first, second))
            for axes in params.values()
            for axis in axes
        ]
        if any(a != b or a != c for a, b, c in places):
            continue
        whole = space.fresh(space.sizes[first] * space.sizes[second])
        assert isinstance(whole, Leaf)
        joined[first] = joined[second] = whole.atom
        params = {
            path: tuple(_join(axis, first, second, whole.atom) for axis in axes)
            for path, axes in params.items()
        }
        around = (beside[first] | beside[second]) - {first, second}
        beside = {a: {joined.get(b, b) for b in others} for a, others in beside.items()}
        beside[whole.atom] = {joined.get(b, b) for b in around}
        return merged(space, params, beside)
    return params, beside


def _neighbours(label: Label):
    if isinstance(label, Product):
        for a, b in zip(label.factors, label.factors[1:], strict=False):
            if isinstance(a, Leaf) and isinstance(b, Leaf):
                yield a.atom, b.atom
    for part in parts(label):
        yield from _neighbours(part)


def _adjacent(label: Label, first: int, second: int) -> int:
    return sum(pair == (first, second) for pair in _neighbours(label))


def _count(label: Label, atom: int) -> int:
    return sum(leaf.atom == atom for leaf in leaves(label))


def _join(label: Label, first: int, second: int, whole: int) -> Label:
    if isinstance(label, Product):
        factors, rest = [], list(label.factors)
        while rest:
            part = rest.pop(0)
            after = rest[0] if rest else None
            pair = isinstance(part, Leaf) and isinstance(after, Leaf)
            if pair and (part.atom, after.atom) == (first, second):  # pyright: ignore
                rest.pop(0)
                part = Leaf(whole, part.form)  # pyright: ignore
            factors.append(_join(part, first, second, whole))
        return factors[0] if len(factors) == 1 else Product(tuple(factors))
    if isinstance(label, Sum):
        return Sum(tuple(_join(part, first, second, whole) for part in label.segments))
    return rebuild(label, lambda leaf: leaf)
