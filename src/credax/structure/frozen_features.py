"""Features of a frozen trunk, computed once: what a network does before its trained parameters.

The network is traced for one row. Whatever does not depend on a trained parameter is the trunk;
the values that the rest reads of it are the features.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credax.data.dataset import Split
from credax.description import describe, digest
from credax.errors import InputError
from credax.network import Variables
from credax.partly_trained import PartlyTrained
from credax.posterior import Population
from credax.problem import Problem
from credax.structure.linear_layers import bind

ROWS = 256
_CALLS = ("jit", "pjit", "closed_call")


class _Step(NamedTuple):
    """One operation: what it does, and the numbers of the values it reads and writes."""

    equation: Any
    reads: tuple[Any, ...]
    writes: tuple[int, ...]


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False)
class _Program:
    """Operations in order; a value that is read is a number, or a literal in a list.

    ``early`` steps come before any trained parameter, ``late`` ones read the values ``kept``.
    """

    params: dict[str, int]
    row: int
    output: Any
    early: tuple[_Step, ...]
    late: tuple[_Step, ...]
    kept: tuple[int, ...]

    def run(self, values: dict[int, Any], steps: tuple[_Step, ...]) -> dict[int, Any]:
        """The values after some of the steps."""
        values = dict(values)
        for step in steps:
            inputs = [ref[0] if isinstance(ref, list) else values[ref] for ref in step.reads]
            values.update(zip(step.writes, bind(step.equation, inputs), strict=True))
        return values


class HeadNetwork(eqx.Module):
    """The part of a network that depends on trained parameters, as a function of features."""

    whole: PartlyTrained
    constants: dict[int, Array]
    program: _Program
    shapes: tuple[Any, ...] = eqx.field(static=True)
    example: Any = eqx.field(static=True)
    name: str = eqx.field(static=True)
    """Stands for the trunk in descriptions."""

    def init(self, key, x) -> Variables:
        """The trained part of the network's variables."""
        return self.whole.init(key, self.example)

    def apply(self, variables, x, *, key=None, train=False) -> tuple[Array, Any]:
        """Outputs for a batch of features."""
        return jax.vmap(lambda row: self._row(variables.params, row))(x), variables.state

    def _row(self, params, row: Float[Array, " features"]) -> Array:
        values: dict[int, Any] = dict(self.constants)
        values |= {number: params[name] for name, number in self.program.params.items()}
        sizes = [math.prod(shape.shape) for shape in self.shapes]
        parts = jnp.split(row, np.cumsum(sizes)[:-1].tolist()) if sizes else []
        for number, shape, part in zip(self.program.kept, self.shapes, parts, strict=True):
            values[number] = part.reshape(shape.shape).astype(shape.dtype)
        return self.program.run(values, self.program.late)[self.program.output]


class CachedFeatures(eqx.Module):
    """A problem on the features of a frozen trunk, and the way there and back.

    ``problem`` has the same trained parameters as ``whole``, the problem on raw inputs, and takes
    features in place of them.
    """

    whole: Problem
    problem: Problem
    trunk: Any

    def features(self, x: Any) -> Float[np.ndarray, "rows features"]:
        """Features of raw inputs, block by block."""
        x = np.asarray(x)
        blocks = [_trunk(self.whole, self.trunk, x[i : i + ROWS]) for i in range(0, len(x), ROWS)]
        return np.concatenate([np.asarray(block) for block in blocks])

    def rows(self, split: Split) -> Split:
        """A split with features in place of inputs; targets keep their units."""
        return Split(self.features(split.x), split.y, None, split.targets)

    def on_inputs(self, members: Population, x: Any) -> Population:
        """Members trained on features, as a population on raw inputs like ``x``."""
        dtype = str(np.asarray(x[:0]).dtype)
        targets = members.problem.targets
        return dataclasses.replace(
            members,
            problem=self.whole.with_units(None, targets),
            input_shape=tuple(np.shape(x)[1:]),
            input_dtype=dtype,
        )


