"""Rules for sums over axes: products, convolutions, reductions, windows, sorting."""

from credax.structure.labels import ONE, Label, Product, Uniform
from credax.structure.rules_elementwise import shape_of
from credax.structure.rules_shape import pinned
from credax.structure.values import Context, Value


def _result(left: Value, right: Value) -> frozenset:
    """The tag of a parameter's product with an activation, which waits for a bias."""
    paths = []
    if left.origin is not None and right.data:
        paths.append(left.origin)
    if right.origin is not None and left.data:
        paths.append(right.origin)
    return frozenset(("result", path) for path in paths)


def dot_general(context: Context, equation, values: list[Value]) -> list[Value]:
    """Contracted axes are the same and their degrees cancel; free axes are carried."""
    left, right = values
    (contract_left, contract_right), (batch_left, batch_right) = equation.params[
        "dimension_numbers"
    ]
    for value, other, contracted in ((left, right, contract_left), (right, left, contract_right)):
        if other.data:
            roles = dict.fromkeys(range(len(value.axes)), "output")
            context.read(value, {**roles, **dict.fromkeys(contracted, "input")})
    batch = [
        context.unify(left.axes[i], right.axes[j], context.product)
        for i, j in zip(batch_left, batch_right, strict=True)
    ]
    summed = [
        context.unify(left.axes[i], right.axes[j], context.contracted)
        for i, j in zip(contract_left, contract_right, strict=True)
    ]
    free_left = _others(left, contract_left, batch_left)
    free_right = _others(right, contract_right, batch_right)
    context.records.seen.append(((*batch, *summed, *free_left, *free_right), context.scans))
    data = left.data or right.data
    return [Value((*batch, *free_left, *free_right), data=data, tags=_result(left, right))]


def _others(value: Value, *gone) -> list[Label]:
    dropped = {i for axes in gone for i in axes}
    return [label for i, label in enumerate(value.axes) if i not in dropped]


def convolution(context: Context, equation, values: list[Value]) -> list[Value]:
    """Input channels are contracted, output channels are the kernel's, positions are pinned."""
    left, kernel = values
    numbers, groups = equation.params["dimension_numbers"], equation.params["feature_group_count"]
    if equation.params["batch_group_count"] != 1:
        return []  # not known: the caller reports it
    lhs, rhs, out = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    if left.data:
        roles = {rhs[0]: "output", rhs[1]: "input", **dict.fromkeys(rhs[2:], "window")}
        context.read(kernel, roles, groups)
    elif kernel.data:
        context.read(left, {lhs[1]: "input", **dict.fromkeys(lhs[2:], "window")})
    for value, spec, reason in ((left, lhs, "positions"), (kernel, rhs, "a window")):
        for axis in spec[2:]:
            context.space.pin(context.unscaled(value.axes[axis]), reason)
    incoming, inner, outgoing = left.axes[lhs[1]], kernel.axes[rhs[1]], kernel.axes[rhs[0]]
    if groups == 1:
        summed = context.unify(incoming, inner, context.contracted)
        features: Label = outgoing
    else:
        summed, features = _grouped(context, incoming, inner, outgoing, groups)
    axes: list[Label] = [ONE] * len(out)
    axes[out[0]], axes[out[1]] = left.axes[lhs[0]], features
    for axis in out[2:]:
        size = shape_of(equation.outvars[0])[axis]
        axes[axis] = pinned(context, size, "positions", ("position", axis))
    context.records.seen.append(((axes[out[0]], summed, features), context.scans))
    data = left.data or kernel.data
    return [Value(tuple(axes), data=data, tags=_result(left, kernel))]


def _grouped(context: Context, incoming, inner, outgoing, groups) -> tuple[Label, Label]:
    """A grouped convolution: channels are (group, channel), and only the channel is contracted."""
    space = context.space
    group = context.fresh(groups, None, "group")
    each = space.size(outgoing) // groups
    rest = context.fresh(each, None, "channel")
    incoming = _split(context, incoming, Product((group, context.without_form(inner))))
    outgoing = _split(context, outgoing, Product((group, rest)))
    left_group, channels = _outer(context, incoming, groups)
    right_group, features = _outer(context, outgoing, groups)
    summed = context.unify(channels, inner, context.contracted)
    shared = context.unify(left_group, right_group, context.product)
    return summed, space.resolve(Product((shared, features)))


