"""One round: train on the labels, measure, and choose what to ask for next."""

import dataclasses
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Key

from credax.active.candidates import Candidates
from credax.active.choice import Choice
from credax.active.given import Pool
from credax.active.pool import Rows
from credax.active.state import State
from credax.data.dataset import Dataset, Split
from credax.errors import InputError
from credax.fitting import fit
from credax.keys import numpy_generator
from credax.metrics import evaluate
from credax.problem import Problem
from credax.standardise import Standardise
from credax.training import RunFolder, Training
from credax.training.hooks import problem_of, settings_of

METRICS = {"classification": ["accuracy", "nll"], "regression": ["rmse", "nll"]}


class Keys(NamedTuple):
    """Random keys of one round, each for one purpose."""

    train: Key[Array, ""]
    draw: Key[Array, ""]
    choose: Key[Array, ""]
    subset: Key[Array, ""]
    final: Key[Array, ""]
    replay: Key[Array, ""]

    @classmethod
    def of(cls, key: Any, number: int) -> "Keys":
        """The keys of round ``number``, which do not depend on other rounds."""
        own = jax.random.fold_in(key, number)
        return cls(*(jax.random.fold_in(own, purpose) for purpose in range(len(cls._fields))))


class Trained(NamedTuple):
    """A posterior, gradient steps of all its networks, and seconds."""

    posterior: Any
    steps: int
    seconds: float


@dataclass(frozen=True)
class Trainer:
    """What is trained in a round, whatever the labels are."""

    problem: Problem
    method: Any
    training: Training
    validation: Split | None = None
    about: Dataset | None = None
    """Names and preparation that the folder of a round keeps; its rows are not used."""
    config: dict[str, Any] | None = None
    """What else that folder's ``config.json`` holds."""
    steps: int | None = None
    """Gradient steps of a training, however many labels there are; None leaves its epochs."""

    def fit(self, rows: Split, key: Any, folder: Path | None, progress: Any = False) -> Trained:
        """Train on labelled rows, or go on, or read what is finished in the folder."""
        training = fitting(self.training, len(rows), self.steps)
        data: Any = rows
        if self.about is not None:
            data = dataclasses.replace(
                self.about, train=rows, test=rows[:0], validation=self.validation
            )
        began = time.monotonic()
        posterior = fit(
            self.problem,
            self.method,
            data,
            key=key,
            training=training,
            validation=self.validation,
            folder=folder,
            config=self.config,
            progress=progress,
        )
        seconds = time.monotonic() - began
        return Trained(posterior, self._steps(rows, training, folder), seconds)

    def _steps(self, rows: Split, training: Training, folder: Path | None) -> int:
        """Steps of all networks; early stopping is seen where there is a folder."""
        own = settings_of(self.method, training, len(rows))
        problem = self.problem.with_units(rows.inputs, rows.targets)
        dynamics = self.method.dynamics(problem_of(self.method, problem), rows, own)
        steps = own.epochs * own.steps_per_epoch(len(rows))
        ending = None if folder is None else RunFolder(folder).ending
        if ending is not None and ending.get("step") is not None:
            steps = ending["step"]
        return int(steps) * dynamics.replicas.count


def fitting(training: Training, rows: int, steps: int | None = None) -> Training:
    """The settings for so many labels, for loops begin with few: batches no larger than they are.

    With ``steps``, as few epochs as give so many: ``⌈steps / steps per epoch⌉``.

    >>> fitting(Training(epochs=5, batch_size=32, last_batch="pad"), 70, steps=100).epochs
    34
    """
    training = training.replace(batch_size=min(training.batch_size, rows))
    if steps is None:
        return training
    return training.replace(epochs=math.ceil(steps / training.steps_per_epoch(rows)))


def labelled_rows(pool: Pool, state: State, places: np.ndarray | None = None) -> Split:
    """The labelled rows, or some of them; targets of a regression in units of their own.

    Units of the inputs are those of the whole pool, whose inputs are known; those of the targets
    may come from labels that were bought and from no others.
    """
    places = np.arange(len(state.labelled)) if places is None else places
    y = state.labels[places]
    targets = Standardise.of(state.labels) if pool.scaled_targets else None
    return Split(np.asarray(pool.x[state.labelled[places]]), y, pool.inputs, targets)


def measured(posterior: Any, test: Split | None, key: Any, task: str) -> dict[str, float]:
    """Accuracy or RMSE, and NLL, on test rows; nothing where there are none."""
    if test is None or len(test) == 0:
        return {}
    found = evaluate(posterior.predict(test.x, key=key), test.y, METRICS[task])
    return {name: float(value) for name, value in found.items()}


class Query(NamedTuple):
    """Rows of the pool to ask for, in order, and the choice that led to them."""

    rows: np.ndarray
    choice: Choice


def ask_for(
    posterior: Any,
    pool: np.ndarray,
    state: State,
    acquisition: Any,
    count: int,
    keys: Keys,
    *,
    scoring_pool: int | None,
    chunk: int,
    target_x: Any = None,
) -> Query:
    """Score the unlabelled rows, or a random subset of them, and choose ``count``."""
    free = scored_rows(state, scoring_pool, count, keys)
    candidates = Candidates(
        posterior=posterior,
        x=Rows(pool, free),  # pyright: ignore[reportArgumentType]
        labelled_x=np.asarray(pool[np.sort(state.labelled)]),
        key=keys.draw,
        chunk=chunk,
        target_x=target_x,
    )
    choice = acquisition.choose(candidates, count, key=keys.choose)
    return Query(free[np.asarray(choice.indices)], choice)


def scored_rows(state: State, most: int | None, count: int, keys: Keys) -> np.ndarray:
    """Unlabelled rows that are scored, in rising order: all, or a new random subset every round."""
    free = state.unlabelled
    if count > len(free):
        raise InputError(
            f"query is {count} and the pool has {len(free)} unlabelled rows; ask for fewer"
        )
    if most is None or most >= len(free):
        return free
    if most < count:
        raise InputError(
            f"scoring_pool is {most} and query is {count}; score at least as many rows as are "
            "bought"
        )
    return np.sort(numpy_generator(keys.subset).permutation(free)[:most])
