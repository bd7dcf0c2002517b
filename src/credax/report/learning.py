"""Learning curves of active learning: how many labels buy how much accuracy, and at what cost."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LEVELS = (0.9, 0.95)


@dataclass(frozen=True)
class LearningRun:
    """One loop: a method, an acquisition, a seed. Sequences are round by round."""

    arm: str
    seed: int
    labels: Sequence[int]
    values: Sequence[float]
    """Accuracy, or RMSE for a regression, on the test rows."""
    nll: Sequence[float]
    scores: Sequence[float]
    """The score of the last row of every query, in order of choice; for BatchBALD the joint one."""
    ceiling: Sequence[float | None]
    classes: Sequence[int]
    """Purchases after the initial ones, class by class."""
    duplicates: int
    purchases: int
    steps: int
    seconds: float
    first: Sequence[Any] = field(default_factory=tuple)
    """Pictures that were bought first (`credax.report.contact_sheet.Shown`), where there are."""
    warnings: Sequence[str] = ()

    def labels_for(self, level: float) -> float:
        """The fewest labels with which a value was reached; infinite where it was not."""
        pairs = zip(self.labels, self.values, strict=True)
        return next((float(labels) for labels, value in pairs if value >= level), math.inf)


@dataclass(frozen=True)
class Learning:
    """All loops of a comparison."""

    title: str
    data: str
    metric: str
    """accuracy or rmse."""
    class_names: tuple[str, ...]
    runs: Sequence[LearningRun]
    config: dict[str, Any]
    command: str = ""

    @property
    def arms(self) -> list[str]:
        """The arms in the order in which they first come."""
        return list(dict.fromkeys(run.arm for run in self.runs))

    def of(self, arm: str) -> list[LearningRun]:
        """The seeds of an arm."""
        return [run for run in self.runs if run.arm == arm]

    def quartiles(self, arm: str) -> tuple[np.ndarray, np.ndarray]:
        """Labels, and lower quartile, median and upper quartile of the values there."""
        runs = self.of(arm)
        values = np.array([run.values for run in runs], float)
        return np.asarray(runs[0].labels), np.quantile(values, [0.25, 0.5, 0.75], axis=0)


def header(learning: Learning, brief: bool = False) -> list[str]:
    """The columns of `table`; ``brief`` ones fit a terminal."""
    levels = LEVELS if learning.metric == "accuracy" else ()
    named = [f"{level:.0%}" if brief else f"labels for {level:.0%}" for level in levels]
    last = f"{learning.metric} at {learning.runs[0].labels[-1]}"
    steps = "steps" if brief else "gradient steps"
    return ["arm", *named, last if brief else f"{last} labels", "duplicates", steps, "seconds"]


def table(learning: Learning) -> list[list[str]]:
    """A row per arm: medians over seeds; a level that not all seeds reached says how many did."""
    rows = []
    for arm in learning.arms:
        runs = learning.of(arm)
        levels = LEVELS if learning.metric == "accuracy" else ()
        low, middle, high = learning.quartiles(arm)[1][:, -1]
        copies, bought = sum(run.duplicates for run in runs), sum(run.purchases for run in runs)
        rows.append(
            [
                arm,
                *[_reached([run.labels_for(level) for run in runs]) for level in levels],
                f"{middle:.3f} ({low:.3f} to {high:.3f})",
                f"{copies} of {bought}",
                f"{np.median([run.steps for run in runs]):.0f}",
                f"{np.median([run.seconds for run in runs]):.1f}",
            ]
        )
    return rows


def _reached(found: list[float]) -> str:
    reached = [labels for labels in found if math.isfinite(labels)]
    if not reached:
        return "not reached"
    middle = float(np.median(found))
    text = f"{middle:g}" if math.isfinite(middle) else f"over {max(reached):g}"
    return text if len(reached) == len(found) else f"{text} ({len(reached)} of {len(found)} seeds)"
