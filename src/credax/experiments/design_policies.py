"""Deep adaptive design beside its baselines: total information of whole sequences."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from credax.design import models
from credax.design.baselines import greedy_policy, myopic_policy
from credax.design.deep_adaptive import PolicyTraining, policy_information, train_policy
from credax.design.histories import exact_policy_information
from credax.design.model import DesignModel
from credax.design.policies import (
    Box,
    DesignPolicy,
    RandomPolicy,
    adaptive_policy,
    box_of,
    random_policy,
    static_policy,
)
from credax.design.policy_files import save_policy
from credax.experiments.experiment import Outcome
from credax.experiments.intervals import intervals_panel, panel_size
from credax.experiments.published import Published
from credax.experiments.study import StudyArm, StudyBench, StudyTrial
from credax.report import Result
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Line
from credax.report.svg import Axis, Frame

LABELS = {
    "random": "Random",
    "static": "Static",
    "myopic": "Myopic",
    "greedy": "Exact greedy",
    "dad": "DAD",
}


@dataclass(frozen=True)
class Policies:
    """Settings of a comparison of policies; plain data."""

    model: str
    rounds: int
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the model."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Of the network, as `PolicyTraining`."""
    static: Mapping[str, Any] = field(default_factory=dict)
    """Of the fixed plan, as `PolicyTraining`."""
    hidden: int = 128
    encoding: int = 16
    outer: int = 2048
    inner: int = 20_000
    normal_designs: bool = False
    """Whether random designs are standard normal, and not uniform within the bounds."""
    exact: tuple[str, ...] = ()
    """Arms whose value is also summed over all histories."""
    myopic: Mapping[str, Any] = field(default_factory=dict)
    """Of the myopic policy, as `myopic_policy`."""


def arms(*names: str) -> tuple[StudyArm, ...]:
    """Rows by name, in the usual order."""
    return tuple(StudyArm(name, LABELS[name]) for name in LABELS if name in names)


def run(
    *published: Published, figure: Callable[[StudyBench], Figure] | None = None
) -> Callable[[StudyBench], Outcome]:
    """The experiment's function: every policy trained where it is, and evaluated by both bounds."""

    def measure(bench: StudyBench) -> Outcome:
        settings: Policies = bench.scale.settings
        found = bench.measured(lambda trial: measured(settings, trial))
        results = [_result(trial, values) for trial, values in found]
        figures = [bounds_figure(results), objective_figure(found)]
        figures += [] if figure is None else [figure(bench)]
        shown = tuple(each for each in figures if each is not None)
        return Outcome(results, published, shown, findings(found))

    return measure


def measured(settings: Policies, trial: StudyTrial) -> dict[str, Any]:
    """Train the policy of an arm, keep it, and evaluate it."""
    model = models.get(settings.model, **settings.options)
    began = time.monotonic()
    policy, values = policy_of(model, settings, trial)
    seconds = time.monotonic() - began
    if trial.arm.name in ("static", "dad"):
        about = {"model": {"name": settings.model, "options": dict(settings.options)}}
        save_policy(trial.folder / "policy.safetensors", policy, model, settings.rounds, about)
    found = policy_information(
        model, policy, settings.rounds, outer=settings.outer, inner=settings.inner, key=1000
    )
    exact = None
    if trial.arm.name in settings.exact:
        exact = exact_policy_information(model, policy, settings.rounds)
    return {
        "lower": float(found.lower[0]),
        "upper": float(found.upper[0]),
        "standard_error": float(found.standard_error[0]),
        "ceiling": found.ceiling,
        "exact": exact,
        "seconds": seconds,
        "objective": [float(v) for v in values],
    }


