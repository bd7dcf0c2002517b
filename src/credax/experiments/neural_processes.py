"""Neural processes trained on tasks for an experiment, with looks at them on the way."""

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from credax import methods
from credax.data import Dataset
from credax.functions.process_descent import Trained
from credax.functions.process_posterior import ProcessPosterior
from credax.functions.task_scores import measure
from credax.likelihood import HeteroscedasticGaussian
from credax.network import Variables
from credax.networks import MLP
from credax.problem import Problem
from credax.training import Training, fit


@dataclass
class Looks:
    """An observer that keeps the networks every so many steps."""

    every: int
    kept: dict[int, Trained] = field(default_factory=dict)

    def __call__(self, step: int, members: Variables) -> None:
        """Keep the first (the only) member."""
        self.kept[step] = jax.tree.map(lambda leaf: np.asarray(leaf)[0], members.params)


def train_process(
    name: str,
    record: dict[str, Any],
    data: Dataset,
    *,
    steps: int,
    batch: int,
    rate: float,
    seed: int,
    looks: int,
) -> tuple[ProcessPosterior, dict[int, ProcessPosterior]]:
    """A trained process, and as it was after some steps."""
    method = methods.get(name)(**record, least_steps=1)
    problem = Problem(MLP((1,), outputs=2), HeteroscedasticGaussian())
    per_epoch = max(1, len(data.train) // batch)
    training = Training(
        epochs=math.ceil(steps / per_epoch), batch_size=batch, optimiser="adam", learning_rate=rate
    )
    observer = Looks(max(1, steps // looks))
    posterior: Any = fit(
        problem, method, data, key=seed, training=training, progress=False, observer=observer
    )
    before = {s: dataclasses.replace(posterior, trained=t) for s, t in observer.kept.items()}
    return posterior, before


def gap_by_step(
    before: dict[int, ProcessPosterior], data: Dataset, sizes: tuple[int, int]
) -> dict[str, list[float]]:
    """The oracle gap after some steps, on the test tasks."""
    steps = sorted(before)
    found = [measure(before[s], data.test, sizes=sizes).scores for s in steps]
    return {
        "step": [float(s) for s in steps],
        "gap": [f["oracle_gap"] for f in found],
        "error": [f["oracle_gap_error"] for f in found],
    }
