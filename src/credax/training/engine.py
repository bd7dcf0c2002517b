"""Which engine runs a network best on this platform: members, steps, convolutions.

Measured on two CPU cores by ``benchmarks/ensemble_step.py``. Without convolutions all members run
in one batched program. With them, on CPU, a batched (grouped) convolution is slower than its parts,
so members take turns inside the loop and each convolution is the platform's own, except for the
gradient of its kernel. Accelerators keep members batched and convolutions native.
"""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Key

from credax.data.dataset import Split
from credax.errors import InputError
from credax.networks.convolution import using_implementation
from credax.problem import Problem
from credax.training.config import Training
from credax.training.members import Map, Shard, Strategy, Unroll, Vmap, default_mesh
from credax.training.program import Program
from credax.training.supply import should_stream


class Engine(NamedTuple):
    """How members run, whether steps are dispatched one by one, how convolutions are computed."""

    strategy: Strategy
    dispatch: bool
    convolution: str


def choose_engine(
    problem: Problem,
    dynamics: Any,
    training: Training,
    data: Split,
    mesh: jax.sharding.Mesh | None = None,
) -> Engine:
    """What the settings ask for, and for ``auto`` what is fastest here."""
    strategy = _strategy(training, mesh)
    if strategy is None:
        turns = jax.default_backend() == "cpu" and has_convolution(problem, data)
        strategy = Map(1) if turns else Vmap()
    if isinstance(strategy, Shard):
        strategy.check(dynamics.replicas, training.batch_size)
    alone = isinstance(strategy, Unroll) or (isinstance(strategy, Map) and strategy.at_once == 1)
    mixed = alone and jax.default_backend() == "cpu"
    return Engine(strategy, training.stepping == "dispatch", "mixed" if mixed else "auto")


def build_program(
    problem: Problem,
    dynamics: Any,
    training: Training,
    data: Split,
    key: Key[Array, ""],
    mesh: jax.sharding.Mesh | None = None,
) -> Program:
    """The compiled part of a training, run by the engine that suits it."""
    strategy, dispatch, convolution = choose_engine(problem, dynamics, training, data, mesh)
    streamed = should_stream(data, training.placement)
    return Program(
        problem, dynamics, strategy, training, len(data), dispatch, streamed, key, convolution
    )


def has_convolution(problem: Problem, data: Split) -> bool:
    """Whether the network convolves, read off its traced computation."""
    example = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
    variables = jax.eval_shape(problem.init, jax.random.key(0), example)
    prepared = jax.eval_shape(problem.prepare_inputs, example)
    with using_implementation("native"):
        program = jax.make_jaxpr(lambda v, x: problem.outputs(v, x)[0])(variables, prepared)
    return "conv_general_dilated" in str(program)


def _strategy(training: Training, mesh) -> Strategy | None:
    if mesh is not None and training.strategy not in ("auto", "shard"):
        raise InputError(
            f"mesh is given and strategy is {training.strategy!r}; a mesh is for strategy='shard'"
        )
    if training.strategy == "shard" or mesh is not None:
        return Shard(mesh or default_mesh())
    if training.strategy == "map":
        return Map(training.members_at_once)
    return {"auto": None, "unroll": Unroll(), "vmap": Vmap()}[training.strategy]
