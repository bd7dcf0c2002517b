"""What ``credax reproduce`` would do: ``--dry-run``."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from credax.cli.plan import activation_bytes
from credax.experiments.bench import trials
from credax.experiments.experiment import Arm, Data, Experiment, Scale
from credax.experiments.storage import load_of
from credax.network import count_params
from credax.networks import using_implementation
from credax.problem import Problem
from credax.report.numbers import size
from credax.training import Descent
from credax.training.hooks import problem_of


def plan(
    experiment: Experiment, name: str, scale: Scale, seeds: int, root: Path, data_dir: str | None
) -> dict[str, Any]:
    """Everything the experiment would do, as plain data; reads no data set."""
    data, training = scale.data, scale.training
    here = data.available(data_dir)
    known = {k: v for k, v in dataclasses.asdict(data).items() if not callable(v)}
    per_epoch = training.steps_per_epoch(data.train_rows)
    content = {
        "experiment": experiment.name,
        "scale": name,
        "note": scale.note,
        "data": {**known, "on this machine": here},
        "likelihood": repr(scale.likelihood),
        "weight_decay": scale.weight_decay,
        "training": dataclasses.asdict(training),
        "evaluation": _plain(scale.evaluation),
        "steps": {"per epoch": per_epoch, "total": per_epoch * training.epochs},
        "seeds": list(range(seeds)),
        "arms": _arms(scale),
        "fits": [
            {"arm": trial.arm.name, "seed": trial.seed, "folder": str(trial.folder)}
            for trial in trials(scale, root, seeds)
        ],
    }
    return json.loads(json.dumps(content))


def print_plan(content: dict[str, Any]) -> None:
    """The plan for people: what all fits share, then each arm, then the folders."""
    shared = {k: v for k, v in content.items() if k not in ("arms", "fits")}
    for name, value in _flatten(shared):
        print(f"{name:<40}{value}")
    for arm in content["arms"].values():
        print(f"\n{arm['label']}")
        for name, value in _flatten({k: v for k, v in arm.items() if k != "label"}):
            value = size(value) if name.startswith("memory") else value
            print(f"  {name:<40}{value}")
    print(f"\n{len(content['fits'])} fits")
    for fit in content["fits"]:
        print(f"  {fit['arm']}, seed {fit['seed']:<4}{fit['folder']}")


class _Sizes(NamedTuple):
    """Of one network: learned numbers, bytes of its state, bytes of a batch's activations."""

    params: int
    state: int
    activations: int


def _arms(scale: Scale) -> dict[str, Any]:
    sizes: dict[str, _Sizes] = {}
    arms = {}
    for arm in scale.arms:
        problem = problem_of(arm.method, scale.problem(arm))
        network = repr(problem.network)
        if network not in sizes:
            sizes[network] = _sizes(problem, scale)
        arms[arm.name] = _arm(arm, scale, network, sizes[network])
    return arms


def _example(data: Data) -> Any:
    """A row of raw inputs."""
    dtype = jnp.uint8 if len(data.input_shape) == 3 else jnp.float32
    return jax.ShapeDtypeStruct((1, *data.input_shape), dtype)


def _sizes(problem: Problem, scale: Scale) -> _Sizes:
    """Of a network as it is trained, which some methods make narrower or wider."""
    data, training, example = scale.data, scale.training, _example(scale.data)
    descent = Descent(problem, training, data.train_rows)
    key = jax.random.key(0)
    state = jax.eval_shape(lambda: descent.init(key, problem.init(key, example)))
    with using_implementation("native"):
        activations = activation_bytes(problem, training.batch_size, example)
    return _Sizes(count_params(state.variables), _bytes(state), activations)


def _arm(arm: Arm, scale: Scale, network: str, sizes: _Sizes) -> dict[str, Any]:
    """A method's settings, its parameters, and an estimate of its memory if all run at once."""
    data, training = scale.data, scale.training_of(arm)
    members = getattr(arm.method, "members", 1)
    given = scale.problem(arm)
    one = count_params(jax.eval_shape(given.init, jax.random.key(0), _example(data)))
    stored, passes = load_of(arm.method, given, _example(data))
    dimension = math.prod(data.input_shape)
    directional = hasattr(arm.method, "lengthscale")
    memory = {
        "members and optimiser": round(stored / sizes.params * sizes.state),
        "gradients": 4 * stored,
        # Repelled input gradients take a second, tangent pass through the network.
        "activations": passes * sizes.activations * (2 if directional else 1),
        "input gradients": 3 * members * training.batch_size * dimension * 4 if directional else 0,
        "metric": _metric_bytes(arm.method, dimension),
        "training rows": data.train_rows * dimension * (1 if len(data.input_shape) == 3 else 4),
    }
    own = dataclasses.asdict(training)
    return {
        "label": arm.label,
        "network": network,
        "method": {"name": arm.method.name, **dataclasses.asdict(arm.method)},
        **({"training": {name: own[name] for name in arm.training}} if arm.training else {}),
        "parameters": {
            "one network": one,
            "members": members,
            "all": stored,
            "all over one network": round(stored / one, 3),
        },
        "memory (estimate)": {**memory, "total": sum(memory.values())},
    }


def _metric_bytes(method: Any, dimension: int) -> int:
    if getattr(method, "lengthscale", "identity") in ("identity", 0):
        return 0
    if method.rank is None:
        return 4 * dimension**2
    rank = method.rank if isinstance(method.rank, int) else dimension
    return 4 * dimension * rank


def _bytes(tree: Any) -> int:
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def _plain(value: Any) -> Any:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value  # pyright: ignore[reportArgumentType]


def _flatten(content: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows = []
    for name, value in content.items():
        if isinstance(value, dict) and value:
            rows += _flatten(value, f"{prefix}{name}.")
        else:
            rows.append((prefix + name, value))
    return rows
