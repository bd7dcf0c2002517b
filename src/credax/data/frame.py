"""A table of named columns, wherever it comes from: text, parquet, feather, pandas, polars."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import numpy as np

from credax.data.cells import Cells
from credax.data.parsing import is_missing, number_name
from credax.errors import InputError, unknown

Stored = Literal["text", "number", "boolean", "date"]


@dataclass(frozen=True)
class Series:
    """One column: its values as they are stored, and which are missing.

    Text is an array of Python strings, numbers are float64, dates ``datetime64[us]`` in UTC. What
    stands in the place of a missing value has no meaning.
    """

    name: str
    stored: Stored
    values: np.ndarray
    missing: np.ndarray

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, chosen: np.ndarray) -> "Series":
        """Some rows, by a mask."""
        return Series(self.name, self.stored, self.values[chosen], self.missing[chosen])

    def texts(self) -> list[str]:
        """Every value as text: numbers in one form, booleans in small letters, dates in ISO form.

        A missing value that was text stays as it was written.
        """
        if self.stored == "text":
            return list(self.values)
        name = {"number": number_name, "boolean": _boolean_name, "date": str}[self.stored]
        return [
            "" if gone else name(value)
            for value, gone in zip(self.values, self.missing, strict=True)
        ]


@dataclass(frozen=True)
class Frame:
    """Columns of one length with different names.

    ``places`` say where each row is in its source: ``word`` is line (of a text) or row (from 1).
    """

    where: str
    series: tuple[Series, ...]
    places: Sequence[int] = ()
    word: Literal["line", "row"] = "row"
    passed_over: tuple[str, ...] = ()
    """Names of columns that are there and were not asked for."""

    def __post_init__(self):
        names = [series.name for series in self.series]
        twice = (
            [name for name in names if names.count(name) > 1]
            if len(set(names)) < len(names)
            else []
        )
        if twice:
            raise InputError(
                f"{self.where} has two columns named {twice[0]!r}; give each its own name"
            )

    def __len__(self) -> int:
        return len(self.series[0]) if self.series else 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(series.name for series in self.series)

    def __getitem__(self, name: str) -> Series:
        """A column by its name; a name that is not there is an error with the nearest one."""
        if name not in self.names:
            raise unknown(f"column of {self.where}", name, (*self.names, *self.passed_over))
        return self.series[self.names.index(name)]

    def at(self, row: int) -> str:
        """Where a row is, for a message."""
        return f"{self.where}, {self.word} {self.places[row]}"

    def rows(self, chosen: np.ndarray) -> "Frame":
        """Some rows, by a mask; they know where they were."""
        series = tuple(each.rows(chosen) for each in self.series)
        places = np.asarray(self.places)[chosen].tolist()
        return dataclasses.replace(self, series=series, places=places)

    def without(self, names: Sequence[str]) -> "Frame":
        """The frame without these columns, each of which must be there."""
        for name in names:
            self[name]
        kept = tuple(series for series in self.series if series.name not in names)
        return dataclasses.replace(self, series=kept)

    def only(self, names: Sequence[str]) -> "Frame":
        """The columns that are among these names; the others are remembered by their names."""
        kept = tuple(series for series in self.series if series.name in names)
        others = tuple(name for name in self.names if name not in names)
        return dataclasses.replace(self, series=kept, passed_over=others)


def refuse_twice(names: Sequence[str], where: str) -> None:
    """An error if two columns have one name."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{where} has two columns named {twice!r}; give each its own name")


def frame_of_cells(cells: Cells) -> Frame:
    """The frame of a text table; a column without a name gets one from its place."""
    names = cells.names or ()
    series = []
    for position, name in enumerate(names):
        texts = cells.column(position)
        values = np.empty(len(texts), object)
        values[:] = texts
        missing = np.array([is_missing(text) for text in texts], bool)
        series.append(Series(name or f"column {position + 1}", "text", values, missing))
    return Frame(str(cells.path), tuple(series), [line for line, _ in cells.rows], "line")


