"""Tables of text (CSV): a user's own rows, one target column."""

import csv
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from credax.data.arrays import assemble, check_task, few_values
from credax.data.checks import as_float32, first_line
from credax.data.dataset import Dataset, Task
from credax.data.holdout import hold_out, rows_held
from credax.errors import InputError, unknown

_Row = tuple[int, list[str]]


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
    """A data set from a CSV file with numeric features and one target column.

    ``target`` is a column's name or number (the last column if not given) and ``ignore`` names
    columns to leave out. The first line is a header if none of its cells is a number, or if only
    the target's cell is not and the rest of that column is; say ``header`` where that is unclear.
    ``delimiter`` is the most frequent of comma, semicolon and tab in the first line.

    A target of whole numbers with at most 20 distinct values, or of text, means classification
    (classes in sorted order, named by what the file says), other numbers regression, unless
    ``task`` says otherwise. ``test_fraction`` of the rows, in proportion to the classes, are held
    out by the fixed seed ``split`` (0). Features and regression targets are standardised by the
    training rows.
    """
    path = Path(path)
    task = check_task(task)
    rows = _rows(path, delimiter)
    names, rows, column = _columns(path, rows, target, header)
    ignored = (ignore,) if isinstance(ignore, str) else ignore
    skipped = {_position(path, names, name) for name in ignored}
    kept = [c for c in range(len(names)) if c != column and c not in skipped]
    if not kept:
        raise InputError(f"{path} has no feature column beside the target {names[column]!r}")
    x = as_float32(np.array([[_number(path, row, c, names) for c in kept] for row in rows]))
    y, classes = _targets(path, rows, column, names, task)
    chosen: Task = "regression" if classes is None else "classification"
    count = rows_held(len(rows), test_fraction)
    held = hold_out(y, count, stratify=chosen == "classification", seed=split or 0)
    parts = {"train": (x[~held], y[~held]), "test": (x[held], y[held])}
    return assemble(path.name, parts, chosen, classes or ())


def _rows(path: Path, delimiter: str | None) -> list[_Row]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            delimiter = delimiter or max(",;\t", key=first.count)
            file.seek(0)
            reader = csv.reader(file, delimiter=delimiter)
            rows = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error, TypeError) as error:
        raise InputError(f"{path} cannot be read as UTF-8 CSV ({first_line(error)})") from error
    rows = [(line, cells) for line, cells in rows if any(cells)]
    if not rows:
        raise InputError(f"{path} is empty; give at least two rows of numbers and a target")
    width = len(rows[0][1])
    for line, cells in rows:
        if len(cells) != width:
            raise InputError(
                f"{path} has {len(cells)} cells in line {line} and {width} in line {rows[0][0]}; "
                "give every line the same columns"
            )
    return rows


def _columns(path: Path, rows: list[_Row], target: str | int | None, header: bool | None):
    first = rows[0][1]
    column = target if isinstance(target, int) else len(first) - 1
    if not -len(first) <= column < len(first):
        raise InputError(f"target is column {target}; {path} has the columns 0 to {len(first) - 1}")
    column %= len(first)
    if header is None:
        header = isinstance(target, str) or _looks_like_header(path, rows, column)
    names = first if header else [str(number) for number in range(len(first))]
    if isinstance(target, str):
        column = _position(path, names, target)
    rows = rows[1:] if header else rows
    if len(rows) < 2:
        raise InputError(f"{path} has {len(rows)} rows of data; give at least two")
    return names, rows, column


def _looks_like_header(path: Path, rows: list[_Row], column: int) -> bool:
    first = rows[0][1]
    numeric = [_is_number(cell) for cell in first]
    if not any(numeric):
        return True
    if all(n for c, n in enumerate(numeric) if c != column):
        below = [cells[column] for _, cells in rows[1:]]
        return not numeric[column] and bool(below) and all(_is_number(cell) for cell in below)
    raise InputError(
        f"the first line of {path} mixes numbers and text ({', '.join(first[:4])}); "
        "say whether it is a header with header=True or header=False"
    )


def _position(path: Path, names: list[str], name: str) -> int:
    if name not in names:
        raise unknown(f"column of {path}", name, names)
    return names.index(name)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(path: Path, row: _Row, column: int, names: list[str]) -> float:
    line, cells = row
    value = float(cells[column]) if _is_number(cells[column]) else np.nan
    if not np.isfinite(value):
        raise InputError(
            f"{path}, line {line}: column {names[column]!r} holds {cells[column]!r}, which is not "
            "a finite number; fill it in, encode it as a number, or leave the column out by ignore"
        )
    return value


def _targets(path: Path, rows: list[_Row], column: int, names: list[str], task: Task | None):
    """Targets, and the names of the classes, which are None for a regression."""
    cells = [row[1][column] for row in rows]
    numeric = [_is_number(cell) for cell in cells]
    odd = numeric.index(False) if not all(numeric) else None
    if task == "regression" or (task is None and any(numeric) and odd is not None) or "" in cells:
        blank = cells.index("") if "" in cells else odd
        if blank is not None:
            raise InputError(
                f"{path}, line {rows[blank][0]}: the target {names[column]!r} holds "
                f"{cells[blank]!r}; give a number in every line"
                + (", or say task='classification'" if task is None and "" not in cells else "")
            )
    if odd is None:
        numbers = np.array([_number(path, row, column, names) for row in rows])
        values = np.unique(numbers)
        whole = bool((numbers == np.rint(numbers)).all()) and few_values(len(values), len(rows))
        if task == "regression" or (task is None and not whole):
            return as_float32(numbers), None
        classes = tuple(f"{value:g}" for value in values)
        return np.searchsorted(values, numbers).astype(np.int32), classes
    texts = np.unique(cells)
    if task is None and 2 * len(texts) > len(rows):
        raise InputError(
            f"{path}: the target {names[column]!r} has {len(texts)} different texts in "
            f"{len(rows)} rows; name another target, or say task='classification'"
        )
    return np.searchsorted(texts, cells).astype(np.int32), tuple(str(text) for text in texts)