def policy_of(
    model: DesignModel, settings: Policies, trial: StudyTrial
) -> tuple[DesignPolicy, np.ndarray]:
    """The policy of an arm, trained if it is one that learns, and means of its objective."""
    name, rounds = trial.arm.name, settings.rounds
    first, second = jax.random.split(jax.random.key(trial.seed))
    if name == "random":
        shape = box_of(model).shape
        drawn = RandomPolicy(Box(None, None, shape)) if settings.normal_designs else None
        return drawn or random_policy(model), np.zeros(0)
    if name == "myopic":
        return myopic_policy(model, rounds, key=first, **settings.myopic), np.zeros(0)
    if name == "greedy":
        return greedy_policy(model), np.zeros(0)
    if name == "static":
        start: DesignPolicy = static_policy(model, rounds, first)
        training = PolicyTraining(**settings.static)
    else:
        sizes = {"hidden": settings.hidden, "encoding": settings.encoding}
        start, training = (
            adaptive_policy(model, first, **sizes),
            PolicyTraining(**settings.training),
        )
    policy, values = train_policy(model, start, rounds, training, key=second)
    # Fifty points of a noisy curve are enough for a picture.
    return policy, np.array([part.mean() for part in np.array_split(values, min(50, len(values)))])


def _result(trial: StudyTrial, values: dict[str, Any]) -> Result:
    metrics = {
        "lower_bound": values["lower"],
        "upper_bound": values["upper"],
        "standard_error": values["standard_error"],
    }
    metrics |= {} if values["exact"] is None else {"exact": values["exact"]}
    cost = {"training_seconds": values["seconds"]}
    return Result(trial.arm.label, trial.seed, metrics, cost=cost)


def findings(found: list[tuple[StudyTrial, dict[str, Any]]]) -> tuple[str, ...]:
    """How far the network's lower bound is above what other policies have at most."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for trial, values in found:
        by_name.setdefault(trial.arm.name, []).append(values)
    sentences = []
    for name, others in by_name.items():
        if name == "dad" or "dad" not in by_name:
            continue
        for seed, (own, other) in enumerate(zip(by_name["dad"], others, strict=True)):
            error = float(np.hypot(own["standard_error"], other["standard_error"]))
            gap = own["lower"] - other["lower"]
            sentences.append(
                f"DAD minus {LABELS[name]}, seed {seed}: {gap:+.3f} nats by the lower bounds, "
                f"{gap / error:+.1f} standard errors ({own['lower'] - other['upper']:+.3f} from "
                "lower to upper bound)."
            )
    return tuple(sentences)


def bounds_figure(results: list[Result]) -> Figure:
    """Both bounds of every policy, the lower one named."""
    low, high = ([r.metrics[name] for r in results] for name in ("lower_bound", "upper_bound"))
    errors = np.array([r.metrics["standard_error"] for r in results])
    labels = [r.method for r in results]
    panel = intervals_panel(
        "", labels, low, np.array(low) - 3 * errors, np.array(high) + 3 * errors,
        "total information (nats)",
    )  # fmt: skip
    caption = (
        "Total information: the lower bound as a point; dashed: from three standard errors below "
        "it to as many above the upper bound."
    )
    return Sheet("bounds", caption, [panel], 1, panel_size(len(labels)))


def objective_figure(found: list[tuple[StudyTrial, dict[str, Any]]]) -> Figure | None:
    """The objective while policies were trained, in fiftieths of the training."""
    trained = [(trial, values) for trial, values in found if values["objective"]]
    if not trained:
        return None
    every = np.concatenate([values["objective"] for _, values in trained])
    frame = Frame(Axis(0, 1, "share of the training"), Axis.around(every, "objective (nats)"))
    lines = [
        Line(np.linspace(0, 1, len(v["objective"])), v["objective"], i, markers=False)
        for i, (_, v) in enumerate(trained)
    ]
    names = [f"{trial.arm.label}, seed {trial.seed}" for trial, _ in trained]
    caption = "The objective of training: the contrastive bound with as few draws as a step has."
    return Sheet("objective", caption, [Panel("", frame, lines)], 1, series=names)
