"""Runs read back by the commands: from their folder alone, or with their data."""

import dataclasses
import runpy
from pathlib import Path
from typing import NamedTuple

import numpy as np

from credax.calibration.rows import known_rows
from credax.cli.config import Task, task_from_json
from credax.cli.job import Job, load_task
from credax.cli.own_code import is_own
from credax.cli.own_problem import problem_of_code
from credax.data import Dataset, Split, load
from credax.data.about import About
from credax.data.columns import Columns
from credax.data.folder import labelled_pictures
from credax.data.pictures import Pictures
from credax.data.pixel_folder import labelled_pixels
from credax.data.pixel_form import PixelForm
from credax.data.preparation import Prepared, read_preparation
from credax.data.rows import row_digests
from credax.data.table import read_labelled
from credax.data.tabular import TABLES, labelled_rows, read_frame
from credax.data.task_form import TaskForm
from credax.errors import InputError
from credax.problem import Problem
from credax.runs import SavedRun, open_run
from credax.training.describe import FORMAT, describe_problem


class Rows(NamedTuple):
    """The data that a run is evaluated on."""

    dataset: Dataset
    whole: bool
    """Whether these are all the run's own test rows."""
    note: str = ""
    """What a reader of the results must know about them."""


def saved_run(path: str | Path, problem: str | Problem | None = None) -> SavedRun:
    """A run by its folder; ``problem`` is the problem or ``FILE.py:NAME``, if only code makes it.

    A run whose network or likelihood was named as ``FILE.py:NAME`` needs the file alone.
    """
    run = open_run(path)
    if isinstance(problem, Problem):
        return open_run(path, problem)
    own = problem_of_code(run.config, run.folder.path, problem)
    if own is None and problem is not None:
        own = read_problem(problem)
    run = run if own is None else open_run(path, own)
    return run if run.is_described else _upgraded(run)


def read_problem(text: str) -> Problem:
    """The `credax.Problem` that ``FILE.py:NAME`` names, or that the function there returns."""
    file, colon, name = text.rpartition(":")
    if not colon or not Path(file).is_file():
        raise InputError(f"problem is {text!r}; give FILE.py:NAME, such as my_network.py:problem")
    found = runpy.run_path(file).get(name)
    found = found() if callable(found) and not isinstance(found, Problem) else found
    if not isinstance(found, Problem):
        raise InputError(f"problem is {text!r}, which is no credax.Problem; name one in that file")
    return found


def original_rows(run: SavedRun, splits: tuple[str, ...] = ("test",)) -> Dataset:
    """The data set that a run was trained on, if it is there and has not changed."""
    task = _task(run)
    if task is None:
        raise InputError(
            f"the run in {run.folder.path} was made in Python and does not say where its data is; "
            "name rows with --data"
        )
    dataset = load_task(task, _is_plain(run))
    run.about.refuse_changed(dataset, run.folder.path, splits)
    return dataset


def kept_rows(run: SavedRun) -> Rows:
    """The test rows that the run keeps."""
    kept, about = run.stored, run.about
    if kept.test is None:
        raise InputError(f"the run in {run.folder.path} keeps no test rows; name rows with --data")
    note = (
        ""
        if kept.whole
        else (
            f"Computed on the {len(kept.test)} of {about.rows['test']['count']} test rows that the "
            "run keeps."
        )
    )
    return Rows(_dataset(run, kept.test), kept.whole, note)


def rows_to_evaluate(run: SavedRun, data: str | None, stored: bool, allow_overlap: bool) -> Rows:
    """The rows that ``credax evaluate`` asks for: named ones, the kept ones, or the run's own."""
    if stored:
        return kept_rows(run)
    if data is not None:
        return _other_rows(run, data, allow_overlap)
    own = _own_data(run)
    if own is not None:
        run.about.refuse_changed(own, run.folder.path, ("test",))
        return Rows(own, True)
    if run.stored.whole:
        return kept_rows(run)
    where = (run.config.get("task") or {}).get("data", "its data")
    raise InputError(
        f"{where}, on which the run in {run.folder.path} was trained, is not here; name rows with "
        "--data" + (", or use the rows kept in the run with --stored" if run.stored.test else "")
    )


