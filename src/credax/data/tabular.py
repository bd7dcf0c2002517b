"""A user's own table as a data set: targets, splits, and columns turned into numbers."""

import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from credax.data.arrays import assemble, check_task
from credax.data.cells import Cells, is_number, read_rows
from credax.data.checks import check
from credax.data.columns import Columns, flag_sentence
from credax.data.dataset import Dataset, Split, Task
from credax.data.decide import decide_columns, kinds_of
from credax.data.divide import divide
from credax.data.frame import Frame, frame_of, frame_of_cells
from credax.data.table import has_header, read_table
from credax.data.target import targets_of
from credax.errors import InputError
from credax.reading.columnar import read_columnar
from credax.standardise import Standardise

COLUMNAR = (".parquet", ".feather")
TABLES = (".csv", ".tsv", *COLUMNAR)

Names = str | int | Sequence[str] | None


def read_tabular(
    path: str | os.PathLike[str],
    *,
    split: int | None = None,
    target: Names = None,
    ignore: str | Sequence[str] = (),
    kinds: Mapping[str, str] | Sequence[str] = (),
    task: Task | None = None,
    test_fraction: float = 0.2,
    validation: float = 0.0,
    train_rows: int | None = None,
    test_rows: int | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    plain: bool = False,
) -> Dataset:
    """A data set from a ``.csv``, ``.tsv``, ``.parquet`` or ``.feather`` file.

    The options are those of `from_frame`, and for text: ``header`` says whether the first line
    holds names (by default: if none of its cells is a number, or only the target's is not), and
    ``delimiter`` is by default the most frequent of comma, semicolon and tab in the first line;
    where it is not the comma, numbers may have decimal commas. A text table without a header, or
    with ``plain``, must hold numbers only (`credax.data.table.read_table`).
    """
    path = Path(path)
    options: Any = {"ignore": ignore, "task": task, "test_fraction": test_fraction, "split": split}
    more: Any = {"validation": validation, "train_rows": train_rows, "test_rows": test_rows}
    if path.suffix.lower() in COLUMNAR:
        table = read_columnar(path)
        wanted = _target_names(table.column_names, str(path), target)
        frame = frame_of(table, str(path), _listed(ignore))
    else:
        rows = read_rows(path, delimiter)
        target = _place(target, rows[0][1])
        if plain or not (header if header is not None else has_header(path, rows, target)):
            one = target if isinstance(target, str | int | None) else _only(target, path)
            if kinds_of(kinds):
                raise InputError(f"kinds names columns and {path} has no header; add one")
            found = read_table(path, target=one, header=header, delimiter=delimiter, **options)
            return found.subset(train_rows, test_rows).with_validation(validation)
        frame = frame_of_cells(Cells(path, tuple(rows[0][1]), rows[1:]))
        wanted = _target_names(frame.names, str(path), target)
        frame = frame.without(_listed(ignore))
    if len(frame) < 2:
        raise InputError(f"{path} has {len(frame)} rows of data; give at least two")
    return _dataset(frame, path.name, wanted, kinds, **options, **more)


def from_frame(
    frame: Any,
    *,
    target: str | Sequence[str],
    ignore: str | Sequence[str] = (),
    kinds: Mapping[str, str] | Sequence[str] = (),
    task: Task | None = None,
    test_fraction: float = 0.2,
    validation: float = 0.0,
    split: int = 0,
    train_rows: int | None = None,
    test_rows: int | None = None,
    name: str = "frame",
) -> Dataset:
    """A data set from a pandas or polars data frame or a pyarrow table.

    Args:
        frame: named columns of numbers, booleans, text and dates; values may be missing.
        target: the column to predict, or several of numbers for a regression of all at once.
        ignore: columns to leave out.
        kinds: what a column is where its values do not say it, such as ``{"zip": "category"}``:
            number, boolean, category, date, date-dmy or date-mdy (text with the day or month
            first).
        task: by default text, booleans and whole numbers with at most 20 distinct values mean
            classification, other numbers regression.
        test_fraction: share of the rows, in proportion to the classes, held out for testing.
        validation: share of the other rows held out for validation.
        split: the fixed seed by which rows are held out.
        train_rows: use only so many training rows; ``test_rows`` likewise.
        test_rows: use only so many test rows.
        name: what reports call the data.

    What becomes of every column is decided by the training rows alone and kept in
    ``Dataset.preparation``, a `credax.data.columns.Columns`, whose ``inputs`` turns new frames
    into inputs for the posterior.

    >>> import pandas
    >>> table = pandas.DataFrame({"sort": ["a", "b"] * 10, "x": range(20), "y": [0.5, 1.0] * 10})
    >>> data = from_frame(table, target="y", test_fraction=0.25)
    >>> data.task, data.feature_names, len(data.train), len(data.test)
    ('regression', ('sort=a', 'sort=b', 'x'), 15, 5)
    """
    found = frame_of(frame, name, _listed(ignore))
    if len(found) < 2:
        raise InputError(f"{name} has {len(found)} rows; give at least two")
    more: Any = {"validation": validation, "train_rows": train_rows, "test_rows": test_rows}
    wanted = _target_names(found.names, name, target)
    made = _dataset(found, name, wanted, kinds, ignore, task, test_fraction, split, **more)
    return check(made, name)


