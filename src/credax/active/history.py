"""How a loop went: purchases in order, accuracy against labels, what it cost."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from credax.active.state import Round, State


@dataclass(frozen=True)
class History:
    """What `credax.active.run` returns.

    ``posterior`` is that of the last round; ``final`` the final classifier of the last round, where
    one was asked for.
    """

    state: State
    seconds: tuple[float | None, ...]
    """Of each round: training, measuring and choosing; None where they are not known."""
    posterior: Any = None
    final: Any = None
    folder: Path | None = None

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The record of every round."""
        return self.state.rounds

    @property
    def purchases(self) -> np.ndarray:
        """Rows of the pool in the order in which their labels were bought, initial ones first."""
        return self.state.labelled

    @property
    def labels(self) -> list[int]:
        """Labelled rows that each round was trained on."""
        return [each.labels for each in self.rounds]

    def curve(self, metric: str = "accuracy", final: bool | None = None) -> list[float]:
        """A metric on the test rows, round by round; of the final classifier where there is one."""
        final = any(each.final for each in self.rounds) if final is None else final
        found = [each.final if final else each.metrics for each in self.rounds]
        return [values.get(metric, float("nan")) for values in found]

    def labels_for(self, accuracy: float) -> int | None:
        """The fewest labels with which the accuracy was reached; None where it was not."""
        pairs = zip(self.labels, self.curve(), strict=True)
        return next((labels for labels, found in pairs if found >= accuracy), None)

    @property
    def steps(self) -> int:
        """Gradient steps of all networks of all rounds that asked."""
        return sum(each.steps for each in self.rounds)

    @property
    def warnings(self) -> list[str]:
        """What choices warned of, with the number of the round."""
        return [f"round {each.number}: {text}" for each in self.rounds for text in each.warnings]