def frame_of(table: Any, where: str = "the frame", ignore: Sequence[str] = ()) -> Frame:
    """The frame of a pandas or polars data frame or a pyarrow table; none of them is imported.

    ``ignore`` names columns that are not looked at, whatever they hold.
    """
    if hasattr(table, "collect"):
        raise InputError(f"{where} is a {type(table).__name__}; collect it first")
    names = getattr(table, "column_names", getattr(table, "columns", None))
    if names is None or not hasattr(table, "__getitem__"):
        raise InputError(
            f"{where} is a {type(table).__name__}; give a pandas or polars DataFrame or a pyarrow "
            "Table"
        )
    texts = [str(name) for name in names]
    refuse_twice(texts, where)
    names = dict(zip(texts, names, strict=True))
    for name in ignore:
        if name not in names:
            raise unknown(f"column of {where}", name, names)
    kept = [name for name in names if name not in ignore]
    series = tuple(_series(table[names[name]], name, where) for name in kept)
    return Frame(where, series, range(1, len(series[0]) + 1 if series else 1))


def _series(column: Any, name: str, where: str) -> Series:
    kind: Any = getattr(column, "type", None)
    if hasattr(kind, "index_type"):
        # numpy would get the categories of a pyarrow dictionary without its missing values.
        column = column.cast(kind.value_type)
    values = np.asarray(column)
    kind = values.dtype.kind
    if values.ndim != 1:
        raise InputError(f"{where}: column {name!r} holds arrays; give one value per row")
    if kind == "b":
        return Series(name, "boolean", values, np.zeros(len(values), bool))
    if kind in "iuf":
        numbers = values.astype(np.float64)
        return Series(name, "number", numbers, np.isnan(numbers))
    if kind == "M":
        return Series(name, "date", values.astype("datetime64[us]"), np.isnat(values))
    if kind in "OUT":
        return _of_objects(values.tolist(), name, where)
    raise InputError(
        f"{where}: column {name!r} holds {values.dtype}; give numbers, text, booleans or dates, or "
        "leave the column out by ignore"
    )


def _of_objects(values: list[Any], name: str, where: str) -> Series:
    """A column of Python objects of one kind; of several kinds, as text."""
    values = [value.strip() if isinstance(value, str) else value for value in values]
    gone = np.array([_is_nothing(value) for value in values], bool)
    there = [value for value, missing in zip(values, gone, strict=True) if not missing]
    kinds = {_kind(value, name, where) for value in there}
    if kinds == {"number"}:
        return Series(name, "number", _filled(values, gone, np.nan, float, np.float64), gone)
    if kinds == {"boolean"}:
        return Series(name, "boolean", _filled(values, gone, False, bool, bool), gone)
    if kinds == {"date"}:
        nothing = np.datetime64("NaT", "us")
        return Series(name, "date", _filled(values, gone, nothing, _date, "datetime64[us]"), gone)
    texts = np.empty(len(values), object)
    texts[:] = [
        "" if missing else _text(value) for value, missing in zip(values, gone, strict=True)
    ]
    return Series(name, "text", texts, gone)


def _filled(values: list[Any], gone: np.ndarray, nothing: Any, convert: Any, dtype: Any):
    made = [nothing if missing else convert(v) for v, missing in zip(values, gone, strict=True)]
    return np.array(made, dtype)


def _is_nothing(value: Any) -> bool:
    if isinstance(value, str):
        return is_missing(value)
    # pandas' own marks of a missing value, without importing pandas.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | Decimal) and bool(value != value)


def _kind(value: Any, name: str, where: str) -> Stored:
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if isinstance(value, Real | Decimal):
        return "number"
    if isinstance(value, datetime | date | np.datetime64):
        return "date"
    if isinstance(value, str):
        return "text"
    raise InputError(
        f"{where}: column {name!r} holds a {type(value).__name__}; give numbers, text, booleans or "
        "dates, or leave the column out by ignore"
    )


def _date(value: Any) -> np.datetime64:
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(value, "us")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return _boolean_name(value)
    return number_name(float(value)) if isinstance(value, Real | Decimal) else str(value)


def _boolean_name(value: Any) -> str:
    return "true" if value else "false"
