"""Reads off a traced computation which axis of which array is which group of hidden units.

The only file of credax that imports `jax.extend`.
"""

import contextlib
import dataclasses
from fractions import Fraction
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from credax.errors import InputError
from credax.files import tree_names
from credax.network import Network, Variables
from credax.networks.convolution import using_implementation
from credax.structure.build import build
from credax.structure.groups import Structure
from credax.structure.labels import Atoms, Leaf, Uniform, leaves, rebuild
from credax.structure.rules import RULES
from credax.structure.rules_control import cond_, scan_, while_
from credax.structure.values import Context, Records, StructureError, Value, constant
from credax.structure.verify import has_single, verify_structure

MOST_PASSES = 8
_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_CONTROL = {"scan": scan_, "while": while_, "cond": cond_}


def trace(
    network: Network,
    variables: Variables,
    x: Any,
    *,
    on_unknown: str = "raise",
    epsilon: str = "exact",
    statistics: str = "consistent",
    verify: bool = True,
) -> Structure:
    """The symmetries of a network, read off its computation in evaluation mode.

    - ``variables`` and ``x``: arrays or ``jax.ShapeDtypeStruct``; only their shapes are used.
    - ``on_unknown``: "raise" an error at an operation that cannot be followed, or "pin" what it
      touches, which loses symmetries and is always right.
    - ``epsilon``: "exact", or "ignore" numbers up to 1e-3 that are added (the error is measured).
    - ``statistics``: whether running statistics are those of the rescaled network ("consistent"),
      stay ("held"), or are on their own ("free").
    - ``verify``: check in float64 that a random symmetry leaves random outputs as they are.

    Cost: one trace, a few passes over its equations, and two evaluations.

    >>> import credax as cx
    >>> network = cx.networks.MLP((5, 6), outputs=3)
    >>> x = jax.ShapeDtypeStruct((2, 7), "float32")
    >>> structure = trace(network, jax.eval_shape(network.init, jax.random.key(0), x), x)
    >>> [(group.size, len(group.scalings)) for group in structure.groups]
    [(5, 1), (6, 1)]
    """
    _check("on_unknown", on_unknown, ("raise", "pin"))
    _check("epsilon", epsilon, ("exact", "ignore"))
    _check("statistics", statistics, ("consistent", "held", "free"))
    jaxpr, shapes = _computation(network, variables, x)
    context = Context(Atoms(), on_unknown, epsilon)
    names = tree_names(shapes)
    wanted = dict(zip(names, map(_shape, jax.tree.leaves(shapes)), strict=True))
    context.params = {
        name: tuple(context.space.fresh(size) for size in shape) for name, shape in wanted.items()
    }
    for _ in range(MOST_PASSES):
        before = context.space.changes
        context.previous, context.records, context.count = context.records, Records(), 0
        _pass(context, jaxpr, wanted)
        if context.space.changes == before and _settled(context):
            break
    else:
        raise StructureError(
            f"the axes of this network are still changing after {MOST_PASSES} passes; "
            "please report the network"
        )
    structure = dataclasses.replace(
        build(context, wanted, statistics, epsilon),
        network=network,
        example=jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), x),
        tree=jax.tree.structure(shapes),
        single=has_single(jaxpr.jaxpr),
    )
    return verify_structure(structure, variables, x) if verify else structure


def _settled(context: Context) -> bool:
    previous = context.previous
    return previous is not None and previous.uses == context.records.uses


