"""What a command would do: ``--dry-run``."""

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credax.cli.config import Fit
from credax.cli.cost import projected
from credax.cli.job import Job
from credax.problem import Problem
from credax.training.describe import describe_method, describe_training
from credax.training.engine import build_program
from credax.training.hooks import check_validation, problem_of, settings_of


def plan(
    job: Job, config: Fit, folder: Path, devices: int | None = None, speed: float | None = None
) -> dict[str, Any]:
    """The resolved configuration, parameter count and an estimate of the memory.

    With ``devices``, also the cost on so many, each ``speed`` times as fast as this machine.
    """
    train = job.dataset.train
    problem = job.problem.with_units(train.inputs, train.targets)
    training = settings_of(config.method, job.training, len(train))
    check_validation(config.method, training, job.dataset.validation)
    problem = problem_of(config.method, problem)
    dynamics = config.method.dynamics(problem, train, training)
    program = build_program(problem, dynamics, training, train, jax.random.key(config.seed))
    per_epoch = training.steps_per_epoch(len(train))
    example = jax.ShapeDtypeStruct((1, *train.x.shape[1:]), train.x.dtype)
    states = jax.eval_shape(lambda: program.without_padding(program.first(example)))
    members = len(jax.tree.leaves(jax.eval_shape(program.members, states))[0])
    trained = jax.eval_shape(jax.vmap(dynamics.trained), states)
    numbers = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(trained))
    passes = members if dynamics.passes is None else dynamics.replicas.count * dynamics.passes
    memory = {
        "members and optimiser": _bytes(states),
        "gradients": 4 * numbers,
        "activations": passes * activation_bytes(problem, training.batch_size, example),
        "training rows": train.x.nbytes + train.y.nbytes,
    }
    cost = partial(projected, problem, dynamics, training, train, numbers // members)
    return {
        "folder": str(folder),
        "method": describe_method(config.method),
        "training": describe_training(training),
        "config": job.config(config),
        "rows": {
            "train": len(train),
            "validation": len(job.dataset.validation or ()),
            "test": len(job.dataset.test),
        },
        "steps": {"per epoch": per_epoch, "total": per_epoch * training.epochs},
        "parameters": {
            "one network": job.params,
            "members": members,
            "all": numbers,
            "all over one network": round(numbers / job.params, 3),
        },
        "memory_bytes_estimate": {**memory, "total": sum(memory.values())},
        **({} if devices is None else {"devices": cost(devices, speed or 1.0)}),
    }


def print_plan(content: dict[str, Any], as_json: bool) -> None:
    """Print the plan, for people or machines."""
    if as_json:
        print(json.dumps(content, indent=2))
        return
    lines = _flatten(content)
    width = max(36, *(len(name) + 2 for name, _ in lines))
    for name, value in lines:
        if name.startswith("memory_bytes_estimate"):
            name = name.replace("memory_bytes_estimate", "memory (estimate)")
            value = f"{value / 1e6:,.1f} MB"
        print(f"{name:<{width}}{value}")


def activation_bytes(problem: Problem, batch_size: int, example) -> int:
    """What one member's forward pass leaves for the backward one: every intermediate array."""
    variables = jax.eval_shape(lambda: problem.init(jax.random.key(0), example))
    batch = jax.ShapeDtypeStruct((batch_size, *example.shape[1:]), jnp.float32)
    forward = lambda v, x: problem.outputs(v, x, key=jax.random.key(0), train=True)  # noqa: E731
    program = jax.make_jaxpr(forward)(variables, batch)
    shapes = [variable.aval for equation in program.jaxpr.eqns for variable in equation.outvars]
    return sum(_size(shape) for shape in shapes)


def _bytes(tree: Any) -> int:
    return sum(_size(leaf) for leaf in jax.tree.leaves(tree))


def _size(leaf: Any) -> int:
    itemsize = getattr(leaf.dtype, "itemsize", 4)
    return int(np.prod(leaf.shape, dtype=np.int64)) * itemsize


def _flatten(content: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows = []
    for name, value in content.items():
        if isinstance(value, dict):
            rows += _flatten(value, f"{prefix}{name}.")
        else:
            rows.append((prefix + name, value))
    return rows
