"""Arrays in ``.npz`` files: a user's own data, and sets that are handed on in that form."""

import os
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from credax import reading
from credax.data.checks import as_float32, as_labels
from credax.data.dataset import Dataset, Split, Task
from credax.data.holdout import hold_out, rows_held
from credax.data.task_files import holds_tasks, tasks_from_arrays
from credax.errors import InputError
from credax.standardise import Standardise

FEW = 20
"""Integer targets with at most this many distinct values are taken for classes."""

PARTS = ("train", "validation", "test")


def read_npz(
    path: str | os.PathLike[str],
    *,
    split: int | None = None,
    task: Task | None = None,
    test_fraction: float = 0.2,
) -> Dataset:
    """A data set from an ``.npz`` file without pickled objects.

    Keys: ``x``, ``y`` (then ``test_fraction`` of the rows are held out, by the fixed seed
    ``split``), or ``x_train``, ``y_train``, ``x_test``, ``y_test`` and, if wanted,
    ``x_validation``, ``y_validation``; ``class_names`` may name the classes. A file with ``mask``,
    ``sizes`` or ``task`` holds tasks: see `credax.data.task_files.tasks_from_arrays`.

    ``x`` is ``[rows, features]``, ``[rows, height, width, channels]`` or any other shape with rows
    first; bytes stay bytes (and ``[rows, height, width]`` of bytes gets a channel axis), all else
    becomes float32. Text, truth values and integers with at most 20 distinct values in ``y`` mean
    classification, other numbers regression, unless ``task`` says otherwise; integers are class
    numbers if ``class_names`` are there, else the names of the classes that occur.
    Features, channels and regression targets are standardised by the training rows.
    """
    path = Path(path)
    stored = reading.read_npz(path)
    if holds_tasks(stored):
        return tasks_from_arrays(
            stored, path, split=split, task=check_task(task), test_fraction=test_fraction
        )
    parts = _parts(stored, path)
    task = check_task(task) or _guess_task(np.concatenate([y for _, y in parts.values()]))
    names = tuple(str(name) for name in np.ravel(stored.get("class_names", ())))
    if task == "classification":
        parts, names = _as_classes(parts, names, path)
    else:
        parts = {part: (x, _as_numbers(y, path)) for part, (x, y) in parts.items()}
    if "all" in parts:
        x, y = parts["all"]
        parts = _divide(x, y, task, test_fraction, split or 0)
    elif split is not None:
        raise InputError(f"split is {split}, but {path} brings its own splits; leave split out")
    return assemble(path.name, parts, task, names)


def assemble(
    name: str,
    parts: dict[str, tuple[np.ndarray, np.ndarray]],
    task: Task,
    names: tuple[str, ...],
    features: tuple[str, ...] = (),
    targets: tuple[str, ...] = (),
) -> Dataset:
    """A data set whose inputs and regression targets are standardised by its training rows."""
    x, y = parts["train"]
    # Features have their own means; images one per channel; of other shapes nothing is known.
    axes = {2: (0,), 4: (0, 1, 2)}.get(x.ndim, tuple(range(x.ndim)))
    usable = len(x) > 0 and x.dtype.kind in "iuf"
    # Infinities are reported by row when the whole set is checked, not as warnings here.
    with np.errstate(invalid="ignore", over="ignore"):
        inputs = Standardise.of(x, axes) if usable else None
        outputs = Standardise.of(y) if usable and task == "regression" else None
    splits = {part: Split(px, py, inputs, outputs) for part, (px, py) in parts.items()}
    train, test, validation = splits["train"], splits["test"], splits.get("validation")
    return Dataset(name, train, test, validation, task, names, features, targets)


def check_task(task: str | None) -> Task | None:
    """The task itself, or an error that names the two there are."""
    if task is not None and task not in get_args(Task):
        raise InputError(f"task is {task!r}; give 'classification' or 'regression'")
    return cast("Task | None", task)


def few_values(distinct: int, rows: int) -> bool:
    """Whether integers with so many distinct values look like classes."""
    return distinct <= FEW and 2 * distinct <= rows


def _parts(stored: dict[str, np.ndarray], path: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    if {"x", "y"} <= stored.keys():
        pairs = {"all": ("x", "y")}
    else:
        pairs = {part: (f"x_{part}", f"y_{part}") for part in PARTS if f"x_{part}" in stored}
    keys = {key for pair in pairs.values() for key in pair}
    if not keys <= stored.keys() or ("all" not in pairs and not {"train", "test"} <= pairs.keys()):
        raise InputError(
            f"{path} has the arrays {', '.join(sorted(stored)) or 'none'}; it needs x and y, or "
            "x_train, y_train, x_test and y_test"
        )
    parts = {p: (_as_inputs(stored[x]), _as_targets(stored[y])) for p, (x, y) in pairs.items()}
    for part, (x, y) in parts.items():
        if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
            raise InputError(
                f"{path}: {pairs[part][0]} has shape {x.shape} and {pairs[part][1]} {y.shape}; "
                "give both the same number of rows"
            )
        if len(x) == 0:
            raise InputError(f"{path}: {pairs[part][0]} is empty; give at least one row")
    forms = {(y.dtype.kind, y.shape[1:]) for _, y in parts.values()}
    if len(forms) > 1:
        raise InputError(f"{path}: y differs in type or shape between splits; give all one form")
    return parts


def _as_inputs(x: np.ndarray) -> np.ndarray:
    if x.dtype != np.uint8:
        x = as_float32(x) if x.dtype.kind in "biuf" else x
    elif x.ndim == 3:
        x = x[..., None]
    return x[:, None] if x.ndim == 1 else x


def _as_targets(y: np.ndarray) -> np.ndarray:
    return y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def _as_numbers(y: np.ndarray, path: Path) -> np.ndarray:
    if y.dtype.kind not in "biuf":
        raise InputError(f"{path}: y has type {y.dtype}; targets of a regression must be numbers")
    return as_float32(y)


def _guess_task(y: np.ndarray) -> Task:
    if y.dtype.kind in "USb":
        return "classification"
    few = y.dtype.kind in "iu" and y.ndim == 1 and few_values(len(np.unique(y)), len(y))
    return "classification" if few else "regression"


def _as_classes(parts, names: tuple[str, ...], path: Path) -> tuple[Any, tuple[str, ...]]:
    y = np.concatenate([y for _, y in parts.values()])
    if y.ndim != 1:
        raise InputError(f"{path}: y has shape {y.shape}; give one label per row")
    if y.dtype.kind in "US":
        values = np.unique(y)
        parts = {part: (x, np.searchsorted(values, y)) for part, (x, y) in parts.items()}
        names = tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values)
        names = tuple(map(str, names))
    parts = {part: (x, as_labels(y, str(path))) for part, (x, y) in parts.items()}
    values = np.unique(np.concatenate([y for _, y in parts.values()]))
    if names or values[0] < 0:  # a negative label is reported by its row when the set is checked
        return parts, names or tuple(map(str, range(int(values[-1]) + 1)))
    # Labels 0, 1000 and 2000 are three classes, not 2001.
    parts = {
        part: (x, np.searchsorted(values, y).astype(np.int32)) for part, (x, y) in parts.items()
    }
    return parts, tuple(map(str, values.tolist()))


def _divide(x, y, task: Task, test_fraction: float, seed: int):
    count = rows_held(len(y), test_fraction)
    held = hold_out(y, count, stratify=task == "classification", seed=seed)
    return {"train": (x[~held], y[~held]), "test": (x[held], y[held])}
