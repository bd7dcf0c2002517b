"""Tables of numbers as text, with or without a header; and new rows for a model of them."""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from credax.data.arrays import assemble, check_task, few_values
from credax.data.cells import Cells, Row, is_number, read_rows
from credax.data.checks import as_float32
from credax.data.dataset import Dataset, Split, Task
from credax.data.holdout import hold_out, rows_held
from credax.data.parsing import number_name
from credax.errors import InputError, unknown


def read_table(
    path: str | os.PathLike[str],
    *,
    split: int | None = None,
    target: str | int | None = None,
    task: Task | None = None,
    test_fraction: float = 0.2,
    header: bool | None = None,
    delimiter: str | None = None,
    ignore: str | Sequence[str] = (),
) -> Dataset:
    """A data set from a text table whose features are numbers, with one target column.

    For tables without a header, and for runs that are older than `credax.data.tabular`.

    ``target`` is a column's name or number (the last column if not given) and ``ignore`` names
    columns to leave out. The first line is a header if none of its cells is a number, or if only
    the target's cell is not and the rest of that column is; say ``header`` where that is unclear.
    ``delimiter`` is the most frequent of comma, semicolon and tab in the first line; where it is
    not the comma, numbers may have decimal commas.

    A target of whole numbers with at most 20 distinct values, or of text, means classification
    (classes in sorted order, named by what the file says), other numbers regression, unless
    ``task`` says otherwise. ``test_fraction`` of the rows, in proportion to the classes, are held
    out by the fixed seed ``split`` (0). Features and regression targets are standardised by the
    training rows.
    """
    path = Path(path)
    task = check_task(task)
    table, column = _columns(path, read_rows(path, delimiter), target, header)
    ignored = (ignore,) if isinstance(ignore, str) else ignore
    skipped = {_position(table, name) for name in ignored}
    kept = [c for c in range(table.width) if c != column and c not in skipped]
    if not kept:
        raise InputError(f"{path} has no feature column beside the target {table.label(column)!r}")
    x = as_float32(np.stack([table.numbers(c) for c in kept], axis=1))
    y, classes = _targets(table, column, task)
    chosen: Task = "regression" if classes is None else "classification"
    count = rows_held(len(y), test_fraction)
    held = hold_out(y, count, stratify=chosen == "classification", seed=split or 0)
    parts = {"train": (x[~held], y[~held]), "test": (x[held], y[held])}
    features = () if table.names is None else tuple(table.names[c] for c in kept)
    targets = () if table.names is None else (table.names[column],)
    _check_names(path, features)
    return assemble(path.name, parts, chosen, classes or (), features, targets)


def read_inputs(
    path: str | os.PathLike[str], features: tuple[str, ...], width: int
) -> tuple[np.ndarray, tuple[str, ...]]:
    """New rows for a model of these columns, and the names of columns that it does not use.

    Columns are found by their names, in whatever order. A model trained on inputs without names
    takes columns in the order of its training; a warning says so if the file has a header.
    """
    table = _new_rows(Path(path), features, width)
    if not features:
        return as_float32(np.stack([table.numbers(c) for c in range(width)], axis=1)), ()
    positions = [_position(table, name) for name in features]
    x = as_float32(np.stack([table.numbers(c) for c in positions], axis=1))
    return x, tuple(name for name in table.names or () if name not in features)


def read_labelled(
    path: str | os.PathLike[str],
    features: tuple[str, ...],
    target: str,
    classes: tuple[str, ...],
) -> Split:
    """All rows of a file with the columns of a model and its target, for an evaluation.

    ``classes`` are the model's, empty for a regression; a label it does not know is refused.
    """
    table = _new_rows(Path(path), features, len(features))
    x = np.stack([table.numbers(_position(table, name)) for name in features], axis=1)
    column = _position(table, target)
    if not classes:
        return Split(as_float32(x), as_float32(table.numbers(column)))
    texts = [_class_name(cell, classes) for cell in table.column(column)]
    for row, text in zip(table.rows, texts, strict=True):
        if text not in classes:
            raise InputError(
                f"{table.path}, line {row[0]}: the class {text!r} is not one of the model's: "
                f"{', '.join(classes[:8])}"
            )
    return Split(as_float32(x), np.array([classes.index(text) for text in texts], np.int32))


def _class_name(cell: str, classes: tuple[str, ...]) -> str:
    # Classes that are whole numbers are named as numbers: 3.0 in the file is class 3.
    return cell if cell in classes or not is_number(cell) else number_name(float(cell))


