"""Making two labels of one axis the same: the meeting of two arrays in an operation."""

from credax.structure.labels import (
    ONE,
    Atoms,
    Combine,
    Label,
    Leaf,
    Product,
    Sum,
    Uniform,
    leaves,
    rebuild,
    with_form,
)

_INCOMPATIBLE = "incompatible axes"


def unify(space: Atoms, left: Label, right: Label, combine: Combine) -> Label:
    """The common label of an axis of two arrays; ``combine`` says how degrees meet.

    Uniform yields to anything; atoms are joined or refined; products are matched factor by factor
    and sums segment by segment, cutting atoms where a boundary asks for it.
    """
    left, right = space.resolve(left), space.resolve(right)
    if isinstance(left, Uniform) and isinstance(right, Uniform):
        combine(left, right)
        return Uniform(left.size, left.zero and right.zero)
    if isinstance(left, Uniform):
        return _against_uniform(space, right, left, lambda leaf, flat: combine(flat, leaf))
    if isinstance(right, Uniform):
        return _against_uniform(space, left, right, combine)
    if isinstance(left, Leaf) and isinstance(right, Leaf):
        space.join(left, right)
        return Leaf(space.find(left.atom), combine(left, right))
    if isinstance(left, Leaf) or isinstance(right, Leaf):
        leaf, other = (left, right) if isinstance(left, Leaf) else (right, left)
        if space.refine(leaf, other):  # pyright: ignore
            return unify(space, left, right, combine)
        return _pinned(space, left, right)
    if isinstance(left, Product) and isinstance(right, Product):
        return _products(space, left, right, combine)
    if isinstance(left, Sum) and isinstance(right, Sum):
        return _sums(space, left, right, combine)
    return _sum_product(space, left, right, combine)


def _against_uniform(space: Atoms, label: Label, flat: Uniform, combine: Combine) -> Label:
    def meet(part):
        form = combine(part, Uniform(space.size(part), flat.zero))
        return Leaf(part.atom, form) if isinstance(part, Leaf) else Uniform(part.size)

    return rebuild(label, meet)


def _pinned(space: Atoms, left: Label, right: Label) -> Label:
    for label in (left, right):
        space.pin(label, _INCOMPATIBLE)
    return with_form(left, {})


def _products(space: Atoms, left: Product, right: Product, combine: Combine) -> Label:
    ours, theirs, done = list(left.factors), list(right.factors), []
    while ours and theirs:
        a, b = ours.pop(0), theirs.pop(0)
        small, large = sorted((space.size(a), space.size(b)))
        if large % small:
            return _pinned(space, left, right)
        if space.size(a) > small:
            a, rest = space.cut_product(a, small)
            ours.insert(0, rest)
        elif space.size(b) > small:
            b, rest = space.cut_product(b, small)
            theirs.insert(0, rest)
        done.append(unify(space, a, b, combine))
        ours, theirs = (_flat(space, Product(tuple(rest))) for rest in (ours, theirs))
    if ours or theirs:
        return _pinned(space, left, right)
    return space.resolve(Product(tuple(done)))


def _flat(space: Atoms, label: Product) -> list[Label]:
    """What is left to match, as factors: a cut may have refined an atom further on."""
    resolved = space.resolve(label)
    if resolved == ONE:
        return []
    return list(resolved.factors) if isinstance(resolved, Product) else [resolved]


def _sums(space: Atoms, left: Sum, right: Sum, combine: Combine) -> Label:
    ours, theirs, done = list(left.segments), list(right.segments), []
    while ours and theirs:
        a, b = ours.pop(0), theirs.pop(0)
        small, large = sorted((space.size(a), space.size(b)))
        if small < large:
            long, shorter, longer = (
                (b, ours, theirs) if space.size(b) > small else (a, theirs, ours)
            )
            short = a if long is b else b
            if not isinstance(space.resolve(long), Leaf | Uniform):
                gathered = _gather(space, short, shorter, large)
                if gathered is not None:
                    done.append(unify(space, gathered, long, combine))
                    continue
            long, rest = space.cut_sum(long, small)
            longer.insert(0, rest)
            a, b = (short, long) if longer is theirs else (long, short)
        done.append(unify(space, a, b, combine))
    return space.resolve(Sum(tuple(done)))


def _gather(space: Atoms, first: Label, others: list[Label], size: int) -> Label | None:
    """Short segments that together are as long as a long one, taken off the list; None if none."""
    taken, total = [first], space.size(first)
    for segment in others:
        if total >= size:
            break
        taken.append(segment)
        total += space.size(segment)
    if total != size:
        return None
    del others[: len(taken) - 1]
    return Sum(tuple(taken))


def _sum_product(space: Atoms, left: Label, right: Label, combine: Combine) -> Label:
    total, product = (left, right) if isinstance(left, Sum) else (right, left)
    assert isinstance(total, Sum)
    assert isinstance(product, Product)
    outer, inner = product.factors[0], space.resolve(Product(product.factors[1:]))
    same = len({repr(with_form(segment, {})) for segment in total.segments}) == 1
    divides = all(space.size(segment) % space.size(inner) == 0 for segment in total.segments)
    if isinstance(outer, Leaf) and not space.is_pinned(outer) and divides and not same:
        sizes = [space.size(segment) // space.size(inner) for segment in total.segments]
        if len(sizes) > 1 and any(leaves(outer)):
            space.refine(outer, Sum(tuple(space.fresh(size) for size in sizes)))
    outer = space.resolve(outer)
    if isinstance(outer, Sum):
        pieces = tuple(Product((segment, inner)) for segment in outer.segments)
        expanded = Sum(tuple(space.resolve(piece) for piece in pieces))
    else:
        expanded = space.copies(product)
    first, second = (total, expanded) if total is left else (expanded, total)
    if isinstance(space.resolve(expanded), Product):
        return unify(space, first, second, combine)
    return _sums(space, Sum(_segments(space, first)), Sum(_segments(space, second)), combine)


def _segments(space: Atoms, label: Label) -> tuple[Label, ...]:
    resolved = space.resolve(label)
    return resolved.segments if isinstance(resolved, Sum) else (resolved,)
