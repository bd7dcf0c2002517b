"""Where an experiment runs: its data, a run folder for every fit, what is done already."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from credax.data import Dataset
from credax.errors import InputError, unknown
from credax.experiments.experiment import Arm, Experiment, Outcome, Scale
from credax.files import read_json, write_json
from credax.network import count_params
from credax.posterior import Posterior
from credax.prediction import Prediction
from credax.problem import Problem
from credax.reading import check_record
from credax.reading.records import ANYTHING, OBJECT
from credax.report import Comparison, Result
from credax.training import RunFolder, fit

MEASURED = {"settings": ANYTHING, "measured": OBJECT}
"""What is kept of a measurement."""


@dataclass(frozen=True)
class Trial:
    """One fit: an arm, a seed, and the folder that keeps it."""

    arm: Arm
    seed: int
    folder: Path


@dataclass(frozen=True)
class Bench:
    """An experiment at one scale, with its data loaded."""

    experiment: Experiment
    size: str
    scale: Scale
    dataset: Dataset
    root: Path
    seeds: int
    progress: bool | None = None
    say: Callable[[str], None] = lambda text: None
    data_dir: str | None = None
    """Folder with the data files, for experiments that read several sets."""
    only: int | None = None
    """One trial by its number, where trials are shared out to the workers of a cluster."""

    def problem(self, arm: Arm) -> Problem:
        """An arm's problem in the data's units."""
        train = self.dataset.train
        return self.scale.problem(arm, train).with_units(train.inputs, train.targets)

    @property
    def trials(self) -> list[Trial]:
        """Every arm and seed, in the order of the table."""
        every = trials(self.scale, self.root, self.seeds)
        return every if self.only is None else [every[self.only]]

    def params(self, arm: Arm) -> int:
        """Learned numbers of one of its networks."""
        x = self.dataset.train.x
        example = jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype)
        return count_params(jax.eval_shape(self.problem(arm).init, jax.random.key(0), example))

    def trained(self) -> Iterator[tuple[Trial, Posterior]]:
        """Every trial with its posterior, trained, resumed or read, one after another."""
        every = self.trials
        for number, trial in enumerate(every, 1):
            self.say(f"{trial.arm.label}, seed {trial.seed}  ({number} of {len(every)})")
            yield trial, self.posterior(trial)

    def posterior(self, trial: Trial) -> Posterior:
        """Train, or resume, or read the finished run."""
        return fit(
            self.scale.problem(trial.arm, self.dataset.train),
            trial.arm.method,
            self.dataset.train,
            key=trial.seed,
            training=self.scale.training_of(trial.arm),
            validation=self.dataset.validation,
            folder=trial.folder,
            config={
                "experiment": self.experiment.name,
                "scale": self.size,
                "arm": trial.arm.name,
                "data": self.dataset.name,
                "seed": trial.seed,
            },
            progress=self.progress,
        )

    def remembered(self, trial: Trial, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What ``measure`` says of a finished trial; it is kept beside the run, and read again.

        A change of the scale's evaluation settings measures anew.
        """
        settings = _plain(self.scale.evaluation)
        return remembered(trial.folder / "evaluation.json", settings, measure)

    def comparison(self, outcome: Outcome) -> Comparison:
        """The results as the report knows them."""
        dataset = self.dataset
        return Comparison(
            title=f"{self.experiment.title} ({self.size} scale)",
            data=outcome.data or dataset.name,
            task=dataset.task,
            results=outcome.results,
            class_names=dataset.class_names,
        )

    def result(
        self, trial: Trial, metrics: dict[str, float], prediction: Prediction | None = None
    ) -> Result:
        """A row of the table, with its history and cost."""
        folder = RunFolder(trial.folder)
        history = folder.history()
        ending = next((line for line in history if line.get("event") == "finished"), {})
        excluded = ending.get("excluded", {})
        y = None if prediction is None else np.asarray(self.dataset.test.y)
        return Result(
            method=trial.arm.label,
            seed=trial.seed,
            metrics=metrics,
            prediction=prediction,
            y=y,
            history=[_numbers(line) for line in history if "event" not in line],
            cost={
                "members": getattr(trial.arm.method, "members", 1),
                "parameters": self.params(trial.arm),
                "epochs": self.scale.training_of(trial.arm).epochs,
                "training_seconds": ending.get("seconds"),
                "compile_seconds": ending.get("compile_seconds"),
                "peak_memory_bytes": ending.get("peak_memory_bytes"),
            },
            config=read_json(trial.folder / "config.json"),
            notes=tuple(
                f"member {member} was left out: its loss became non-finite at epoch {epoch:.1f}"
                for member, epoch in excluded.items()
            ),
        )


def remembered(path: Path, settings: Any, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What ``measure`` says, kept in a file with its settings and read again where they agree."""
    if path.exists():
        kept = check_record(read_json(path), MEASURED, path)
        if kept["settings"] == settings:
            return kept["measured"]
    measured = measure()
    write_json(path, {"settings": settings, "measured": measured})
    return measured


def trials(scale: Scale, root: Path, seeds: int) -> list[Trial]:
    """Every arm and seed of a scale, each with its folder."""
    return [
        Trial(arm, seed, root / f"{arm.name}_{seed}") for arm in scale.arms for seed in range(seeds)
    ]


def chosen(scale: Scale, names: tuple[str, ...]) -> Scale:
    """The scale with some of its arms; none named means all."""
    known = [arm.name for arm in scale.arms]
    for name in names:
        if name not in known:
            raise unknown("arm", name, known)
    if not names:
        return scale
    return dataclasses.replace(scale, arms=tuple(a for a in scale.arms if a.name in names))


def check_seeds(seeds: int) -> int:
    """At least one."""
    if seeds < 1:
        raise InputError(f"seeds is {seeds}; give at least 1")
    return seeds


def _numbers(line: dict[str, Any]) -> dict[str, Any]:
    """A record whose members' lists hold NaN where a member had diverged and JSON has null."""
    return {
        name: [np.nan if v is None else v for v in value] if isinstance(value, list) else value
        for name, value in line.items()
    }


def _plain(settings: Any) -> Any:
    if dataclasses.is_dataclass(settings) and not isinstance(settings, type):
        settings = dataclasses.asdict(settings)
    return json.loads(json.dumps(settings))
