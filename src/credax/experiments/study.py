"""Experiments without a data set: arms with plain settings, measured once each and kept."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from credax.experiments.bench import remembered
from credax.experiments.experiment import Outcome
from credax.report import Comparison


@dataclass(frozen=True)
class StudyArm:
    """One row of a study's table."""

    name: str
    """As in folders and ``--arms``."""
    label: str
    """As in tables; equal to the published row's label where there is one."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Plain data that the study's function needs for this row."""


@dataclass(frozen=True)
class StudyScale:
    """All settings of a study at one size."""

    arms: tuple[StudyArm, ...]
    seeds: int
    settings: Any
    """Plain data, or a frozen dataclass of it."""
    about: str
    """What is measured on, in the table's heading."""
    note: str = ""
    """What a reader must know to compare this scale with the published one."""

    def plan(self, name: str, size: str, seeds: int) -> dict[str, Any]:
        """What would be done, as plain data."""
        return {
            "experiment": name,
            "scale": size,
            "note": self.note,
            "settings": plain(self.settings),
            "seeds": list(range(seeds)),
            "arms": {arm.name: {"label": arm.label, **plain(arm.settings)} for arm in self.arms},
        }


@dataclass(frozen=True)
class StudyTrial:
    """One measurement: an arm, a seed, and the folder that keeps it."""

    arm: StudyArm
    seed: int
    folder: Path


@dataclass(frozen=True)
class StudyBench:
    """A study at one scale."""

    experiment: Any
    size: str
    scale: StudyScale
    root: Path
    seeds: int
    say: Callable[[str], None] = lambda text: None
    only: int | None = None
    """One trial by its number, where trials are shared out to the workers of a cluster."""

    @property
    def trials(self) -> list[StudyTrial]:
        """Every arm and seed, in the order of the table."""
        every = [
            StudyTrial(arm, seed, self.root / f"{arm.name}_{seed}")
            for arm in self.scale.arms
            for seed in range(self.seeds)
        ]
        return every if self.only is None else [every[self.only]]

    def measured(
        self, measure: Callable[[StudyTrial], dict[str, Any]]
    ) -> list[tuple[StudyTrial, dict[str, Any]]]:
        """Every trial with what ``measure`` says of it: read where it was measured before.

        A change of the settings measures anew.
        """
        found, every = [], self.trials
        for number, trial in enumerate(every, 1):
            self.say(f"{trial.arm.label}, seed {trial.seed}  ({number} of {len(every)})")
            settings = [plain(self.scale.settings), plain(trial.arm.settings), trial.seed]
            path = trial.folder / "measured.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            found.append((trial, remembered(path, settings, lambda t=trial: measure(t))))
        return found

    def comparison(self, outcome: Outcome) -> Comparison:
        """The results as the report knows them."""
        return Comparison(
            title=f"{self.experiment.title} ({self.size} scale)",
            data=outcome.data or self.scale.about,
            task="regression",
            results=outcome.results,
        )


def plain(settings: Any) -> Any:
    """Settings as JSON would give them back."""
    if dataclasses.is_dataclass(settings) and not isinstance(settings, type):
        settings = dataclasses.asdict(settings)
    return json.loads(json.dumps(settings))
