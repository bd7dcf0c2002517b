"""Rules for loops and branches, which contain computations of their own."""

from collections.abc import Callable
from fractions import Fraction

from credax.structure.labels import Leaf, Uniform, rebuild
from credax.structure.values import Context, Value

MOST_ROUNDS = 8
Run = Callable[..., list[Value]]


def _carry(context: Context, label, slot):
    """A carried axis has a degree of its own, which its start and its end must equal."""
    count = iter(range(10**6))
    place = (*context.stack, slot)

    def mark(leaf):
        if isinstance(leaf, Uniform):
            return context.fresh(leaf.size, None, ("carry", slot, next(count)))
        return Leaf(leaf.atom, {("carry", place, next(count)): Fraction(1)})

    return rebuild(context.space.resolve(label), mark)


def scan_(context: Context, equation, values: list[Value], run: Run) -> list[Value]:
    """A loop over slices: carries keep their axes, slices lose the pinned scan axis."""
    params = equation.params
    consts, carries = params["num_consts"], params["num_carry"]
    length = context.fresh(params["length"], "steps of a loop", "scan")
    starts = values[consts : consts + carries]
    slices = []
    for value in values[consts + carries :]:
        context.unify(value.axes[0], length, lambda a, b: {})
        context.space.pin(value.axes[0], "steps of a loop")
        context.unscaled(value.axes[0])
        if value.origin is not None and value.where and value.where[0] is not None:
            context.records.axis_roles[value.origin, value.where[0]] = "stacked"
        slices.append(value.relabelled(value.axes[1:], value.where[1:])._replace(const=None))
    ends, outputs = _loop(context, params["jaxpr"], values[:consts], starts, slices, length, run)
    stacked = [value._replace(axes=(length, *value.axes), origin=None) for value in outputs]
    return [*ends, *stacked]


def _loop(context: Context, body, consts, starts, slices, length, run: Run):
    """A body run until its carried axes stay as they are."""
    carried = [
        Value(tuple(_carry(context, label, (i, j)) for j, label in enumerate(value.axes)))
        for i, value in enumerate(starts)
    ]
    carried = [value._replace(data=True) for value in carried]
    for start, value in zip(starts, carried, strict=True):
        _tie(context, start, value)
    scans, context.scans = (
        context.scans,
        (
            *context.scans,
            (length, tuple(label for v in (*consts, *carried) for label in v.axes)),
        ),
    )
    results: list[Value] = []
    for _ in range(MOST_ROUNDS):
        before = context.space.changes
        results = _body(context, body, [*consts, *carried, *slices], len(consts), run)
        ends = results[: len(starts)]
        for end, value in zip(ends, carried, strict=True):
            _tie(context, end, value)
        if context.space.changes == before:
            break
    context.scans = scans
    return carried, results[len(starts) :]


def _body(context: Context, body, values: list[Value], consts: int, run: Run) -> list[Value]:
    """The body, after noting that its constants are read again and again."""
    for value in values[:consts]:
        if value.origin is not None:
            context.records.uses[value.origin] += 1
    return run(context, body, values)


def _tie(context: Context, value: Value, carried: Value) -> None:
    """A carried array at the start or the end of a step is the carried array."""
    for label, own in zip(value.axes, carried.axes, strict=True):
        if value.const == 0:
            label = Uniform(context.space.size(label), True)
        context.unify(own, label, context.same)


def while_(context: Context, equation, values: list[Value], run: Run) -> list[Value]:
    """A loop of unknown length: as a scan without slices; its test does not scale."""
    params = equation.params
    first, second = params["cond_nconsts"], params["body_nconsts"]
    test, consts, starts = values[:first], values[first : first + second], values[first + second :]
    length = context.fresh(2, "steps of a loop", "while")
    ends, _ = _loop(context, params["body_jaxpr"], consts, starts, [], length, run)
    stack, context.stack = context.stack, (*context.stack, "test")
    for value in run(context, params["cond_jaxpr"], [*test, *ends]):
        for label in value.axes:
            context.unscaled(label)
    context.stack = stack
    return ends


def cond_(context: Context, equation, values: list[Value], run: Run) -> list[Value]:
    """Branches with the same axes; of branches by platform, only the default."""
    branches, stack = equation.params["branches"], context.stack
    if equation.params.get("branches_platforms"):
        return run(context, branches[-1], values[1:])
    if values[0].const is not None:
        return run(context, branches[int(values[0].const)], values[1:])
    results = []
    for number, branch in enumerate(branches):
        context.stack = (*stack, ("branch", number))
        results.append(run(context, branch, values[1:]))
    context.stack = stack
    joined = []
    for same in zip(*results, strict=True):
        axes = same[0].axes
        for other in same[1:]:
            axes = tuple(
                context.unify(a, b, context.same) for a, b in zip(axes, other.axes, strict=True)
            )
        joined.append(Value(axes, data=any(value.data for value in same)))
    return joined
