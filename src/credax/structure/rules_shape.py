"""Rules for operations that move numbers: reshape, transpose, concatenate, slice, pad, gather."""

from credax.structure.labels import ONE, Label, Product, Sum, Uniform
from credax.structure.rules_elementwise import shape_of
from credax.structure.values import Context, Value


def pinned(context: Context, size: int, reason: str, slot) -> Label:
    """A new axis without symmetry."""
    return context.fresh(size, reason, slot)


def broadcast_in_dim(context: Context, equation, values: list[Value]) -> list[Value]:
    """New and stretched axes are uniform."""
    value, shape = values[0], shape_of(equation.outvars[0])
    axes: list[Label] = [ONE if size == 1 else Uniform(size) for size in shape]
    where: list[int | None] = [None] * len(shape)
    kept = equation.params["broadcast_dimensions"]
    for source, target in enumerate(kept):
        if context.space.size(value.axes[source]) == shape[target]:
            axes[target] = value.axes[source]
            where[target] = value.where[source] if value.where else None
    return [value.relabelled(axes, where)]


def transpose(context: Context, equation, values: list[Value]) -> list[Value]:
    """Axes in another order."""
    del context
    value, order = values[0], equation.params["permutation"]
    where = [value.where[i] for i in order] if value.where else None
    return [value.relabelled([value.axes[i] for i in order], where)]


def squeeze(context: Context, equation, values: list[Value]) -> list[Value]:
    """Axes of size 1 dropped."""
    del context
    value, gone = values[0], {d % len(values[0].axes) for d in equation.params["dimensions"]}
    kept = [i for i in range(len(value.axes)) if i not in gone]
    where = [value.where[i] for i in kept] if value.where else None
    return [value.relabelled([value.axes[i] for i in kept], where)]


def expand_dims(context: Context, equation, values: list[Value]) -> list[Value]:
    """Axes of size 1 put in."""
    del context
    value, shape = values[0], shape_of(equation.outvars[0])
    new = {d % len(shape) for d in equation.params["dimensions"]}
    axes, old = [], iter(value.axes)
    for i in range(len(shape)):
        axes.append(ONE if i in new else next(old))
    return [value.relabelled(axes)]


def reshape(context: Context, equation, values: list[Value]) -> list[Value]:
    """Factors merged into products and cut apart again; a cut that does not divide pins."""
    value, shape = values[0], shape_of(equation.outvars[0])
    axes = reshaped(context, value.axes, shape)
    before = [context.space.size(axis) for axis in value.axes]
    return [value.relabelled(axes, _followed(before, shape, value.where))]


def _followed(before, after, where):
    """Which old axis each new one is, where sizes other than 1 come in the same order."""
    if [size for size in before if size != 1] != [size for size in after if size != 1]:
        return None
    if not where:
        return None
    if len(before) == len(after):
        return list(where)
    kept = iter([axis for axis, size in zip(where, before, strict=True) if size != 1])
    return [None if size == 1 else next(kept) for size in after]


