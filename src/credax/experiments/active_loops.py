"""Experiments of active learning: a loop for every arm and seed, counted in labels."""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from credax.active.history import History
from credax.active.loop import run as run_loop
from credax.active.repeated import duplicates, origins, repeated
from credax.data import Dataset
from credax.experiments.bench import Bench, Trial
from credax.experiments.experiment import Outcome
from credax.experiments.published import Published
from credax.networks.convolution import Conv
from credax.networks.layers import Activation, Dense, Dropout, Flatten
from credax.networks.pooling import MaxPool
from credax.networks.sequential import Sequential
from credax.report import Result
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Band, Line, Reference
from credax.report.svg import Axis, Frame
from credax.training import Training

LEVELS = {"labels_for_90": 0.9, "labels_for_95": 0.95}


@dataclass(frozen=True)
class Buying:
    """How labels are bought; plain data."""

    initial: int
    query: int
    rounds: int
    acquisitions: Mapping[str, str] = field(default_factory=dict)
    """By the arm's name; an arm that is not here has its own name as acquisition."""
    continued: tuple[str, ...] = ()
    """Arms that go on with their trajectory and do not train anew."""
    scoring_pool: int | None = None
    repeat: int = 1
    """Copies of every row of the pool, each with its own noise."""
    noise: float = 0.1
    steps: int | None = None
    """Gradient steps of every training; None leaves the epochs."""
    validation: int = 0
    """Rows of the training data for early stopping; they are never bought."""

    def labels(self) -> int:
        """Labels of the last round."""
        return self.initial + self.query * self.rounds


class Loop(NamedTuple):
    """A finished loop."""

    trial: Trial
    history: History
    copies: int


def dropout_network(
    outputs: int,
    channels: Sequence[int] = (32, 64),
    dense: int = 128,
    size: int = 5,
    pools: int = 2,
    padding: Literal["SAME", "VALID"] = "SAME",
    rate: float = 0.5,
    first: float | None = None,
) -> Sequential:
    """Convolutions, one hidden layer, dropout before it and before the head.

    Dropout comes after the convolutions only, so that all masks share their outputs; with a
    ``rate`` of zero there is none. ``first`` is the rate before the hidden layer where it differs.
    """
    layers: list[Any] = []
    for index, width in enumerate(channels):
        layers.append(Conv(width, size, padding=padding, initialiser="he"))
        # The last ``pools`` convolutions are pooled.
        layers += [MaxPool(2)] if index >= len(channels) - pools else []
        layers.append(Activation("relu"))
    before, after = ([Dropout(r)] if r else [] for r in (rate if first is None else first, rate))
    layers += [Flatten(), *before, Dense(dense, initialiser="he"), Activation("relu")]
    return Sequential((*layers, *after, Dense(outputs)))


CPU_NETWORK = functools.partial(dropout_network, channels=(16, 32), size=5, padding="VALID")
CPU_TRAINING = Training(
    batch_size=32, optimiser="adam", learning_rate=2e-3, schedule="constant", last_batch="pad"
)
CPU_WORDS = (
    "5x5 convolutions of 16 and 32 channels without padding, 128 hidden units, dropout of {before} "
    "before and a half after them, {steps} steps of Adam at {rate} with 32 rows from scratch in "
    "each round; steps, rate, batch, width and weight decay were chosen by the accuracy on 2000 "
    "rows of the training data: no test row was looked at"
)


def run(
    *published: Published,
    findings: Callable[[list[Loop]], tuple[str, ...]] = lambda loops: (),
    after: Callable[[Bench, Dataset, list[Loop]], tuple[str, ...]] = lambda *given: (),
) -> Callable[[Bench], Outcome]:
    """The experiment's function: every arm and seed, labels against accuracy.

    ``after`` may train on what was bought, and has sentences of its own.
    """

    def measure(bench: Bench) -> Outcome:
        dataset, loops = pool_of(bench), []
        for number, trial in enumerate(bench.trials, 1):
            bench.say(f"{trial.arm.label}, seed {trial.seed}  ({number} of {len(bench.trials)})")
            loops.append(bought(bench, trial, dataset))
        results = [result(bench, loop) for loop in loops]
        said = (*reached(loops), *findings(loops), *after(bench, dataset, loops))
        return Outcome(results, published, (curves(loops),), said)

    return measure


def pool_of(bench: Bench) -> Dataset:
    """The experiment's data, with validation rows and copies where there are any."""
    settings: Buying = bench.scale.evaluation
    dataset = bench.dataset
    if settings.validation:
        dataset = dataset.with_validation(settings.validation / len(dataset.train))
    return repeated(dataset, settings.repeat, settings.noise)


