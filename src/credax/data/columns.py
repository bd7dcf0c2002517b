"""How the columns of a table become numbers: decided on training rows, kept, applied unchanged."""

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Float32

from credax.data.frame import Frame, Series, frame_of
from credax.data.parsing import BOOLEANS, Order, parse_date, plain_text
from credax.errors import DamagedFile, InputError
from credax.reading import check_settings

Kind = Literal["number", "boolean", "category", "date", "empty"]
KINDS = ("number", "boolean", "category", "date", "date-dmy", "date-mdy")
"""What a user may say a column is."""
PARTS = ("year", "month", "weekday", "days")
DAY = np.timedelta64(1, "D")


class Encoded(NamedTuple):
    """Inputs of a network, and what is unusual about each row."""

    x: Float32[np.ndarray, "rows features"]
    flags: tuple[tuple[str, ...], ...]
    """Per row, in words: levels that training rows never had, values that they never lacked."""


@dataclass(frozen=True)
class Column:
    """What was decided for one column, as plain data.

    A number ``v`` becomes ``float32(v - offset)``; the offset is not zero only where float32 could
    not tell neighbouring values apart. A date becomes year, month, weekday (Monday is 0) and days
    since ``offset`` (itself in days since 1970). A category becomes one number per level. A missing
    value is replaced by ``fill`` and, if training rows had any, marked in a column of its own.
    """

    name: str
    kind: Kind
    fill: str = ""
    missing: int = 0
    offset: float = 0.0
    levels: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    order: Order = "ymd"
    constant: bool = False
    note: str = ""

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the inputs that the column gives."""
        own = {
            "number": (self.name,),
            "boolean": (self.name,),
            "category": tuple(f"{self.name}={level}" for level in self.levels),
            "date": tuple(f"{self.name} {part}" for part in self.parts),
            "empty": (),
        }[self.kind]
        own = () if self.constant and self.kind != "number" else own
        return (*own, f"{self.name} missing") if self.missing and self.kind != "empty" else own

    def encode(self, series: Series, frame: Frame, flags: list[list[str]]) -> np.ndarray:
        """The inputs ``[rows, features]`` in float64; what is unusual is added to the flags."""
        if self.kind == "empty":
            return np.empty((len(series), 0))
        values = _ENCODERS[self.kind](self, series, frame, flags)
        values = values if len(self.features) - bool(self.missing) else values[:, :0]
        if not self.missing:
            for row in np.flatnonzero(series.missing):
                flags[row].append(f"{self.name} is missing, as it never was in training")
            return values
        return np.concatenate([values, series.missing[:, None]], axis=1)

    def described(self) -> tuple[str, str, str, str]:
        """Name, what the column is, what it becomes and what else is to be known, in words."""
        note, become = self.note, "left out"
        if self.kind == "date" and self.parts:
            become = ", ".join(self.parts)
        elif self.kind == "category" and not self.constant:
            become = f"one-hot, {len(self.levels)} levels: {_few(self.levels)}"
        elif self.kind == "boolean" and not self.constant:
            become = "0 or 1"
        elif self.kind == "number":
            become = "a number" + (f" minus {self.offset:.17g}" if self.offset else "")
        if self.missing and self.kind != "empty":
            note = f"{self.missing} missing: {self.fill} and an indicator" + (note and f"; {note}")
        return self.name, self.kind, become, note


@dataclass(frozen=True)
class Columns:
    """The columns of a table and its targets: how new rows become inputs of the network.

    ``why`` says in words how the task was chosen.

    >>> import pandas
    >>> from credax.data import from_frame
    >>> rows = {"colour": ["red", "blue"] * 10, "size": range(20), "price": range(0, 200, 10)}
    >>> data = from_frame(pandas.DataFrame(rows), target="price")
    >>> data.preparation.features
    ('colour=blue', 'colour=red', 'size')
    >>> new = pandas.DataFrame({"size": [3], "colour": ["red"]})
    >>> data.preparation.inputs(new).tolist()
    [[0.0, 1.0, 3.0]]
    """

    columns: tuple[Column, ...]
    targets: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    why: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that new rows must have."""
        return tuple(column.name for column in self.columns if column.kind != "empty")

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the network's inputs."""
        return tuple(name for column in self.columns for name in column.features)

    def encode(self, frame: Frame) -> Encoded:
        """The inputs of new rows, whose columns are found by their names in any order."""
        absent = [name for name in self.names if name not in frame.names]
        if absent:
            raise InputError(
                f"{frame.where} has no column {', '.join(map(repr, absent[:4]))}; the model was "
                f"trained on the columns {', '.join(self.names)}: name them in the first line"
            )
        flags: list[list[str]] = [[] for _ in range(len(frame))]
        used = [column for column in self.columns if column.kind != "empty"]
        parts = [column.encode(frame[column.name], frame, flags) for column in used]
        for column, part in zip(used, parts, strict=True):
            _check_range(part, column, frame)
        x = np.concatenate(parts, axis=1).astype(np.float32)
        return Encoded(x, tuple(map(tuple, flags)))

    def inputs(self, table: Any) -> Float32[np.ndarray, "rows features"]:
        """The inputs of new rows in a pandas or polars data frame or a pyarrow table.

        Unusual rows (`Encoded.flags`) are counted in a warning; `encode` gives them one by one.
        """
        frame = frame_of(table)
        encoded = self.encode(frame)
        if odd := flag_sentence(frame, encoded.flags):
            warnings.warn(odd, stacklevel=2)
        return encoded.x

    def described(self) -> list[tuple[str, str, str, str]]:
        """A line per column: name, kind, what it becomes, what else is to be known."""
        lines = [column.described() for column in self.columns]
        lines += [(name, "ignored", "left out", "") for name in self.ignored]
        return lines + [(name, "target", self.why, "") for name in self.targets]

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": "table", **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, content: dict[str, Any], where: Any, width: int) -> "Columns":
        """What `to_json` gave, for inputs of so many numbers."""
        values: dict[str, Any] = {n: v for n, v in content.items() if n != "kind"}
        check_settings(cls, values, where)
        columns = []
        for each in values["columns"]:
            check_settings(Column, each, f"{where}, columns,")
            listed = {"levels", "parts"}
            each = {n: tuple(v) if n in listed else v for n, v in each.items()}
            columns.append(Column(**each))
        values |= {"targets": tuple(values["targets"]), "ignored": tuple(values.get("ignored", ()))}
        made = cls(**{**values, "columns": tuple(columns)})
        if len(made.features) != width or not all(map(_is_sound, columns)):
            raise DamagedFile(
                f"{where} describes columns that do not give {width} inputs; restore it"
            )
        return made