def _split(context: Context, label: Label, pattern: Product) -> Label:
    """The label cut as the pattern asks, with its own degrees."""

    def own(mine, _):
        return mine.form if not isinstance(mine, Uniform) else {}

    return context.unify(label, pattern, own)


def _outer(context: Context, label: Label, groups: int) -> tuple[Label, Label]:
    """The group factor of an axis and what is inside it."""
    space = context.space
    label = space.resolve(label)
    factors = list(label.factors) if isinstance(label, Product) else [label]
    outer: list[Label] = []
    while space.size(Product(tuple(outer))) < groups and factors:
        outer.append(factors.pop(0))
    if space.size(Product(tuple(outer))) != groups:
        reason = "channels of a grouped convolution cut across groups"
        space.pin(label, reason)
        inner = space.size(label) // groups
        return pinned(context, groups, reason, "lost"), pinned(context, inner, reason, "lost inner")
    return space.resolve(Product(tuple(outer))), space.resolve(Product(tuple(factors)))


def reduction(context: Context, equation, values: list[Value]) -> list[Value]:
    """Reduced axes do not scale; the reduction does not see their order."""
    gone = set(equation.params["axes"])
    value = values[0]
    for axis in gone:
        context.unscaled(value.axes[axis])
    kept = [label for i, label in enumerate(value.axes) if i not in gone]
    const = 0.0 if value.const == 0 else None
    data = any(v.data for v in values)
    if equation.primitive.name == "reduce_prod":
        kept = [context.unscaled(label) for label in kept]
    return [Value(tuple(kept), const, data=data) for _ in equation.outvars]


def ordered(context: Context, equation, values: list[Value]) -> list[Value]:
    """Operations that tell the indices of an axis apart: argmax, cumulative sums, sorting."""
    params, name = equation.params, equation.primitive.name
    results = []
    if name in ("argmax", "argmin"):
        axes = tuple(params["axes"])
    elif name == "top_k":
        axes = (params.get("axis", -1) % len(values[0].axes),)
    else:
        axes = (params.get("axis", params.get("dimension")) % len(values[0].axes),)
    for value in values:
        for axis in axes:
            context.space.pin(
                context.unscaled(value.axes[axis]), f"`{name}` tells its indices apart"
            )
    data = any(value.data for value in values)
    for number, variable in enumerate(equation.outvars):
        labels = list(values[min(number, len(values) - 1)].axes)
        if name in ("argmax", "argmin"):
            labels = [context.unscaled(a) for i, a in enumerate(labels) if i not in axes]
        if name == "top_k":
            size = shape_of(variable)[axes[0]]
            labels[axes[0]] = pinned(context, size, "the largest entries", "top")
        if name in ("cumprod", "cumlogsumexp"):
            labels = [context.unscaled(label) for label in labels]
        if name == "sort":
            labels = [
                context.unify(a, b, context.inert)
                for a, b in zip(labels, values[0].axes, strict=True)
            ]
        results.append(Value(tuple(labels), data=data))
    return results


def window(context: Context, equation, values: list[Value]) -> list[Value]:
    """Pooling: axes with a window of one are carried, others pinned."""
    params, value = equation.params, values[0]
    sizes = params["window_dimensions"]
    plain = zip(
        sizes,
        params["window_strides"],
        params["padding"],
        params["base_dilation"],
        params["window_dilation"],
        strict=True,
    )
    axes = []
    for i, (size, stride, padding, *dilation) in enumerate(plain):
        if size == 1 and stride == 1 and not any(padding) and dilation[0] == 1:
            axes.append(value.axes[i])
            continue
        reason = "positions"
        context.space.pin(context.unscaled(value.axes[i]), reason)
        length = shape_of(equation.outvars[0])[i]
        axes.append(pinned(context, length, reason, ("window", i)))
    if equation.primitive.name == "reduce_window":  # with any function at all
        axes = [context.unscaled(label) for label in axes]
    return [Value(tuple(axes), data=value.data)]