def bought(bench: Bench, trial: Trial, dataset: Dataset) -> Loop:
    """Run, resume or read the loop of one arm and seed."""
    settings: Buying = bench.scale.evaluation
    name = trial.arm.name
    history = run_loop(
        bench.scale.problem(trial.arm),
        trial.arm.method,
        dataset,
        acquisition=settings.acquisitions.get(name, name),
        query=settings.query,
        rounds=settings.rounds,
        initial=settings.initial,
        retrain="continue" if name in settings.continued else "scratch",
        scoring_pool=settings.scoring_pool,
        steps=settings.steps,
        key=trial.seed,
        training=bench.scale.training_of(trial.arm),
        folder=trial.folder,
        keep_members=False,
        progress=bench.progress,
    )
    found = origins(dataset.train.x, history.purchases, settings.repeat)
    return Loop(trial, history, duplicates(found, settings.initial))


def result(bench: Bench, loop: Loop) -> Result:
    """A row of the table: accuracy at the end, labels needed, copies bought, cost."""
    trial, history, copies = loop
    metrics = {name: history.curve(name)[-1] for name in ("accuracy", "nll")}
    needed = {name: history.labels_for(level) for name, level in LEVELS.items()}
    metrics |= {name: float(labels) for name, labels in needed.items() if labels is not None}
    middle = history.curve()[len(history.rounds) // 2]
    metrics |= {"accuracy_halfway": middle, "copies_bought": float(copies)}
    metrics |= {"gradient_steps": float(history.steps)}
    seconds = sum(s or 0.0 for s in history.seconds)
    rows = [
        {"labels": n, "accuracy": a} for n, a in zip(history.labels, history.curve(), strict=True)
    ]
    return Result(
        method=trial.arm.label,
        seed=trial.seed,
        metrics=metrics,
        cost={
            "members": history.rounds[-1].members,
            "parameters": bench.params(trial.arm),
            "training_seconds": seconds,
        },
        config={"arm": trial.arm.name, "curve": rows},
        notes=tuple(history.warnings[:1]),
    )


def by_arm(loops: Sequence[Loop]) -> dict[str, list[Loop]]:
    """The loops of every row of the table."""
    found: dict[str, list[Loop]] = {}
    for loop in loops:
        found.setdefault(loop.trial.arm.label, []).append(loop)
    return found


def median_labels(loops: Sequence[Loop], level: float) -> float:
    """Median over seeds of the labels needed; infinite where half of them did not get there."""
    needed = [loop.history.labels_for(level) for loop in loops]
    return float(np.median([math.inf if n is None else n for n in needed]))


def reached(loops: Sequence[Loop]) -> tuple[str, ...]:
    """A sentence per level: medians over seeds, with those that did not get there counted."""
    sentences = []
    for level in LEVELS.values():
        parts = []
        for label, own in by_arm(loops).items():
            middle = median_labels(own, level)
            missed = sum(loop.history.labels_for(level) is None for loop in own)
            text = f"{middle:g}" if math.isfinite(middle) else "not reached"
            parts.append(
                f"{label} {text}" + (f" ({missed} of {len(own)} missed)" if missed else "")
            )
        sentences.append(f"Labels for {level:.0%}, median over seeds: {', '.join(parts)}.")
    return tuple(sentences)


def curves(loops: Sequence[Loop]) -> Figure:
    """Median accuracy against labels, with quartiles over seeds."""
    arms = by_arm(loops)
    labels = {label: np.asarray(own[0].history.labels) for label, own in arms.items()}
    values = {
        label: np.quantile([loop.history.curve() for loop in own], [0.25, 0.5, 0.75], axis=0)
        for label, own in arms.items()
    }
    every = functools.partial(np.concatenate, axis=None)
    x = Axis.around(every(list(labels.values())), "labels", pad=0.02)
    y = Axis.around(every(list(values.values())), "accuracy")
    bands = [Band(labels[a], values[a][0], values[a][2], i) for i, a in enumerate(arms)]
    lines = [Line(labels[a], values[a][1], i, markers=False) for i, a in enumerate(arms)]
    levels = [
        Reference([x.low, x.high], [level] * 2)
        for level in LEVELS.values()
        if y.low < level < y.high
    ]
    panel = Panel("", Frame(x, y, right=560, bottom=360), [*levels, *bands, *lines])
    caption = (
        "Accuracy on the test rows against labels: median over seeds, the band between quartiles; "
        "dashed: 90 % and 95 %."
    )
    return Sheet("learning-curves", caption, [panel], 1, (570, 395), list(arms))