def read_frame(
    path: str | os.PathLike[str], only: Sequence[str] | None = None, exact: Sequence[str] = ()
) -> Frame:
    """The columns of a table in a file, found by its ending; text must have a header.

    With ``only``, no other columns are looked at, and those of them that are absent are left out.
    Whole numbers of the columns ``exact`` keep every digit, as text: they may be ids.
    """
    path = Path(path)
    if path.suffix.lower() in COLUMNAR:
        table = read_columnar(path)
        for place, name in enumerate(table.column_names):
            if name in exact and str(table.schema.types[place]).startswith(("int", "uint")):
                table = table.set_column(place, name, table[name].cast("string"))
        others = [n for n in table.column_names if only is not None and n not in only]
        frame = dataclasses.replace(frame_of(table, str(path), others), passed_over=tuple(others))
        if not frame.series or not len(frame):
            raise InputError(f"{path} has no rows of the columns {_few(only or ())}")
        return frame
    rows = read_rows(path)
    first = rows[0][1]
    if only is not None and not set(only) & set(first) and all(map(is_number, first)):
        raise InputError(
            f"{path} has none of the columns {_few(only)} (it seems to have no header); name them "
            "in the first line"
        )
    if len(rows) < 2:
        raise InputError(f"{path} has a header and no rows; give at least one")
    frame = frame_of_cells(Cells(path, tuple(first), rows[1:]))
    return frame if only is None else frame.only(only)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")


def labelled_rows(frame: Frame, columns: Columns, classes: tuple[str, ...]) -> Split:
    """All rows of a table with a model's columns and its targets, for an evaluation.

    ``classes`` are the model's, empty for a regression; a label it does not know is refused.
    """
    encoded = columns.encode(frame)
    if odd := flag_sentence(frame, encoded.flags):
        warnings.warn(odd, stacklevel=3)
    found = targets_of(frame, columns.targets, "classification" if classes else "regression")
    if not classes:
        return Split(encoded.x, found.y)
    for row, label in enumerate(found.y):
        if found.classes[label] not in classes:
            raise InputError(
                f"{frame.at(row)}: the class {found.classes[label]!r} is not one of the model's: "
                f"{', '.join(classes[:8])}"
            )
    numbers = np.array([classes.index(name) if name in classes else 0 for name in found.classes])
    return Split(encoded.x, numbers[found.y].astype(np.int32))


def _dataset(
    frame: Frame,
    name: str,
    wanted: tuple[str, ...],
    kinds: Mapping[str, str] | Sequence[str],
    ignore: str | Sequence[str],
    task: Task | None,
    test_fraction: float,
    split: int | None,
    validation: float,
    train_rows: int | None,
    test_rows: int | None,
) -> Dataset:
    ignored = _listed(ignore)
    both = [name for name in ignored if name in wanted]
    if both:
        raise InputError(f"{both[0]!r} is named by both target and ignore; choose one")
    found = targets_of(frame, wanted, check_task(task))
    if found.task == "classification" and len(found.classes) < 2:
        raise InputError(
            f"{frame.where}: the target {wanted[0]!r} has one value in all rows, so there is "
            "nothing to tell apart; name another target"
        )
    rest: Any = {"train_rows": train_rows, "test_rows": test_rows, "validation": validation}
    parts = divide(
        found.y, found.task, found.classes, test_fraction=test_fraction, seed=split or 0, **rest
    )
    inputs = frame.without(wanted)
    if not inputs.series:
        raise InputError(f"{frame.where} has no feature column beside the target {wanted[0]!r}")
    train = np.zeros(len(frame), bool)
    train[parts["train"]] = True
    columns = Columns(decide_columns(inputs, train, kinds_of(kinds)), wanted, ignored, found.why)
    encoded = columns.encode(inputs)
    _warn_of_held_out(inputs, encoded.flags, ~train)
    rows = {part: (encoded.x[index], found.y[index]) for part, index in parts.items()}
    made = assemble(name, rows, found.task, found.classes, columns.features, wanted)
    units = column_units(columns, made.train.inputs)
    splits = {
        part: dataclasses.replace(getattr(made, part), inputs=units)
        for part in ("train", "test", "validation")
        if getattr(made, part) is not None
    }
    return dataclasses.replace(made, preparation=columns, **splits)


def column_units(columns: Columns, units: Standardise | None) -> Standardise | None:
    """Zeros and ones stay as they are: a rare level must not become a large number."""
    if units is None:
        return None
    numeric = [
        column.kind in ("number", "date") and feature != f"{column.name} missing"
        for column in columns.columns
        for feature in column.features
    ]
    mean, scale = np.where(numeric, units.mean, 0.0), np.where(numeric, units.scale, 1.0)
    return Standardise(mean, scale)


def _warn_of_held_out(frame: Frame, flags: Sequence[Sequence[str]], held: np.ndarray) -> None:
    kept = [found if out else () for found, out in zip(flags, held, strict=True)]
    if odd := flag_sentence(frame, kept):
        warnings.warn(f"among the rows held out {odd}", stacklevel=5)


def _target_names(names: Sequence[str], where: str, target: Names) -> tuple[str, ...]:
    if target is None or isinstance(target, int):
        place = -1 if target is None else target
        if not -len(names) <= place < len(names):
            raise InputError(
                f"target is column {target}; {where} has the columns 0 to {len(names) - 1}"
            )
        return (names[place],)
    wanted = (target,) if isinstance(target, str) else tuple(target)
    if not wanted or len(set(wanted)) < len(wanted):
        raise InputError(f"target is {wanted}; name one or more different columns")
    return wanted


def _place(target: Names, header: list[str]) -> Names:
    """A target that is given as text and is the number of a column."""
    if not isinstance(target, str | int | None) and len(target) == 1:
        target = target[0]
    if isinstance(target, str) and target.isdecimal() and target not in header:
        return int(target)
    return target


def _only(target: Any, path: Path) -> Any:
    if len(target) > 1:
        raise InputError(f"target names {len(target)} columns and {path} has no header; add one")
    return target[0] if target else None


def _listed(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
