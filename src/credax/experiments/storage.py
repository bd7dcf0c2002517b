"""What a method keeps and computes, counted before anything is trained."""

import math
from typing import Any, NamedTuple

import jax

from credax.methods.ensembles.mimo import MIMO
from credax.methods.ensembles.modulated import Modulated
from credax.network import count_params
from credax.problem import Problem
from credax.training.hooks import problem_of


class Load(NamedTuple):
    """Numbers that a method keeps, and networks that see a batch in one step."""

    stored: int
    passes: int


def load_of(method: Any, problem: Problem, example: Any) -> Load:
    """The load of a method; ``problem`` is the given one, ``example`` shaped like raw inputs.

    Members that share their weights are counted once with what each adds; members of their own,
    also narrower ones, are counted one by one. What methods derive from one training (Gaussians,
    draws) is not counted.

    >>> import credax as cx
    >>> from credax.methods.ensembles.batch_ensemble import BatchEnsemble
    >>> problem = cx.Problem(cx.networks.MLP((5,), outputs=2), cx.Categorical())
    >>> example = jax.ShapeDtypeStruct((1, 3), "float32")
    >>> load_of(BatchEnsemble(members=4), problem, example).stored  # 3*5 + 5*2 + 4*(15+7)
    113
    """
    trained = problem_of(method, problem)
    if isinstance(method, Modulated | MIMO):
        shapes = method.stored_shapes(trained, example)[1]
        # Batch statistics are carried, not learned.
        leaves = jax.tree.leaves(shapes._replace(carried={}))
        stored = method.modes * sum(math.prod(leaf.shape) for leaf in leaves)
        return Load(stored, method.modes * _passes(method))
    members = getattr(method, "members", 1)
    one = jax.eval_shape(trained.init, jax.random.key(0), example)
    return Load(members * count_params(one), members)


def _passes(method: Modulated | MIMO) -> int:
    """How many times a row goes through the network in one step."""
    if isinstance(method, MIMO):
        return method.batch_repetitions
    return method.members if method.batch == "tile" else 1
