"""Training that keeps the members' predictions at chosen steps and points, not their weights."""

import hashlib
import io
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from credax.data import Dataset, Split
from credax.experiments.bench import Bench, Trial
from credax.experiments.experiment import Arm, Data, Scale
from credax.files import write_atomic
from credax.likelihood import Gaussian
from credax.network import Network
from credax.problem import Problem
from credax.reading import check_record, read_npz
from credax.reading.records import kind
from credax.report import Result
from credax.training import Training, fit

NEVER = 2**40
BATCH = 1024
_KEPT = {
    "label": kind("text", lambda v: v.dtype.kind == "U" and v.ndim == 0),
    "steps": kind("whole numbers", lambda v: v.dtype.kind in "iu" and v.ndim == 1),
    "outputs": kind("four-dimensional", lambda v: v.dtype.kind == "f" and v.ndim == 4),
    "seconds": kind("a number", lambda v: v.dtype.kind == "f" and v.ndim == 0),
}


@dataclass(frozen=True)
class MadeData(Data):
    """A data set that the experiment makes itself."""

    make: Callable[[], Dataset] | None = None

    def load(self, root: str | None = None, download: bool = True) -> Dataset:
        """The rows."""
        assert self.make is not None
        return self.make()

    def available(self, root: str | None = None) -> bool:
        """Always: it is made."""
        return True


class Recorder:
    """Keeps the members' outputs at points after chosen steps; in between it does not look."""

    def __init__(self, problem: Problem, points: np.ndarray, steps: tuple[int, ...]):
        self.problem, self.points = problem, points
        self.steps = tuple(sorted(steps))
        self.found: dict[int, np.ndarray] = {}
        self.every = self._next(0)

    def _next(self, step: int) -> int:
        # The loop stops at the next multiple of ``every``: the next step itself is its first one.
        return next((s for s in self.steps if s > step), NEVER)

    def __call__(self, step: int, members: Any) -> None:
        """The members after a step."""
        if step in self.steps:
            rows = range(0, len(self.points), BATCH)
            parts = [_outputs(self.problem, members, self.points[i : i + BATCH]) for i in rows]
            self.found[step] = np.concatenate([np.asarray(part) for part in parts], axis=1)
        self.every = self._next(step)


@eqx.filter_jit
def _outputs(problem, members, points):
    prepared = problem.prepare_inputs(points)
    return jax.vmap(lambda v: problem.outputs(v, prepared)[0])(members)


@dataclass(frozen=True)
class Recording:
    """Outputs ``[steps, members, points, outputs]`` and how long the training took."""

    steps: tuple[int, ...]
    outputs: Float[np.ndarray, "steps members points outputs"]
    seconds: float

    def at(self, step: int) -> Float[np.ndarray, "members points outputs"]:
        """The outputs after a step."""
        return self.outputs[self.steps.index(step)].astype(np.float64)


def record(
    path: Path,
    problem: Problem,
    method: Any,
    split: Split,
    *,
    seed: int,
    training: Training,
    points: np.ndarray,
    steps: tuple[int, ...],
) -> Recording:
    """Train and record, or read what an equal training recorded in the file."""
    label = _digest(problem, method, training, split, points, steps, seed)
    if path.exists():
        kept = read_npz(path)
        check_record(kept, _KEPT, path, remedy="remove it to record again")
        if str(kept["label"]) == label:
            return Recording(tuple(kept["steps"].tolist()), kept["outputs"], float(kept["seconds"]))
    problem = problem.with_units(split.inputs, split.targets)
    recorder = Recorder(problem, points, steps)
    began = time.monotonic()
    fit(problem, method, split, key=seed, training=training, progress=False, observer=recorder)
    seconds = time.monotonic() - began
    outputs = np.stack([recorder.found[step] for step in recorder.steps])
    content = io.BytesIO()
    np.savez(content, label=label, steps=recorder.steps, outputs=outputs, seconds=seconds)
    write_atomic(path, content.getvalue())
    return Recording(recorder.steps, outputs, seconds)


def record_trial(
    bench: Bench,
    trial: Trial,
    split: Split,
    points: np.ndarray,
    steps: tuple[int, ...],
    **changes: Any,
) -> Recording:
    """`record` of one trial, in a file of its own; ``changes`` are to the scale's training."""
    bench.say(f"{trial.arm.label}, seed {trial.seed}")
    return record(
        bench.root / f"{trial.arm.name}_{trial.seed}.npz",
        bench.scale.problem(trial.arm),
        trial.arm.method,
        split,
        seed=trial.seed,
        training=bench.scale.training.replace(**changes),
        points=points.astype(np.float32),
        steps=steps,
    )


def descent_scale(
    data: MadeData,
    network: Callable[[int], Network],
    arms: tuple[Arm, ...],
    evaluation: Any,
    *,
    steps: int,
    rate: float,
    seeds: int,
    note: str,
) -> Scale:
    """Plain gradient descent on all rows and the squared error: what infinite width describes."""
    return Scale(
        data=data,
        network=network,
        training=Training(
            epochs=steps,
            batch_size=data.train_rows,
            learning_rate=rate,
            momentum=0.0,
            nesterov=False,
            schedule="constant",
        ),
        arms=arms,
        seeds=seeds,
        likelihood=Gaussian(1.0),
        weight_decay=0.0,
        evaluation=evaluation,
        note=note,
    )


def row(label: str, seed: int, metrics: dict[str, float], **cost: Any) -> Result:
    """A row of the table for something that has no run folder."""
    return Result(method=label, seed=seed, metrics=metrics, cost=cost)


def _digest(problem, method, training, split, points, steps, seed) -> str:
    digest = hashlib.blake2b(digest_size=16)
    named = [repr(problem.network), repr(problem.likelihood), repr(method), str(steps), str(seed)]
    named += [repr({k: str(v) for k, v in vars(training).items()})]
    digest.update(json.dumps(named).encode())
    for array in (split.x, split.y, points):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