def _check(name: str, given: str, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise InputError(f"{name} is {given!r}; choose one of {', '.join(allowed)}")


def _shape(leaf) -> tuple[int, ...]:
    return tuple(leaf.shape)


def _struct(leaf, double: bool):
    floating = jax.numpy.issubdtype(leaf.dtype, jax.numpy.floating)
    return jax.ShapeDtypeStruct(leaf.shape, "float64" if double and floating else leaf.dtype)


def _computation(network, variables, x):
    """The evaluation as equations: in float64 where the network lets it, so numbers are exact."""

    def outputs(v, a):
        return network.apply(v, a, train=False)[0]

    def traced(double: bool):
        shapes = jax.tree.map(lambda leaf: _struct(leaf, double), variables)
        inputs = jax.tree.map(lambda leaf: _struct(leaf, double), x)
        # The platform's own convolution is one equation; the others are made of many.
        with jax.enable_x64(double), using_implementation("native"):
            return jax.make_jaxpr(outputs)(shapes, inputs), shapes

    with contextlib.suppress(TypeError, ValueError):
        return traced(True)
    return traced(False)


def _pass(context: Context, jaxpr: ClosedJaxpr, wanted: dict) -> None:
    space, inputs = context.space, []
    for name in wanted:
        axes, position = [], 0
        for label in context.params[name]:
            axes.append(_numbered(space, label, name, position))
            position += sum(1 for _ in leaves(axes[-1]))
        where = tuple(range(len(axes)))
        inputs.append(
            Value(tuple(axes), origin=name, where=where, tags=frozenset([("from", name)]))
        )
    for slot, variable in enumerate(jaxpr.jaxpr.invars[len(inputs) :]):
        labels = [
            context.fresh(size, "input", ("input", slot, i))
            for i, size in enumerate(variable.aval.shape)
        ]
        inputs.append(Value(tuple(labels), data=True, where=(None,) * len(labels)))
    for value in inputs:
        context.records.seen.append((value.axes, ()))
    results = _run(context, jaxpr, inputs)
    for result in results:
        for label in result.axes:
            context.space.pin(context.unscaled(label), "output")
    for name in wanted:
        if not context.records.uses[name]:
            for label in context.params[name]:
                space.pin(label, "does not reach the output")


def _numbered(space: Atoms, label, name: str, start: int):
    """The label with an unknown exponent on every leaf."""
    count = iter(range(start, start + 10**6))

    def mark(leaf):
        if isinstance(leaf, Uniform):
            return leaf
        return Leaf(leaf.atom, {(name, next(count)): Fraction(1)})

    return rebuild(space.resolve(label), mark)


def _run(context: Context, closed: ClosedJaxpr | Jaxpr, inputs: list[Value]) -> list[Value]:
    """The values of a computation's results."""
    jaxpr = closed.jaxpr if isinstance(closed, ClosedJaxpr) else closed
    consts = closed.consts if isinstance(closed, ClosedJaxpr) else []
    values = dict(zip(jaxpr.invars, inputs, strict=True))
    for slot, (variable, const) in enumerate(zip(jaxpr.constvars, consts, strict=True)):
        values[variable] = _captured(context, const, slot)

    def read(atom) -> Value:
        if isinstance(atom, Literal):
            shape = tuple(np.shape(atom.val))
            number = np.asarray(atom.val).reshape(-1)
            return constant(float(number[0]) if number.size == 1 else None, shape)
        return values[atom]

    stack, sources = context.stack, context.sources
    live = _live(jaxpr)
    for index, equation in enumerate(jaxpr.eqns):
        if index not in live:
            continue
        context.count += 1
        context.stack = (*stack, index)
        context.sources = (*sources, equation.source_info)
        operands = [read(atom) for atom in equation.invars]
        results = _equation(context, equation, operands)
        for variable, result in zip(equation.outvars, results, strict=True):
            values[variable] = result
            context.records.seen.append((result.axes, context.scans))
    context.stack, context.sources = stack, sources
    return [read(atom) for atom in jaxpr.outvars]


def _live(jaxpr: Jaxpr) -> set[int]:
    """The equations that reach a result."""
    wanted = {atom for atom in jaxpr.outvars if not isinstance(atom, Literal)}
    live = set()
    for index in range(len(jaxpr.eqns) - 1, -1, -1):
        equation = jaxpr.eqns[index]
        if any(variable in wanted for variable in equation.outvars):
            live.add(index)
            wanted |= {atom for atom in equation.invars if not isinstance(atom, Literal)}
    return live


def _captured(context: Context, const, slot: int) -> Value:
    """A constant: uniform along the axes where all entries are equal, pinned along the others."""
    if not hasattr(const, "dtype") or jax.numpy.issubdtype(const.dtype, jax.dtypes.extended):
        shape = getattr(const, "shape", ())
        return Value(tuple(context.fresh(n, "data", (slot, i)) for i, n in enumerate(shape)))
    array = np.asarray(const)
    labels = []
    for axis, size in enumerate(array.shape):
        same = size > 0 and bool(np.all(array == array.take([0], axis)))
        reason = "a constant tells its indices apart"
        labels.append(Uniform(size) if same else context.fresh(size, reason, (slot, axis)))
    flat = array.reshape(-1)
    number = (
        float(flat[0]) if flat.size and np.isrealobj(flat) and np.all(flat == flat[0]) else None
    )
    return Value(tuple(labels), number, where=(None,) * len(labels))


def _equation(context: Context, equation, values: list[Value]) -> list[Value]:
    name = equation.primitive.name
    inner = _inner(equation)
    if name in _CONTROL:
        return _CONTROL[name](context, equation, values, _run)
    if inner is not None and len(_jaxpr(inner).invars) == len(values):
        return _run(context, inner, values)
    for value in values:
        if value.origin is not None:
            context.records.first_use.setdefault(value.origin, context.count)
    rule = RULES.get(name)
    results = rule(context, equation, values) if rule is not None else []
    if not results:
        results = _unknown(context, equation, values)
    kept = {result.origin for result in results}
    for value in values:
        if value.origin is not None and value.origin not in kept:
            context.records.uses[value.origin] += 1
    return results


def _jaxpr(inner) -> Jaxpr:
    return inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner


def _inner(equation):
    for name in _CALLS:
        inner = equation.params.get(name)
        if isinstance(inner, ClosedJaxpr | Jaxpr):
            return inner
    return None


def _unknown(context: Context, equation, values: list[Value]) -> list[Value]:
    """An operation without a rule: harmless on pinned axes, else an error or pins."""
    name = equation.primitive.name
    labels = [label for value in values for label in value.axes]
    if context.on_unknown == "raise" and not name.startswith(("random_", "rng_")):
        reaching = context.reaching(labels)
        if reaching:
            raise StructureError(_sentence(equation, reaching, context.sources))
    reason = f"reaches `{name}`, which has no rule"
    for label in labels:
        context.space.pin(context.unscaled(label), reason)
    data = any(value.data for value in values)
    return [
        Value(
            tuple(
                context.fresh(size, reason, ("unknown", slot, i))
                for i, size in enumerate(getattr(variable.aval, "shape", ()))
            ),
            data=data,
        )
        for slot, variable in enumerate(equation.outvars)
    ]


def _sentence(equation, reaching: list[str], sources: tuple) -> str:
    from jax.extend.source_info_util import summarize

    shapes = ", ".join(
        atom.aval.str_short(short_dtypes=True) if hasattr(atom.aval, "str_short") else "?"
        for atom in equation.invars
    )
    many = f" and {len(reaching) - 3} more" if len(reaching) > 3 else ""
    # A call kept from an earlier trace has no place of its own; then it is its caller's.
    places = (summarize(source) for source in reversed(sources))
    place = next((f", in {text}" for text in places if text), "")
    return (
        f"cannot follow `{equation.primitive.name}` on {shapes}, reached by "
        f"{', '.join(reaching[:3])}{many}{place}; pass on_unknown='pin' to treat these axes as "
        "fixed, register_rule(primitive_name, rule), or pass an equivalent network"
    )