def _new_rows(path: Path, features: tuple[str, ...], width: int) -> Cells:
    rows = read_rows(path)
    first = rows[0][1]
    if features:
        missing = [name for name in features if name not in first]
        if missing:
            none = " (it seems to have no header)" if all(map(is_number, first)) else ""
            raise InputError(
                f"{path} has no column {', '.join(map(repr, missing[:4]))}{none}; the model was "
                f"trained on the columns {', '.join(features)}: name them in the first line"
            )
        _check_names(path, tuple(name for name in first if name in features))
        table = Cells(path, tuple(first), rows[1:])
    else:
        if len(first) != width:
            raise InputError(
                f"{path} has {len(first)} columns; the model was trained on {width} (the target "
                "is not among them)"
            )
        header = not any(map(is_number, first))
        table = Cells(path, tuple(first) if header else None, rows[1:] if header else rows)
        if header:
            warnings.warn(
                f"the model was trained on inputs without names, so the columns of {path} are "
                f"taken in their order: {', '.join(first)}",
                stacklevel=3,
            )
    if not table.rows:
        raise InputError(f"{path} has a header and no rows; give at least one")
    return table


def has_header(path: Path, rows: list[Row], target: object = None) -> bool:
    """Whether the first line holds names; an error where that is not clear."""
    if target is not None and not isinstance(target, int):
        return True
    width = len(rows[0][1])
    column = target if isinstance(target, int) else width - 1
    if not -width <= column < width:
        raise InputError(f"target is column {target}; {path} has the columns 0 to {width - 1}")
    return _looks_like_header(path, rows, column % width)


def _check_names(path: Path, names: tuple[str, ...]) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InputError(f"{path} has two columns named {twice[0]!r}; give each its own name")


def _columns(path: Path, rows: list[Row], target: str | int | None, header: bool | None):
    first = rows[0][1]
    column = target if isinstance(target, int) else len(first) - 1
    if not -len(first) <= column < len(first):
        raise InputError(f"target is column {target}; {path} has the columns 0 to {len(first) - 1}")
    column %= len(first)
    if header is None:
        header = isinstance(target, str) or _looks_like_header(path, rows, column)
    table = Cells(path, tuple(first) if header else None, rows[1:] if header else rows)
    if isinstance(target, str):
        column = _position(table, target)
    if len(table.rows) < 2:
        raise InputError(f"{path} has {len(table.rows)} rows of data; give at least two")
    return table, column


def _looks_like_header(path: Path, rows: list[Row], column: int) -> bool:
    first = rows[0][1]
    numeric = [is_number(cell) for cell in first]
    if not any(numeric):
        return True
    if all(n for c, n in enumerate(numeric) if c != column):
        below = [cells[column] for _, cells in rows[1:]]
        return not numeric[column] and bool(below) and all(is_number(cell) for cell in below)
    raise InputError(
        f"the first line of {path} mixes numbers and text ({', '.join(first[:4])}); "
        "say whether it is a header with header=True or header=False"
    )


def _position(table: Cells, name: str) -> int:
    names = [table.label(c) for c in range(table.width)]
    if name not in names:
        raise unknown(f"column of {table.path}", name, names)
    return names.index(name)


def _targets(table: Cells, column: int, task: Task | None):
    """Targets, and the names of the classes, which are None for a regression."""
    cells, name = table.column(column), table.label(column)
    numeric = [is_number(cell) for cell in cells]
    odd = numeric.index(False) if not all(numeric) else None
    if task == "regression" or (task is None and any(numeric) and odd is not None) or "" in cells:
        blank = cells.index("") if "" in cells else odd
        if blank is not None:
            raise InputError(
                f"{table.path}, line {table.rows[blank][0]}: the target {name!r} holds "
                f"{cells[blank]!r}; give a number in every line"
                + (", or say task='classification'" if task is None and "" not in cells else "")
            )
    if odd is None:
        numbers = table.numbers(column)
        values = np.unique(numbers)
        whole = bool((numbers == np.rint(numbers)).all()) and few_values(len(values), len(cells))
        if task == "regression" or (task is None and not whole):
            return as_float32(numbers), None
        classes = tuple(map(number_name, values))
        return np.searchsorted(values, numbers).astype(np.int32), classes
    texts = np.unique(cells)
    if task is None and 2 * len(texts) > len(cells):
        raise InputError(
            f"{table.path}: the target {name!r} has {len(texts)} different texts in "
            f"{len(cells)} rows; name another target, or say task='classification'"
        )
    return np.searchsorted(texts, cells).astype(np.int32), tuple(str(text) for text in texts)