def reshaped(context: Context, axes, shape) -> list[Label]:
    """Labels of the axes after a row-major reshape."""
    space, factors, result = context.space, [], []
    for axis in axes:
        label = space.resolve(axis)
        factors.extend(label.factors if isinstance(label, Product) else [label])
    for size in shape:
        taken, total = [], 1
        while total < size:
            factor = factors.pop(0)
            length = space.size(factor)
            if (size // total) % length and (length % (size // total) or size % total):
                return _given_up(context, axes, shape)
            if total * length > size:
                outer, inner = space.cut_product(factor, size // total)
                factors.insert(0, inner)
                factor, length = outer, size // total
            taken.append(factor)
            total *= length
        if total != size:
            return _given_up(context, axes, shape)
        result.append(space.resolve(Product(tuple(taken))))
    return result


def _given_up(context: Context, axes, shape) -> list[Label]:
    reason = "a reshape cuts across this axis"
    for axis in axes:
        context.space.pin(axis, reason)
    return [pinned(context, size, reason, ("reshape", i)) for i, size in enumerate(shape)]


def concatenate(context: Context, equation, values: list[Value]) -> list[Value]:
    """The sum of labels along one axis; the other axes are the same."""
    axis, space = equation.params["dimension"], context.space
    axes = list(values[0].axes)
    for value in values[1:]:
        for i, label in enumerate(value.axes):
            if i != axis:
                axes[i] = context.unify(axes[i], label, context.same)
    segments = tuple(_segment(context, value, axis) for value in values)
    if all(space.is_pinned(segment) for segment in segments):
        size = shape_of(equation.outvars[0])[axis]
        label = Uniform(size) if _flat(segments) else pinned(context, size, "data", "joined")
    else:
        label = space.resolve(Sum(segments))
    axes[axis] = label
    data = any(value.data for value in values)
    consts = {value.const for value in values}
    return [Value(tuple(axes), consts.pop() if len(consts) == 1 else None, data=data)]


def _segment(context: Context, value: Value, axis: int) -> Label:
    label = value.axes[axis]
    if value.const == 0:
        return Uniform(context.space.size(label), True)
    return label


def _flat(segments) -> bool:
    return all(isinstance(segment, Uniform) and segment.zero for segment in segments)


def stack(context: Context, equation, values: list[Value]) -> list[Value]:
    """A new axis whose indices are told apart."""
    axis = equation.params["axis"]
    axes = list(values[0].axes)
    for value in values[1:]:
        axes = [context.unify(a, b, context.same) for a, b in zip(axes, value.axes, strict=True)]
    axes.insert(axis, pinned(context, len(values), "stacked arrays", "stack"))
    return [Value(tuple(axes), data=any(value.data for value in values))]


def split(context: Context, equation, values: list[Value]) -> list[Value]:
    """An axis cut into segments."""
    value, axis = values[0], equation.params["axis"]
    rest, pieces = value.axes[axis], []
    for number, size in enumerate(equation.params["sizes"][:-1]):
        piece, rest = cut(context, rest, int(size), ("split", number))
        pieces.append(piece)
    return [
        Value((*value.axes[:axis], piece, *value.axes[axis + 1 :]), value.const, data=value.data)
        for piece in [*pieces, rest]
    ]


def cut(context: Context, label: Label, first: int, slot) -> tuple[Label, Label]:
    """The first indices of an axis and the rest; a pinned axis gives pinned pieces."""
    space = context.space
    label = space.resolve(label)
    size = space.size(label)
    if first == 0 or first == size:
        return (label, Uniform(0)) if first else (Uniform(0), label)
    if not isinstance(label, Uniform) and space.is_pinned(label):
        both = ((first, "head"), (size - first, "tail"))
        return tuple(pinned(context, n, "data", (slot, side)) for n, side in both)  # pyright: ignore
    return space.cut_sum(label, first)


def slice_(context: Context, equation, values: list[Value]) -> list[Value]:
    """A range of indices; a stride pins."""
    value, params = values[0], equation.params
    strides = params["strides"] or (1,) * len(value.axes)
    axes = []
    for i, (label, start, stop, stride) in enumerate(
        zip(value.axes, params["start_indices"], params["limit_indices"], strides, strict=True)
    ):
        size = context.space.size(label)
        if (start, stop, stride) == (0, size, 1):
            axes.append(label)
        elif stride != 1:
            length = shape_of(equation.outvars[0])[i]
            axes.append(
                _selected(context, label, length, "a slice takes every second, third, ...", i)
            )
        else:
            tail = cut(context, label, start, ("slice", i, 0))[1]
            axes.append(cut(context, tail, stop - start, ("slice", i, 1))[0])
    return [Value(tuple(axes), value.const, data=value.data)]


def _selected(context: Context, label: Label, size: int, reason: str, slot) -> Label:
    """An axis of which some indices are taken, told apart."""
    if isinstance(context.space.resolve(label), Uniform):
        return Uniform(size)
    context.space.pin(label, reason)
    return pinned(context, size, reason, ("selected", slot))


def pad(context: Context, equation, values: list[Value]) -> list[Value]:
    """Segments of the padding value around an axis; interior or negative padding pins."""
    value, filling = values
    axes = []
    for i, (label, config) in enumerate(
        zip(value.axes, equation.params["padding_config"], strict=True)
    ):
        low, high, interior = (int(number) for number in config)
        size = shape_of(equation.outvars[0])[i]
        if (low, high, interior) == (0, 0, 0):
            axes.append(label)
        elif interior or low < 0 or high < 0 or context.space.is_pinned(label):
            axes.append(_selected(context, label, size, "padding inside an axis", ("pad", i)))
        else:
            around = [Uniform(n, filling.const == 0) for n in (low, high)]
            axes.append(context.space.resolve(Sum((around[0], label, around[1]))))
    same = value.const if value.const == filling.const else None
    return [Value(tuple(axes), same, data=value.data or filling.data)]


def iota(context: Context, equation, values: list[Value]) -> list[Value]:
    """Numbers that tell the indices of one axis apart."""
    del values
    shape, axis = shape_of(equation.outvars[0]), equation.params["dimension"]
    axes = [Uniform(size) for size in shape]
    if shape[axis] != 1:
        axes[axis] = pinned(context, shape[axis], "numbered indices", "iota")  # pyright: ignore
    return [Value(tuple(axes))]


def gather(context: Context, equation, values: list[Value]) -> list[Value]:
    """Axes taken whole are carried, indexed axes pinned."""
    operand, indices = values
    params, shape = equation.params["dimension_numbers"], shape_of(equation.outvars[0])
    sizes, reason = equation.params["slice_sizes"], "entries are looked up by index"
    dropped = set(params.collapsed_slice_dims) | set(params.operand_batching_dims)
    windows = [i for i in range(len(operand.axes)) if i not in dropped]
    axes: list[Label] = [ONE] * len(shape)
    for source, target in zip(windows, params.offset_dims, strict=True):
        label = operand.axes[source]
        if sizes[source] == context.space.size(label):
            axes[target] = label
        else:
            axes[target] = _selected(context, label, shape[target], reason, ("gather", target))
    for source in dropped:
        context.space.pin(operand.axes[source], reason)
    for axis in indices.axes:
        context.unscaled(axis)
    batch = [i for i in range(len(shape)) if i not in params.offset_dims]
    for source, target in enumerate(batch):
        axes[target] = context.without_form(indices.axes[source])
    return [Value(tuple(axes), data=operand.data or indices.data)]


def dynamic_slice(context: Context, equation, values: list[Value]) -> list[Value]:
    """Axes taken whole are carried, others pinned."""
    value, shape = values[0], shape_of(equation.outvars[0])
    axes = [
        label
        if context.space.size(label) == size
        else _selected(context, label, size, "a slice that moves", ("dynamic", i))
        for i, (label, size) in enumerate(zip(value.axes, shape, strict=True))
    ]
    return [Value(tuple(axes), value.const, data=any(v.data for v in values))]


def dynamic_update_slice(context: Context, equation, values: list[Value]) -> list[Value]:
    """Axes written whole are the same axis, others pinned."""
    value, update, shape = *values[:2], shape_of(equation.outvars[0])
    axes = []
    for i, (label, new, size) in enumerate(zip(value.axes, update.axes, shape, strict=True)):
        if context.space.size(new) == size:
            axes.append(context.unify(label, new, context.same))
        else:
            axes.append(_written(context, (label, new), size, ("update", i)))
    return [Value(tuple(axes), data=any(v.data for v in values))]


def _written(context: Context, labels: tuple[Label, ...], size: int, slot) -> Label:
    """An axis some of whose indices are written: told apart, though it was uniform before."""
    for label in labels:
        context.space.pin(label, "written at an index")
    return pinned(context, size, "written at an index", ("written", slot))


def scatter(context: Context, equation, values: list[Value]) -> list[Value]:
    """Axes written whole are the same axis as the update's, indexed axes pinned.

    For writing, adding, least and greatest: what is there and what is written scale alike, unless
    what is there is zero.
    """
    operand, indices, update = values
    params, shape = equation.params["dimension_numbers"], shape_of(equation.outvars[0])
    batching = list(params.operand_batching_dims)
    gone = set(params.inserted_window_dims) | set(batching)
    windows = [i for i in range(len(shape)) if i not in gone]
    pairs = dict(zip(windows, params.update_window_dims, strict=True))
    fixed = operand.const not in (None, 0)
    axes: list[Label] = []
    for i, (label, size) in enumerate(zip(operand.axes, shape, strict=True)):
        new = update.axes[pairs[i]] if i in pairs else None
        if new is not None and context.space.size(new) == size:
            new = context.unscaled(new) if fixed else new
            zero = operand.const == 0
            axes.append(new if zero else context.unify(label, new, context.same))
        else:
            both = (label,) if new is None else (label, new)
            axes.append(_written(context, both, size, ("scatter", i)))
    for axis in indices.axes:
        context.unscaled(axis)
    for i, label in enumerate(update.axes):
        if i not in params.update_window_dims:
            context.space.pin(label, "written at an index")
    return [Value(tuple(axes), data=any(v.data for v in values))]


def reverse(context: Context, equation, values: list[Value]) -> list[Value]:
    """A reversed axis is pinned."""
    value = values[0]
    for axis in equation.params["dimensions"]:
        context.space.pin(context.unscaled(value.axes[axis]), "a reversed axis")
    return [Value(value.axes, value.const, data=value.data)]
