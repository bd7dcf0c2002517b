"""A user's own tasks: a folder of tables, one for each task, or arrays in an ``.npz`` file."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from credax.data.cells import Cells, is_number, read_rows
from credax.data.dataset import Dataset, Task
from credax.data.parsing import is_missing
from credax.data.task_form import TaskForm
from credax.data.tasks import Tasks, task_dataset
from credax.errors import InputError

ENDINGS = (".csv", ".tsv")
MOST_FILES = 100_000
ARRAYS = ("x", "y", "mask", "sizes", "task")


def is_task_folder(path: Path) -> bool:
    """Whether a folder holds tables and no folders: one task in each."""
    return path.is_dir() and any(file.suffix.lower() in ENDINGS for file in _files(path))


def holds_tasks(arrays: dict[str, np.ndarray]) -> bool:
    """Whether arrays are sets of points: padded with a mask, or one after another with sizes."""
    return "mask" in arrays or "sizes" in arrays or "task" in arrays


def read_task_folder(
    path: str | os.PathLike[str],
    *,
    split: int | None = None,
    target: str | Sequence[str] | None = None,
    test_fraction: float = 0.2,
) -> Dataset:
    """Tasks from a folder of ``.csv`` or ``.tsv`` files, one task in each, columns by name.

    ``target`` is the column of the values (the last one if not given); all others are inputs, the
    same in every file. ``test_fraction`` of the tasks is held out by the seed ``split``. Inputs
    and values are standardised by the points of the training tasks.
    """
    path = Path(path)
    files = _files(path)
    if len(files) > MOST_FILES:
        raise InputError(f"{path} holds {len(files)} files; give at most {MOST_FILES} tasks")
    name = target if isinstance(target, str) or target is None else _only(target)
    tables = [_table(file) for file in files]
    first = tables[0]
    assert first.names is not None
    wanted = first.names[-1] if name is None else name
    if wanted not in first.names:
        raise InputError(f"target is {wanted!r}; {first.path} has {', '.join(first.names)}")
    columns = tuple(n for n in first.names if n != wanted)
    if not columns:
        raise InputError(f"{first.path} has no input column beside the target {wanted!r}")
    x, y = [], []
    for table in tables:
        names = table.names or ()
        if set(names) != set(first.names) or len(names) != len(first.names):
            raise InputError(
                f"{table.path} has the columns {', '.join(names)} and {first.path} has "
                f"{', '.join(first.names)}; give all tasks the same columns"
            )
        x.append(np.stack([table.numbers(names.index(n)) for n in columns], axis=1))
        y.append(table.numbers(names.index(wanted)))
    form = TaskForm(f"{len(files)} files of {path.name}", columns)
    return task_dataset(
        path.name,
        Tasks.of(x, y),
        form=form,
        test_fraction=test_fraction,
        seed=split or 0,
        target_names=(wanted,),
    )


def tasks_from_arrays(
    arrays: dict[str, np.ndarray],
    path: Path,
    *,
    split: int | None = None,
    task: Task | None = None,
    test_fraction: float = 0.2,
) -> Dataset:
    """Tasks from arrays: ``x`` [tasks, points, columns], ``y`` and ``mask``, or all points of all
    tasks one after another, ``x`` [points, columns] and ``y``, with ``sizes`` of the tasks or, for
    each point, the number of its ``task``. Whole numbers in ``y`` are class labels, unless ``task``
    says regression."""
    odd = sorted(set(arrays) - set(ARRAYS))
    if odd or not {"x", "y"} <= set(arrays):
        raise InputError(
            f"{path} has the arrays {', '.join(sorted(arrays))}; tasks are x, y and mask, or x, y "
            "and sizes, or x, y and task"
        )
    x, y = arrays["x"], arrays["y"]
    for name, array in (("x", x), ("y", y)):
        if array.dtype.kind not in "biuf":
            raise InputError(f"{path}: {name} has type {array.dtype}; give numbers")
    if task is not None:
        y = y.astype(np.int32) if task == "classification" else y.astype(np.float32)
    padded = "mask" in arrays
    tasks = Tasks(x, y, arrays["mask"]) if padded else _ragged(x, y, arrays, path)
    form = TaskForm(f"{len(tasks)} tasks of {path.name}")
    return task_dataset(path.name, tasks, form=form, test_fraction=test_fraction, seed=split or 0)


def _ragged(x: np.ndarray, y: np.ndarray, arrays: dict[str, np.ndarray], path: Path) -> Tasks:
    if x.ndim == 1:
        x = x[:, None]
    if x.ndim != 2 or len(x) != len(y):
        raise InputError(
            f"{path}: x has shape {x.shape} and y {y.shape}; points one after another are [points, "
            "columns] and [points]"
        )
    if "task" in arrays:
        number = arrays["task"]
        if number.shape != (len(x),) or number.dtype.kind not in "iu":
            raise InputError(f"{path}: task has shape {number.shape}; give one number per point")
        order = np.argsort(number, kind="stable")
        x, y, sizes = x[order], y[order], np.unique(number, return_counts=True)[1]
    else:
        sizes = arrays["sizes"]
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise InputError(f"{path}: sizes are points of each task: give whole numbers from 1")
    if sizes.sum() != len(x):
        raise InputError(f"{path}: sizes add up to {sizes.sum()} and there are {len(x)} points")
    ends = np.cumsum(sizes)[:-1]
    return Tasks.of(np.split(x, ends), np.split(y, ends))


def read_partial(
    path: str | os.PathLike[str], columns: tuple[str, ...], target: str, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One task of which some values are known: inputs, values, and which are known.

    A table with the columns of the training tasks and the target, empty (or NA) in the rows that
    are to be predicted.
    """
    table = _table(Path(path))
    names = table.names or ()
    inputs = columns or tuple(n for n in names if n != target)
    lost = [n for n in (*inputs, target) if n not in names]
    if lost or len(inputs) != width:
        raise InputError(
            f"{path} has the columns {', '.join(names)}; it needs {', '.join(inputs)} ({width} "
            f"inputs) and {target}, empty where it is to be predicted"
        )
    x = np.stack([table.numbers(names.index(n)) for n in inputs], axis=1)
    cells = table.column(names.index(target))
    known = np.array([not is_missing(cell) for cell in cells])
    rows = [row for row, there in zip(table.rows, known, strict=True) if there]
    y = np.zeros(len(x))
    if known.any():
        y[known] = Cells(table.path, table.names, rows).numbers(names.index(target))
    return x.astype(np.float32), y.astype(np.float32), known


def _files(path: Path) -> list[Path]:
    visible = [p for p in path.iterdir() if not p.name.startswith(".") and p.is_file()]
    return sorted(p for p in visible if p.suffix.lower() in ENDINGS)


def _table(file: Path) -> Cells:
    """A table with a header of names."""
    rows = read_rows(file)
    header = rows[0][1]
    if any(is_number(cell) for cell in header) or len(set(header)) != len(header):
        raise InputError(f"{file} has no header of distinct names in its first line; add one")
    if len(rows) < 2:
        raise InputError(f"{file} has a header and no points; leave it out, or give it points")
    return Cells(file, tuple(header), rows[1:])


def _only(target: Sequence[str]) -> str:
    if len(target) != 1:
        raise InputError(f"target is {', '.join(target)}; a task has one target column")
    return target[0]