def rows_to_show(run: SavedRun) -> Rows:
    """Rows for a report: those kept in the run if they are all, or the run's own data unchanged."""
    if run.stored.whole:
        return kept_rows(run)
    try:
        return Rows(original_rows(run), True)
    except InputError:
        return kept_rows(run)


def _task(run: SavedRun) -> Task | None:
    """The task of a run of the command line; its file under the name it has now."""
    if "task" not in run.config:
        return None
    task = task_from_json(run.config, run.folder.path / "config.json")
    place = Path(task.data_dir or "").expanduser() / task.data
    if run.about.path and not place.exists() and Path(run.about.path).exists():
        return dataclasses.replace(task, data=run.about.path, data_dir=None)
    return task


def _own_data(run: SavedRun) -> Dataset | None:
    """The data that a run was trained on, as it is now; None where it is not here."""
    task = _task(run)
    if task is None:
        return None
    if run.about.path:
        there = (Path(task.data_dir or "").expanduser() / task.data).exists()
        return load_task(task, _is_plain(run)) if there else None
    try:
        return load_task(task)
    except InputError:
        return None


def _other_rows(run: SavedRun, data: str, allow_overlap: bool) -> Rows:
    about, task = run.about, _task(run) or Task()
    prepared = preparation_of(run)
    tabular = Path(data).suffix.lower() in TABLES and about.feature_names
    if "task" in run.config and (not tabular or Path(data).is_file()):
        same = _same(run, dataclasses.replace(task, data=data, data_dir=_root(task, data)))
        if same is not None:
            return Rows(same, True)
    if isinstance(prepared, TaskForm):
        split = _other_tasks(load(data, root=_root(task, data), download=task.download), run, data)
    elif isinstance(prepared, Columns) and tabular:
        split = labelled_rows(
            read_frame(data, (*prepared.names, *prepared.targets)), prepared, about.class_names
        )
    elif isinstance(prepared, PixelForm) and Path(data).is_dir():
        split = labelled_pixels(Path(data), prepared, about.class_names)
    elif isinstance(prepared, Pictures) and Path(data).is_dir():
        split = labelled_pictures(Path(data), prepared, about.class_names)
    elif tabular:
        split = read_labelled(data, about.feature_names, about.target_names[0], about.class_names)
    else:
        split = _labelled(load(data, root=_root(task, data), download=task.download), about, data)
    if not allow_overlap:
        _refuse_trained(run, split, data)
    units = run.problem.inputs, run.problem.targets
    split = Split(split.x, split.y, *units, split.tasks, split.pixels)
    return Rows(dataclasses.replace(_dataset(run, split), name=Path(data).name), False)


def preparation_of(run: SavedRun) -> Prepared | None:
    """How a run's raw rows became inputs; None where they are the inputs."""
    return read_preparation(run.about, run.folder.path / "config.json")


def _is_plain(run: SavedRun) -> bool:
    """Whether a run of a table has no record of its columns: it is older, or had no header."""
    return not run.about.preparation


def _root(task: Task, data: str) -> str | None:
    return None if Path(data).exists() else task.data_dir


def _same(run: SavedRun, task: Task) -> Dataset | None:
    """The run's own data set under another name, or None."""
    try:
        dataset = load_task(task, _is_plain(run))
    except InputError:
        return None
    return None if run.about.difference(dataset, ("train", "test")) else dataset


