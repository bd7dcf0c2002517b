"""``credax design train``, and asking by the policy that it wrote."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from credax import __version__
from credax.cli.design import Train
from credax.cli.design_models import read_model, read_options
from credax.cli.own_code import is_own
from credax.cli.terminal import printable
from credax.design.comparison import baseline_policies, evaluate_policy
from credax.design.deep_adaptive import PolicyTraining, train_policy
from credax.design.information import Information
from credax.design.model import DesignModel
from credax.design.policies import DesignPolicy, adaptive_policy
from credax.design.policy_files import load_policy, save_policy
from credax.design.records import DesignRun
from credax.errors import InputError
from credax.files import write_json
from credax.locks import claim_folder

DEFAULT_ROOT = "runs"
POLICY = "policy.safetensors"
RESULTS = "results.json"


def train(config: Train) -> None:
    """Train, keep the policy, then print its information beside that of the usual plans."""
    model, description = read_model(config.model, read_options(config.option))
    training = PolicyTraining(
        config.steps, config.batch, config.inner, config.learning_rate, config.learning_rate / 100
    )
    name = config.model.rpartition(":")[2] if is_own(config.model) else config.model
    folder = Path(config.out or Path(DEFAULT_ROOT) / f"policy_{name}_{config.rounds}")
    about = {"model": description, "seed": config.seed, "training": dataclasses.asdict(training)}
    with claim_folder(folder):
        policy = _policy(folder, model, config, training, about)
        print("training the fixed plan, and evaluating all plans")
        baselines = baseline_policies(model, config.rounds, key=config.seed)
        options = {"outer": config.evaluate_outer, "inner": config.evaluate_inner}
        found = {}
        for label, each in {**baselines, "trained policy": policy}.items():
            found[label] = evaluate_policy(model, each, config.rounds, key=config.seed, **options)
            print(printable(_line(label, found[label])), flush=True)
        content = {label: _plain(value) for label, value in found.items()}
        kept = {"credax": __version__, "rounds": config.rounds, **about, "information": content}
        write_json(folder / RESULTS, kept)
    print(printable(f"then: credax design start {config.model} --policy {folder / POLICY}"))


def _policy(
    folder: Path,
    model: DesignModel,
    config: Train,
    training: PolicyTraining,
    about: dict[str, Any],
) -> DesignPolicy:
    """The trained policy; one that was stopped before its evaluation is read again."""
    path = folder / POLICY
    if path.exists():
        stored = load_policy(path, model)
        unfinished = not (folder / RESULTS).exists()
        if unfinished and stored.rounds == config.rounds and stored.about == about:
            return stored.policy
        raise InputError(
            f"{folder} holds a policy already; choose another folder with --out, or use it: "
            f"credax design start {config.model} --policy {path}"
        )
    start = adaptive_policy(model, jax.random.key(config.seed), hidden=config.hidden)
    print(printable(f"training a policy of {config.rounds} experiments: {model.title}"))
    policy, _ = train_policy(model, start, config.rounds, training, key=config.seed)
    save_policy(path, policy, model, config.rounds, about)
    return policy


def _line(label: str, found: Information) -> str:
    if found.exact is not None:
        return f"  {label:<16}{found.exact[0]:.4f} nats, exact"
    return (
        f"  {label:<16}{found.lower[0]:.4f} to {found.upper[0]:.4f} nats, standard error "
        f"{found.standard_error[0]:.4f}"
    )


def _plain(found: Information) -> dict[str, Any]:
    return {
        "lower": float(found.lower[0]),
        "upper": float(found.upper[0]),
        "exact": None if found.exact is None else float(found.exact[0]),
        "standard_error": float(found.standard_error[0]),
    }


def copy_policy(path: str, folder: Path, model: DesignModel, description: dict[str, Any]) -> None:
    """The policy into the folder of a run, which then needs no other file."""
    stored = load_policy(path, model)
    # A policy that was saved by code, not by the command, may say nothing of its options.
    trained_for = stored.about.get("model", description)
    if trained_for != description:
        raise InputError(
            f"policy is {path}, which was trained for {json.dumps(trained_for)}, and the model is "
            f"{json.dumps(description)}; use the same model and options"
        )
    save_policy(folder / POLICY, stored.policy, model, stored.rounds, stored.about)


def policy_design(folder: Path, run: DesignRun, model: DesignModel) -> np.ndarray:
    """What the policy in the folder asks for after the experiments so far."""
    stored = load_policy(folder / POLICY, model)
    policy, number = stored.policy, len(run.rounds)
    if number >= stored.rounds:
        raise InputError(
            f"the policy in {folder} was trained for {stored.rounds} experiments, and all are "
            "done; see credax design report"
        )
    state, seen = policy.start(), run.seen
    for design, outcome in zip(seen.designs, seen.outcomes, strict=True):
        state = policy.update(state, jnp.asarray(design, float), jnp.asarray(outcome))
    key = jax.random.key(run.seed)
    return np.asarray(policy.choose(state, jnp.int32(number), key))
