"""Which engine runs a network best on this platform: members, steps, convolutions.

Measured on two CPU cores by ``benchmarks/ensemble_step.py``. Without convolutions all members run
in one batched program. With them, on CPU, a batched (grouped) convolution is slower than its parts.
Few members of a shallow network are written out one after another, which keeps both cores busy: the
convolutions are the platform's own, except for the gradient of the kernel. Where that would take
long to compile, members take turns inside the loop and convolutions are matrix products.
Accelerators keep members batched and convolutions native.
"""

from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Key

from credax.data.dataset import Split
from credax.errors import InputError
from credax.networks.convolution import using_implementation
from credax.problem import Problem
from credax.training.config import Training
from credax.training.members import Map, Shard, Strategy, Unroll, Vmap
from credax.training.mesh import check_layout, choose_layout, devices_at_hand, mesh_of
from credax.training.partition import Partition, Rules
from credax.training.program import Program
from credax.training.supply import should_stream

# Beyond these, writing every member out costs more in compiling than it gains in running.
_FEW_CONVOLUTIONS, _FEW_MEMBERS = 6, 16


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
    partition: Rules | None = None,
) -> Engine:
    """What the settings ask for, and for ``auto`` what is fastest here.

    ``auto`` distributes over all devices where there are several.
    """
    strategy = _strategy(training, mesh, partition) or _distributed(dynamics, training)
    on_cpu = jax.default_backend() == "cpu"
    if strategy is None:
        convolutions = count_convolutions(problem, data) if on_cpu else 0
        few = convolutions <= _FEW_CONVOLUTIONS and dynamics.replicas.count <= _FEW_MEMBERS
        strategy = Vmap() if not convolutions else Unroll() if few else Map(1)
    if isinstance(strategy, Shard):
        if partition:
            example = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
            params = jax.eval_shape(problem.init, jax.random.key(0), example).params
            strategy.partition.check(params, strategy.mesh)
        members = dynamics.replicas.count
        check_layout(strategy.layout, members, training.batch_size, dynamics.coupled)
    mixed = on_cpu and isinstance(strategy, Unroll)
    return Engine(strategy, training.stepping == "dispatch", "mixed" if mixed else "auto")


def build_program(
    problem: Problem,
    dynamics: Any,
    training: Training,
    data: Split,
    key: Key[Array, ""],
    mesh: jax.sharding.Mesh | None = None,
    partition: Rules | None = None,
) -> Program:
    """The compiled part of a training, run by the engine that suits it."""
    strategy, dispatch, convolution = choose_engine(
        problem, dynamics, training, data, mesh, partition
    )
    streamed = should_stream(data, training.placement)
    padding = 0
    if isinstance(strategy, Shard):
        padding = -dynamics.replicas.count % strategy.layout.members
    return Program(
        problem,
        dynamics,
        strategy,
        training,
        len(data),
        dispatch,
        streamed,
        key,
        convolution,
        padding,
    )


def count_convolutions(problem: Problem, data: Split, implementation: str = "native") -> int:
    """How many times the network calls the platform's convolution, read off its trace.

    With ``implementation="gemm"`` those of `credax.networks` are matrix products: others are left.
    """
    example = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
    variables = jax.eval_shape(problem.init, jax.random.key(0), example)
    prepared = jax.eval_shape(problem.prepare_inputs, example)
    with using_implementation(implementation):
        program = jax.make_jaxpr(lambda v, x: problem.outputs(v, x)[0])(variables, prepared)
    return str(program).count("conv_general_dilated[")


def _strategy(training: Training, mesh, partition: Rules | None) -> Strategy | None:
    if partition and mesh is None:
        raise InputError(
            "partition is given without a mesh; give mesh=jax.make_mesh(shape, ('members', 'data', "
            "'model'))"
        )
    if mesh is not None and training.strategy not in ("auto", "shard"):
        raise InputError(
            f"mesh is given and strategy is {training.strategy!r}; a mesh is for strategy='shard'"
        )
    if mesh is not None:
        return Shard(mesh, Partition.of(partition))
    if training.strategy == "map":
        return Map(training.members_at_once)
    return {"auto": None, "shard": None, "unroll": Unroll(), "vmap": Vmap()}[training.strategy]


def _distributed(dynamics: Any, training: Training) -> Shard | None:
    """Members over all devices where ``shard`` asks for it or, for ``auto``, there are several."""
    asked = training.strategy == "shard"
    devices = jax.device_count() if asked else devices_at_hand()
    if devices == 1 and not asked:
        return None
    members, several = dynamics.replicas.count, jax.process_count() > 1
    layout = choose_layout(
        members, training.batch_size, devices, coupled=dynamics.coupled, all_used=several
    )
    return Shard(mesh_of(layout)) if asked or layout.devices > 1 else None
