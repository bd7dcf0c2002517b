"""A zoo trained here: batches of seeds, each one `fit` of a deep ensemble, resumable."""

import re
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from credax.data.dataset import Dataset, Split
from credax.data.rows import fingerprint
from credax.errors import InputError
from credax.files import tree_names
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.network import Variables
from credax.posterior import Population
from credax.problem import Problem
from credax.training import MemberDiverged, Training, fit
from credax.training.describe import FREE, describe_training
from credax.training.mesh import devices_at_hand
from credax.zoo.manifest import Manifest, Storage
from credax.zoo.reader import Zoo
from credax.zoo.writer import ZooWriter

ROWS = 512
_RUN = re.compile(r"\.run-(\d{6})-(\d+)")
LEAST_ACCURACY = 0.15


class Batch(NamedTuple):
    """Members that are trained together: the first, how many, and the folder of their run."""

    start: int
    size: int
    folder: Path


def train_zoo(
    problem: Problem,
    data: Dataset,
    folder: str | Path,
    *,
    count: int,
    network: dict[str, Any],
    likelihood: str,
    training: Training | None = None,
    seed: int = 0,
    at_once: int = 256,
    storage: Storage = "float32",
    shard_members: int = 1024,
    least_accuracy: float = LEAST_ACCURACY,
    origin: dict[str, Any] | None = None,
    progress: Callable[[float, str], None] | None = None,
) -> Zoo:
    """Train ``count`` networks, ``at_once`` together; the same call resumes and extends.

    Member ``i`` is member ``i`` of a deep ensemble with this seed, however many are trained and
    whatever ``at_once`` is. A member whose loss becomes non-finite has status ``diverged``; one
    whose accuracy on validation rows (training rows if there are none) ends at ``least_accuracy``
    or below has status ``failed``. Both are kept out of what `Zoo` reads, never averaged in.

    Args:
        problem: network, likelihood and prior.
        data: training, test and perhaps validation rows.
        folder: the zoo.
        count: members in all; a larger number later extends the zoo.
        network: ``{"name", "options", "outputs"}`` as `credax.networks.build` takes them.
        likelihood: its name, such as ``"categorical"``.
        training: as for `credax.fit`; members run in one batched program unless it says otherwise.
        seed: of everything random.
        at_once: networks in memory and in one program.
        storage: float16 halves the files and rounds (relative error 5e-4).
        shard_members: members a file.
        least_accuracy: see above.
        origin: what else to write down.
        progress: told how many members' worth of training is done, and a text.

    Memory: that of one `fit` of ``at_once`` members, and one batch of rows when scoring.
    """
    if count < 1 or at_once < 1:
        raise InputError(f"count is {count} and at_once {at_once}; give at least 1 of each")
    training = _together(training)
    folder = Path(folder)
    manifest = zoo_manifest(
        problem,
        data,
        network=network,
        likelihood=likelihood,
        training=training,
        seed=seed,
        storage=storage,
        shard_members=shard_members,
        least_accuracy=least_accuracy,
        origin=origin,
    )
    with ZooWriter(folder, manifest) as writer:
        while writer.count < count:
            start, size = _batch(folder, writer.count, min(at_once, count - writer.count))
            run = batch_folder(folder, start, size)
            reporter = _Reporter(start, size, progress)
            population = _train(problem, data, training, seed, start, size, run, reporter)
            missing = range(writer.count, start + size)
            _store(writer, population, data, missing, least_accuracy)
            writer.flush()
            shutil.rmtree(run, ignore_errors=True)
        writer.finish()
    return Zoo.open(folder)


def zoo_manifest(
    problem: Problem,
    data: Dataset,
    *,
    network: dict[str, Any],
    likelihood: str,
    training: Training | None = None,
    seed: int = 0,
    storage: Storage = "float32",
    shard_members: int = 1024,
    least_accuracy: float = LEAST_ACCURACY,
    origin: dict[str, Any] | None = None,
) -> Manifest:
    """What `train_zoo` with these arguments writes down first."""
    training = _together(training)
    settings = {k: v for k, v in describe_training(training).items() if k not in FREE}
    return Manifest.of(
        problem.with_units(data.train.inputs, data.train.targets),
        data.train.x,
        network,
        likelihood,
        origin={
            "seed": seed,
            "least_accuracy": least_accuracy,
            "training": settings,
            "rows": fingerprint(data.train),
            **(origin or {}),
        },
        storage=storage,
        shard_members=shard_members,
    )


def missing_batches(
    folder: str | Path, manifest: Manifest, count: int, at_once: int
) -> list[Batch]:
    """The batches that `train_zoo` would train next, in order; the zoo is begun if it is new."""
    found: list[Batch] = []
    with ZooWriter(folder, manifest) as writer:
        done = writer.count
    while done < count:
        start, size = _batch(Path(folder), done, min(at_once, count - done))
        found.append(Batch(start, size, batch_folder(Path(folder), start, size)))
        done = start + size
    return found