def _is_sound(column: Column) -> bool:
    """Whether what a file says of a column can be applied."""
    try:
        if column.kind == "number":
            return bool(np.isfinite(float(column.fill)) and np.isfinite(column.offset))
        if column.kind == "date":
            np.datetime64(column.fill, "us")
            return set(column.parts) <= set(PARTS) and bool(np.isfinite(column.offset))
    except ValueError:
        return False
    known = {"boolean": BOOLEANS, "category": column.levels, "empty": {column.fill}}[column.kind]
    return column.fill in known


def flag_sentence(frame: Frame, flags: Sequence[Sequence[str]]) -> str:
    """How many rows are unusual, and the first of them; empty where none is."""
    rows = [row for row, found in enumerate(flags) if found]
    if not rows:
        return ""
    return (
        f"{len(rows)} of {len(frame)} rows are unlike all training rows; the first is "
        f"{frame.at(rows[0])}: {'; '.join(flags[rows[0]])}"
    )


def numbers_of(series: Series, frame: Frame) -> Float[np.ndarray, " rows"]:
    """A column as finite numbers, NaN where a value is missing; the first cell that is none is
    named."""
    if series.stored in ("number", "boolean"):
        numbers = np.where(series.missing, np.nan, series.values.astype(np.float64))
    else:
        numbers = np.full(len(series), np.nan)
        for row in np.flatnonzero(~series.missing):
            numbers[row] = _number(series, row, frame)
    bad = np.isinf(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"{frame.at(row)}: column {series.name!r} holds {series.texts()[row]!r}, which is not "
            "a finite number; correct it, or leave it empty if it is not known"
        )
    return numbers


