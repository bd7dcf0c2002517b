"""The first training step of an arm, at its own settings: does a large experiment run at all?"""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm
from credax.training import Training
from credax.training.engine import build_program
from credax.training.hooks import problem_of
from credax.training.program import Rows, advance, initialise
from credax.training.supply import narrow


def first_step(bench: Bench, arm: Arm, training: Training) -> dict[str, Any]:
    """Initialise all members and take exactly one step; times include compiling.

    Returns each member's negative log-likelihood before the step, its greatest change of a
    parameter, and the seconds for the method's preparations (such as PCA) and for the step.
    """
    train = bench.dataset.train
    began = time.monotonic()
    problem = problem_of(arm.method, bench.problem(arm))
    dynamics = arm.method.dynamics(problem, train, training)
    jax.block_until_ready(jax.tree.leaves(dynamics))
    prepared = time.monotonic()
    program = build_program(problem, dynamics, training, train, jax.random.key(0))
    carry = initialise(program, Rows(train.x[:1], narrow(train.y[:1])))
    before = jax.tree.map(np.asarray, program.members(carry.states).params)
    rows = jax.device_put(Rows(np.asarray(train.x), narrow(train.y)))
    carry = advance((program, rows, jnp.int32(0), jnp.int32(1), None), carry)
    after = jax.tree.map(np.asarray, program.members(carry.states).params)
    change = jax.tree.map(lambda a, b: float(np.abs(a - b).max()), before, after)
    return {
        "arm": arm.name,
        "label": arm.label,
        "nll": np.ravel(np.asarray(carry.totals["nll"], float)).tolist(),
        "greatest change": max(jax.tree.leaves(change)),
        "finite": bool(np.asarray(carry.alive).all()),
        "seconds to prepare": round(prepared - began, 2),
        "seconds for the step": round(time.monotonic() - prepared, 2),
    }
