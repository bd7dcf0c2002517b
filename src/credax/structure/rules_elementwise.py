"""Rules for operations that act on each number: how labels meet and degrees combine."""

import math
import operator
from fractions import Fraction

from credax.structure.labels import Leaf, Uniform
from credax.structure.values import Context, Value, is_free, named

RELABEL = {"copy", "copy_p", "stop_gradient", "optimization_barrier", "reduce_precision"}
SAME_DEGREE = {"neg", "abs", "real", "conj"}
STEPS = {"sign", "is_finite", "not", "population_count", "clz"}
POWERS = {
    "sqrt": Fraction(1, 2),
    "rsqrt": Fraction(-1, 2),
    "cbrt": Fraction(1, 3),
    "square": Fraction(2),
}
CURVED = {
    *("exp", "exp2", "expm1", "log", "log1p", "logistic", "tanh", "erf", "erfc", "erf_inv", "sin"),
    *("cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "lgamma"),
    *("digamma", "floor", "ceil", "round", "imag", "bessel_i0e", "bessel_i1e"),
}
CURVED_PAIRS = {
    *("atan2", "rem", "nextafter", "and", "or", "xor", "shift_left", "shift_right_logical"),
    *("shift_right_arithmetic", "complex", "igamma", "igammac", "polygamma", "zeta"),
}
COMPARISONS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
}
FOLDED = {
    "add": operator.add,
    "add_any": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "max": max,
    "min": min,
    "neg": operator.neg,
    "abs": abs,
    **COMPARISONS,
}


def shape_of(variable) -> tuple[int, ...]:
    """The shape of a variable of the computation."""
    return tuple(variable.aval.shape)


def aligned(context: Context, value: Value, shape: tuple[int, ...]) -> tuple:
    """The axes of an operand stretched to the result: size 1 and scalars are uniform."""
    axes = value.axes if value.axes else (Uniform(1),) * len(shape)
    return tuple(
        Uniform(size) if size != 1 and context.space.size(axis) == 1 else axis
        for axis, size in zip(axes, shape, strict=True)
    )


def meet(context: Context, values: list[Value], shape: tuple[int, ...], combine) -> tuple:
    """The axes of an elementwise result."""
    axes = aligned(context, values[0], shape)
    for value in values[1:]:
        others = aligned(context, value, shape)
        axes = tuple(context.unify(a, b, combine) for a, b in zip(axes, others, strict=True))
    return axes


def fold(name: str, values: list[Value]) -> float | None:
    """The number an operation on constants gives, where it is simple."""
    numbers = [value.const for value in values]
    if name not in FOLDED or any(number is None for number in numbers):
        return None
    return float(FOLDED[name](*numbers))


def unary(context: Context, equation, values: list[Value]) -> list[Value]:
    """Operations of one array, number by number."""
    (value,) = values
    name = equation.primitive.name
    if name == "convert_element_type":
        kinds = (equation.invars[0].aval.dtype.kind, equation.outvars[0].aval.dtype.kind)
        name = "copy" if kinds[0] == kinds[1] or value.const is not None else "floor"
        name = "copy" if kinds[1] == "f" else name
    if name in RELABEL:
        return [value]
    power = POWERS.get(name)
    if name == "integer_pow":
        power = Fraction(equation.params["y"])
    plain = Value(value.axes, fold(name, values), data=value.data)
    if power is not None:
        axes = tuple(context.scaled(axis, power) for axis in value.axes)
        rooted = frozenset(("variance", path) for path in named(value.tags, "from"))
        tags = rooted if name in ("sqrt", "rsqrt") else frozenset()
        return [plain._replace(axes=axes, tags=tags)]
    if name in SAME_DEGREE:
        return [plain]
    strip = context.without_form if name in STEPS else context.unscaled
    return [plain._replace(axes=tuple(map(strip, value.axes)))]


def power(context: Context, equation, values: list[Value]) -> list[Value]:
    """``x ** y``: a constant ``y`` multiplies the degree."""
    base, exponent = values
    if exponent.const is not None and math.isfinite(exponent.const):
        axes = aligned(context, base, shape_of(equation.outvars[0]))
        factor = Fraction(exponent.const).limit_denominator(1000)
        scaled = tuple(context.scaled(axis, factor) for axis in axes)
        return [Value(scaled, data=base.data)]
    return curved_pair(context, equation, values)


def curved_pair(context: Context, equation, values: list[Value]) -> list[Value]:
    """Operations of two arrays that allow no scaling."""
    shape = shape_of(equation.outvars[0])
    data = any(value.data for value in values)
    return [Value(meet(context, values, shape, context.inert), data=data)]


def additive(context: Context, equation, values: list[Value]) -> list[Value]:
    """Sums, differences, maxima and minima: degrees are equal."""
    name, shape = equation.primitive.name, shape_of(equation.outvars[0])
    left, right = (_ignored(context, value) for value in values)
    extreme = name in ("max", "min")
    data = left.data or right.data
    for one, other in ((left, right), (right, left)):
        if is_free(other.const, extreme) and one.const is None:
            axes = tuple(
                context.unify(a, Uniform(context.space.size(a), True), context.same)
                for a in aligned(context, one, shape)
            )
            if name in ("add", "add_any") or (name == "sub" and other is right):
                return [one._replace(axes=axes, where=_kept(one, shape))]
            return [Value(axes, data=data)]
        shifted = _shifted(context, name, one, other, shape, other is right)
        if shifted is not None:
            return [shifted]
    tags = _additive_tags(context, name, left, right)
    axes = meet(context, [left, right], shape, context.same)
    return [Value(axes, fold(name, values), data=data, tags=tags)]