def _labelled(other: Dataset, about: About, data: str) -> Split:
    """Rows of another data set with the run's class numbers; all, if it came in one piece."""
    pixels = about.preparation.get("kind") == "pixels"
    same = other.task == about.task and (other.train.pixels is not None) == pixels
    if other.input_shape != about.input_shape or not same:
        raise InputError(
            f"data is {data}, for {other.kind} of inputs of shape {other.input_shape}; the run "
            f"needs {about.task} and {about.input_shape}"
        )
    # A user's file without splits of its own was cut in two by us.
    parts = [other.train, other.test] if other.path else [other.test]
    x, y = (np.concatenate([getattr(part, n) for part in parts]) for n in ("x", "y"))
    if about.task == "classification" and other.class_names != about.class_names:
        unknown = [name for name in other.class_names if name not in about.class_names]
        if unknown or not other.class_names:
            raise InputError(
                f"data is {data}, which has the class {(unknown or ['without name'])[0]!r}; the "
                f"run knows {', '.join(about.class_names[:8])}"
            )
        y = np.array([about.class_names.index(name) for name in other.class_names], np.int32)[y]
    return Split(x, y)


def _other_tasks(other: Dataset, run: SavedRun, data: str) -> Split:
    """Tasks of another data set; all, if it came in one piece."""
    about = run.about
    columns = about.input_shape[1]
    if other.test.tasks is None or other.task != about.task or other.input_shape[1] != columns:
        raise InputError(
            f"data is {data}, for {other.task} of inputs of shape {other.input_shape}; the run "
            f"needs tasks for {about.task} whose points have {columns} inputs"
        )
    parts = [other.train, other.test] if other.path else [other.test]
    x, y = (np.concatenate([getattr(part, n) for part in parts]) for n in ("x", "y"))
    return Split(x, y, tasks=other.test.tasks)


def _refuse_trained(run: SavedRun, split: Split, data: str) -> None:
    if run.stored.train is None:
        return
    digests = row_digests(split, dtype=np.dtype(run.about.input_dtype))
    known = known_rows(digests, run.stored.train)
    if len(known):
        raise InputError(
            f"{len(known)} of {len(split)} rows of {data} (first: row {known[0]}) are training "
            f"rows of the run in {run.folder.path}; leave them out, or pass --allow-overlap"
        )


def _dataset(run: SavedRun, test: Split) -> Dataset:
    about, prepared = run.about, preparation_of(run)
    if isinstance(prepared, TaskForm):
        known = test.tasks is not None and test.tasks != TaskForm()
        test = dataclasses.replace(test, tasks=test.tasks if known else prepared)
    if isinstance(prepared, PixelForm):
        test = dataclasses.replace(test, pixels=prepared)
    return Dataset(
        about.name or "rows kept in the run",
        test[:0],
        test,
        None,
        about.task,
        about.class_names,
        about.feature_names,
        about.target_names,
        about.path,
        prepared,
    )


def _upgraded(run: SavedRun) -> SavedRun:
    """A run of the first format, completed from its data, which must not have changed."""
    about, given = run.about, run.given
    if "task" in run.config:
        task = task_from_json(run.config, run.folder.path / "config.json")
        if any(map(is_own, (task.network, task.likelihood, *task.training.augment))):
            # The first format knew no code of the user's own, and a folder names none to run.
            raise InputError(f"{run.folder.path} is not the configuration of a credax run")
        job = Job.of(task, load_task(task, plain=True))
        about.refuse_changed(job.dataset, run.folder.path, ("train", "validation"))
        train, about = job.dataset.train, About.of(job.dataset)
        given = (given or job.problem).with_units(train.inputs, train.targets)
    elif given is None:
        raise InputError(
            f"the run in {run.folder.path} was made in Python by an older credax, which did not "
            "keep its network; give --problem FILE.py:NAME, where NAME is its credax.Problem"
        )
    else:
        shape = tuple(run.config["rows"]["shape"])
        about = dataclasses.replace(about, task=given.likelihood.task, input_shape=shape)
    config = {
        **run.config,
        "format": FORMAT,
        "dataset": about.to_json(),
        "problem": describe_problem(given),
    }
    return SavedRun(run.folder, config, given)