def dates_of(series: Series, order: Order, frame: Frame) -> np.ndarray:
    """A column as ``datetime64[us]``, NaT where a value is missing."""
    if series.stored == "date":
        return series.values
    found = np.full(len(series), np.datetime64("NaT", "us"))
    for row in np.flatnonzero(~series.missing):
        text = series.texts()[row] if series.stored != "text" else series.values[row]
        when = parse_date(text, order)
        if when is None:
            raise InputError(
                f"{frame.at(row)}: column {series.name!r} holds {text!r}, which is not a date as "
                f"in training ({_ORDERS[order]}); correct it, or leave it empty"
            )
        found[row] = when
    return found


def date_parts(dates: np.ndarray, offset: float) -> dict[str, np.ndarray]:
    """Year, month, weekday and days since ``offset`` of dates, in float64."""
    days = dates.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    years = dates.astype("datetime64[Y]")
    elapsed = (dates - np.datetime64(0, "us")) / DAY
    return {
        "year": years.astype(np.int64) + 1970.0,
        "month": (months - years.astype("datetime64[M]")).astype(np.int64) + 1.0,
        "weekday": (days.astype(np.int64) + 3.0) % 7,
        "days": elapsed - offset,
    }


def _number(series: Series, row: int, frame: Frame) -> float:
    try:
        return float(series.values[row])
    except (TypeError, ValueError):
        raise InputError(
            f"{frame.at(row)}: column {series.name!r} holds {str(series.values[row])!r}, which is "
            "not a finite number; correct it, or leave it empty if it is not known"
        ) from None


def _encode_number(column: Column, series: Series, frame: Frame, flags) -> np.ndarray:
    numbers = numbers_of(series, frame)
    if column.constant:
        only = float(column.fill)
        for row in np.flatnonzero(~np.isnan(numbers) & (numbers != only)):
            flags[row].append(f"{column.name} was always {column.fill} in training")
    numbers = np.where(series.missing, float(column.fill), numbers)
    return (numbers - column.offset)[:, None]


def _encode_boolean(column: Column, series: Series, frame: Frame, flags) -> np.ndarray:
    fill = BOOLEANS[column.fill]
    if series.stored == "boolean":
        values = series.values
    else:
        known = {**BOOLEANS, "1": True, "0": False}
        texts = [text.lower() for text in series.texts()]
        for row, text in enumerate(texts):
            if text not in known and not series.missing[row]:
                raise InputError(
                    f"{frame.at(row)}: column {column.name!r} holds {text!r}, which is neither "
                    "true nor false; correct it, or leave it empty if it is not known"
                )
        values = np.array([known.get(text, fill) for text in texts], bool)
    values = np.where(series.missing, fill, values)
    if column.constant:
        for row in np.flatnonzero(values != fill):
            flags[row].append(f"{column.name} was always {column.fill} in training")
    return values[:, None].astype(np.float64)


def _encode_category(column: Column, series: Series, frame: Frame, flags) -> np.ndarray:
    position = {level: place for place, level in enumerate(column.levels)}
    found = np.zeros((len(series), len(column.levels)))
    for row, text in enumerate(series.texts()):
        text = column.fill if series.missing[row] else text
        place = position.get(text, position.get(plain_text(text)))
        if place is None:
            flags[row].append(f"{column.name} has the unseen level {text!r}")
        else:
            found[row, place] = 1.0
    return found


def _encode_date(column: Column, series: Series, frame: Frame, flags) -> np.ndarray:
    dates = dates_of(series, column.order, frame)
    dates = np.where(series.missing, np.datetime64(column.fill, "us"), dates)
    parts = date_parts(dates, column.offset)
    return np.stack([parts[name] for name in column.parts or PARTS], axis=1)


def _check_range(values: np.ndarray, column: Column, frame: Frame) -> None:
    """Refuse what float32 cannot hold, with its column and row."""
    large = (np.abs(values) > np.finfo(np.float32).max).any(axis=1)
    if large.any():
        row = int(np.argmax(large))
        raise InputError(
            f"{frame.at(row)}: column {column.name!r} holds {values[row].max():g}, which is not a "
            "finite float32; give it in a larger unit, or leave the column out by ignore"
        )


def _few(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


_ENCODERS = {
    "number": _encode_number,
    "boolean": _encode_boolean,
    "category": _encode_category,
    "date": _encode_date,
}
_ORDERS = {"ymd": "year-month-day", "dmy": "day/month/year", "mdy": "month/day/year"}
