"""Which engine runs a network best on this platform."""

import jax

from credax.data.dataset import Split
from credax.errors import InputError
from credax.problem import Problem
from credax.training.config import Training
from credax.training.dynamics import Dynamics
from credax.training.members import Map, Shard, Strategy, Unroll, Vmap, default_mesh


def choose_engine(
    problem: Problem,
    dynamics: Dynamics,
    training: Training,
    data: Split,
    mesh: jax.sharding.Mesh | None = None,
) -> tuple[Strategy, bool]:
    """The member strategy, and whether steps are dispatched one by one."""
    strategy = _strategy(training, mesh)
    if isinstance(strategy, Shard):
        strategy.check(dynamics.replicas, training.batch_size)
    return strategy, training.stepping == "dispatch"


def _strategy(training: Training, mesh) -> Strategy:
    if mesh is not None and training.strategy not in ("auto", "shard"):
        raise InputError(
            f"mesh is given and strategy is {training.strategy!r}; a mesh is for strategy='shard'"
        )
    if training.strategy == "shard" or mesh is not None:
        return Shard(mesh or default_mesh())
    if training.strategy == "map":
        return Map(training.members_at_once)
    return Unroll() if training.strategy == "unroll" else Vmap()