def _kept(value: Value, shape) -> tuple:
    return value.where if len(value.where) == len(shape) else (None,) * len(shape)


def _ignored(context: Context, value: Value) -> Value:
    small = value.const is not None and 0 < abs(value.const) <= 1e-3
    if context.epsilon == "ignore" and small:
        context.records.ignored.add(abs(value.const))  # pyright: ignore
        return value._replace(const=0.0)
    return value


def _shifted(context: Context, name: str, one: Value, other: Value, shape, second: bool):
    """A parameter plus a number, and nothing else uses it: the pair is scaled as one."""
    number = other.const
    sign = {"add": 1, "sub": -1}.get(name)
    if number is None or not math.isfinite(number) or sign is None or (sign < 0 and not second):
        return None
    if one.origin is None or not one.pure or one.const is not None:
        return None
    if len(one.axes) != len(shape):
        return None
    if context.previous is not None and context.previous.uses[one.origin] != 1:
        return None
    context.records.shifts[one.origin] = sign * number
    return Value(one.axes, data=one.data, tags=one.tags)


def _additive_tags(context: Context, name: str, left: Value, right: Value) -> frozenset:
    if name == "sub":
        return frozenset(("mean", path) for path in named(right.tags, "from"))
    if name in ("add", "add_any"):
        for result, bias in ((left, right), (right, left)):
            paths = named(result.tags, "result")
            if paths and bias.origin is not None:
                for path in paths:
                    context.records.biases.setdefault(path, bias.origin)
            elif paths:
                # A sum of two results (a recurrent cell) still waits for its bias.
                return frozenset(t for v in (left, right) for t in v.tags if t[0] == "result")
        for kept, number in ((left, right), (right, left)):
            if number.const is not None:
                return frozenset(tag for tag in kept.tags if tag[0] == "from")
    return frozenset()


def multiplicative(context: Context, equation, values: list[Value]) -> list[Value]:
    """Products and quotients: degrees add or are subtracted."""
    name, shape = equation.primitive.name, shape_of(equation.outvars[0])
    left, right = values
    combine = context.product if name == "mul" else context.quotient
    axes = meet(context, values, shape, combine)
    for value, other in ((left, right), (right, left)):
        scalar = other.const is not None or not other.axes
        if scalar and value.const is None and (name == "mul" or value is left):
            kept = value._replace(axes=axes, pure=False, where=_kept(value, shape))
            origin = value.origin if other.const is not None else None
            return [kept._replace(origin=origin, data=left.data or right.data)]
    for value, other in ((left, right), (right, left)):
        if value.origin is not None and other.data:
            context.records.factors.add(value.origin)
    tags = left.tags | right.tags
    for mean in named(tags, "mean"):
        context.records.pairs |= {(mean, path) for path in named(tags, "variance")}
    tags = frozenset(tag for tag in tags if tag[0] in ("mean", "variance", "factor"))
    factors = {("factor", v.origin) for v in values if v.origin is not None}
    if left.data or right.data:
        context.records.factors |= {path for _, path in factors} | named(tags, "factor")
    return [Value(axes, fold(name, values), data=left.data or right.data, tags=tags | factors)]


def comparison(context: Context, equation, values: list[Value]) -> list[Value]:
    """Comparisons: equal degrees in (0 and ±inf compare with any), degree zero out."""
    left, right = values
    name, shape = equation.primitive.name, shape_of(equation.outvars[0])
    known = fold(name, values)
    if equation.invars[0] is equation.invars[1] and name in ("eq", "ne"):
        known = float(name == "eq")  # only NaN differs from itself
    free = any(is_free(value.const, True) for value in values)
    combine = (lambda a, b: {}) if free or known is not None else context.same
    axes = tuple(map(context.without_form, meet(context, [left, right], shape, combine)))
    return [Value(axes, known, data=left.data or right.data)]


def select(context: Context, equation, values: list[Value]) -> list[Value]:
    """A choice: the predicate does not scale, the cases scale alike."""
    which, *cases = values
    shape = shape_of(equation.outvars[0])
    if which.const is not None:
        chosen = cases[int(which.const)]
        return [chosen._replace(axes=aligned(context, chosen, shape), where=_kept(chosen, shape))]
    for axis in which.axes:
        context.unscaled(axis)
    predicate = Value(tuple(map(context.without_form, aligned(context, which, shape))))
    known = [case for case in cases if not is_free(case.const, True)] or cases[:1]
    free = [case for case in cases if not any(case is other for other in known)]
    axes = meet(context, known, shape, context.same)
    for other in [predicate, *free]:
        stretched = aligned(context, other, shape)
        axes = tuple(
            context.unify(a, b, lambda x, _: x.form if isinstance(x, Leaf) else {})
            for a, b in zip(axes, stretched, strict=True)
        )
    same = cases[0].const if len({case.const for case in cases}) == 1 else None
    return [Value(axes, same, data=any(value.data for value in values))]


def clamp(context: Context, equation, values: list[Value]) -> list[Value]:
    """A value between bounds: bounds other than 0 and ±inf allow no scaling."""
    low, value, high = values
    shape = shape_of(equation.outvars[0])
    axes = value.axes
    for bound in (low, high):
        if not is_free(bound.const, True):
            axes = meet(context, [Value(axes), bound], shape, context.same)
    return [Value(axes, data=any(v.data for v in values))]