def cache_features(problem: Problem, x: Any) -> CachedFeatures:
    """The trained head of a partly frozen problem, for features that are computed once.

    ``problem`` was made with ``trainable=``, ``x`` are raw inputs (their shape is read). Costs one
    pass of the trunk over the data; then training, Laplace and samplers see the head alone.

    >>> import credax as cx
    >>> network = cx.networks.MLP((3,), outputs=2)
    >>> start = network.init(jax.random.key(0), jnp.zeros((1, 4)))
    >>> frozen = cx.Problem(network, cx.Categorical(), trainable="1_dense", frozen=start)
    >>> cache_features(frozen, np.zeros((5, 4))).features(np.zeros((5, 4))).shape
    (5, 3)
    """
    network: Any = problem.network
    if not isinstance(network, PartlyTrained):
        raise InputError(
            "problem has no frozen part, or a noise level that is learned with it; make it with "
            "trainable= and frozen=, and with a likelihood that learns nothing"
        )
    rows = np.asarray(x)
    raw = jax.ShapeDtypeStruct((1, *rows.shape[1:]), rows.dtype)
    example = jax.eval_shape(problem.prepare_inputs, raw)
    row = jax.ShapeDtypeStruct(example.shape[1:], example.dtype)
    params = jax.eval_shape(network.init, jax.random.key(0), example).params
    closed = jax.make_jaxpr(lambda p, row: network.apply(Variables(p), row[None])[0][0])(
        params, row
    )
    program, constants = _flattened(closed, list(params))
    shapes = _shapes(program, constants, row)
    text = digest(str(describe(network, "network")))
    head = HeadNetwork(network, constants, program, shapes, example, text)
    own = Problem(head, problem.likelihood, prior=problem.prior, targets=problem.targets)
    return CachedFeatures(problem, own, _Trunk(program, constants))


class _Trunk(eqx.Module):
    program: _Program
    constants: dict[int, Array]

    def __call__(self, row: Array) -> Float[Array, " features"]:
        values = self.program.run({**self.constants, self.program.row: row}, self.program.early)
        dtype = jnp.result_type(float)
        parts = [jnp.ravel(values[number]).astype(dtype) for number in self.program.kept]
        return jnp.concatenate(parts) if parts else jnp.zeros(0, dtype)


@eqx.filter_jit
def _trunk(problem: Problem, trunk: _Trunk, x) -> Array:
    return jax.vmap(trunk)(problem.prepare_inputs(x))


def _flattened(closed: Any, names: list[str]) -> tuple[_Program, dict[int, Array]]:
    """One list of operations, calls written out, and the arrays it closes over."""
    numbers, steps, constants = _counted(), [], {}
    inputs = [next(numbers) for _ in closed.jaxpr.invars]

    def write_out(jaxpr, consts, reads) -> list[Any]:
        known = dict(zip(jaxpr.invars, reads, strict=True))
        for variable, value in zip(jaxpr.constvars, consts, strict=True):
            known[variable] = next(numbers)
            constants[known[variable]] = jnp.asarray(value)

        def ref(atom):
            return [atom.val] if hasattr(atom, "val") else known[atom]

        for equation in jaxpr.eqns:
            inside = [ref(atom) for atom in equation.invars]
            if equation.primitive.name in _CALLS:
                call = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
                found = write_out(call.jaxpr, call.consts, inside)
                known.update(zip(equation.outvars, found, strict=True))
                continue
            writes = tuple(next(numbers) for _ in equation.outvars)
            known.update(zip(equation.outvars, writes, strict=True))
            steps.append(_Step(equation, tuple(inside), writes))
        return [ref(atom) for atom in jaxpr.outvars]

    (output,) = write_out(closed.jaxpr, closed.consts, inputs)
    params = dict(zip(names, inputs[:-1], strict=True))
    early, late, kept = _separated(steps, set(params.values()), output, constants)
    return _Program(params, inputs[-1], output, early, late, kept), constants


def _counted() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


def _separated(
    steps: list[_Step], params: set[int], output: Any, constants: dict[int, Array]
) -> tuple[tuple[_Step, ...], tuple[_Step, ...], tuple[int, ...]]:
    """Steps that depend on no trained parameter, the others, and the values that cross."""
    trained, early, late = set(params), [], []
    for step in steps:
        reads = {ref for ref in step.reads if not isinstance(ref, list)}
        if reads & trained:
            trained.update(step.writes)
            late.append(step)
        else:
            early.append(step)
    wanted = [ref for step in late for ref in step.reads if not isinstance(ref, list)]
    kept = dict.fromkeys(
        ref for ref in [*wanted, output] if ref not in trained and ref not in constants
    )
    return tuple(early), tuple(late), tuple(kept)


def _shapes(program: _Program, constants: dict[int, Array], row: Any) -> tuple[Any, ...]:
    def crossing(row):
        values = program.run({**constants, program.row: row}, program.early)
        return [values[number] for number in program.kept]

    return tuple(jax.eval_shape(crossing, row))
