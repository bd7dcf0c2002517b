"""What is trained before the method itself: networks at which chains begin."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from credax.data.dataset import Split
from credax.posterior import Population
from credax.problem import Problem
from credax.training.config import Training
from credax.training.run import RunFolder

FOLDER = "first"
HELD_OUT = 0.15
"""Share of the training rows for early stopping where there are no validation rows."""
_SPLIT = 2**31 - 3


@dataclass(frozen=True)
class Stage:
    """One training before another, of the same problem and rows."""

    method: Any
    training: Training
    problem: Problem
    train_rows: Split
    held_out: Split | None
    key: jax.Array
    folder: str | Path | None

    def train(self, fit: Callable[..., Any], **options: Any) -> tuple[Population, float]:
        """The trained networks and the seconds they took; in a folder, a finished one is read."""
        began = time.monotonic()
        folder = None if self.folder is None else Path(self.folder) / FOLDER
        rows, held_out = self.rows()
        networks = fit(
            self.problem,
            self.method,
            rows,
            key=self.key,
            # Rows held out here leave fewer than the settings were made for.
            training=self.training.replace(batch_size=min(self.training.batch_size, len(rows))),
            validation=held_out,
            folder=folder,
            **options,
        )
        seconds = time.monotonic() - began
        ending = None if folder is None else RunFolder(folder).ending
        return networks, seconds if ending is None else float(ending["seconds"] or seconds)

    def rows(self) -> tuple[Split, Split | None]:
        """Rows to train on and rows for early stopping: held out here where none are given."""
        stops = self.training.patience is not None or self.training.keep_best
        if not stops or (self.held_out is not None and len(self.held_out)):
            return self.train_rows, self.held_out
        count = len(self.train_rows)
        order = np.asarray(jax.random.permutation(jax.random.fold_in(self.key, _SPLIT), count))
        kept = max(1, round(HELD_OUT * count))
        return self.train_rows[np.sort(order[kept:])], self.train_rows[np.sort(order[:kept])]