def train_batch(
    problem: Problem, data: Dataset, batch: Batch, training: Training | None, seed: int
) -> None:
    """Train one batch in its folder, where `train_zoo` finds it finished: on another machine."""
    reporter = _Reporter(batch.start, batch.size, None)
    _train(problem, data, _together(training), seed, *batch, reporter)


def batch_folder(folder: Path, start: int, size: int) -> Path:
    """Where a batch of a zoo is trained."""
    return folder / f".run-{start:06d}-{size}"


def _batch(folder: Path, done: int, size: int) -> tuple[int, int]:
    """The next batch of members: one that was begun, or a new one after those that are done.

    A kill while a batch is stored leaves its training and some of its members: the rest comes from
    the same training, so that the zoo ends with the bytes of an undisturbed one.
    """
    for path in folder.glob(".run-*-*"):
        found = _RUN.fullmatch(path.name)
        if found and int(found[1]) <= done < int(found[1]) + int(found[2]):
            return int(found[1]), int(found[2])
    return done, size


def _together(training: Training | None) -> Training:
    """Members in one batched program, unless the training or several devices say otherwise."""
    training = training or Training()
    batched = training.strategy == "auto" and devices_at_hand() == 1
    return training.replace(strategy="vmap") if batched else training


def _train(problem, data, training, seed, start, size, run, reporter) -> Population | None:
    with warnings.catch_warnings():
        # They are told by their records.
        warnings.simplefilter("ignore", MemberDiverged)
        try:
            posterior = fit(
                problem,
                DeepEnsemble(members=size, offset=start),
                data.train,
                key=seed,
                training=training,
                folder=run,
                progress=reporter,
            )
        except InputError as error:
            if "non-finite loss" in str(error):
                return None
            raise
    assert isinstance(posterior, Population)
    return posterior


def _store(writer: ZooWriter, population: Population | None, data: Dataset, indices, least) -> None:
    alive = {} if population is None else {m: i for i, m in enumerate(population.indices)}
    scores: dict[str, np.ndarray] = {}
    arrays: dict[str, np.ndarray] = {}
    if population is not None:
        leaves = map(np.asarray, jax.tree.leaves(population.variables))
        arrays = dict(zip(tree_names(population.variables), leaves, strict=True))
        splits = {"train": data.train, "validation": data.validation, "test": data.test}
        for name, split in splits.items():
            if split is not None and len(split):
                found = member_scores(population, split)
                scores |= {f"{name}_{key}": value for key, value in found.items()}
    criterion = "validation_accuracy" if "validation_accuracy" in scores else "train_accuracy"
    for index in indices:
        if index not in alive:
            writer.append(None, {"seed_index": index, "status": "diverged"})
            continue
        row = alive[index]
        record: dict[str, Any] = {"seed_index": index}
        record |= {name: round(float(value[row]), 6) for name, value in scores.items()}
        if criterion in record and record[criterion] <= least:
            record["status"] = "failed"
        writer.append({name: array[row] for name, array in arrays.items()}, record)


def member_scores(population: Population, split: Split) -> dict[str, np.ndarray]:
    """Each member's own mean ``nll`` (standard units) and, for classes, ``accuracy``."""
    totals: dict[str, np.ndarray] = {}
    size = min(ROWS, len(split))
    for start in range(0, len(split), size):
        rows = np.minimum(np.arange(start, start + size), len(split) - 1)
        real = np.arange(start, start + size) < len(split)
        y = np.asarray(split.y[rows])
        y = y.astype(np.int32) if y.dtype.kind in "iub" else y.astype(np.float32)
        x = np.asarray(split.x[rows])
        part = _scores(population.problem, population.variables, x, y, real)
        for name, value in part.items():
            totals[name] = totals.get(name, 0) + np.asarray(value, np.float64)
    return {name: total / len(split) for name, total in totals.items()}


@eqx.filter_jit
def _scores(problem: Problem, variables: Variables, x, y, real) -> dict[str, jax.Array]:
    batch = problem.prepare(x, y)

    def one(member):
        outputs, _ = problem.outputs(member, batch.x)
        nll = -jnp.sum(problem.likelihood.log_prob(outputs, batch.y) * real)
        if problem.likelihood.task != "classification":
            return {"nll": nll}
        prediction: Any = problem.predict(outputs[None])
        label = jnp.argmax(prediction.log_probs[0], axis=-1)
        return {"nll": nll, "accuracy": jnp.sum((label == y) * real)}

    return jax.lax.map(one, variables, batch_size=32)


class _Reporter:
    """The training's epochs as members: a batch half trained is half its members done."""

    def __init__(self, start: int, size: int, progress):
        self.start_member, self.size, self.progress = start, size, progress
        self.total = 1

    def start(self, title: str, total: int, done: int) -> None:
        self.total = total
        self.update(done, "compiling")

    def update(self, done: float, text: str) -> None:
        if self.progress is not None:
            self.progress(self.start_member + self.size * done / self.total, text)

    def stop(self) -> None:
        pass
