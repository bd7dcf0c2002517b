"""What was decided for one column of a table, and its values as inputs of a network."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from credax.data.frame import Frame, Series
from credax.data.parsing import BOOLEANS, Order, plain_text
from credax.data.values import date_parts, dates_of, numbers_of
from credax.errors import InputError

Kind = Literal["number", "boolean", "category", "date", "empty"]
KINDS = ("number", "boolean", "category", "date", "date-dmy", "date-mdy")
"""What a user may say a column is."""
PARTS = ("year", "month", "weekday", "days")


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

    def is_sound(self) -> bool:
        """Whether what a file says of the column can be applied."""
        try:
            if self.kind == "number":
                return bool(np.isfinite(float(self.fill)) and np.isfinite(self.offset))
            if self.kind == "date":
                np.datetime64(self.fill, "us")
                return set(self.parts) <= set(PARTS) and bool(np.isfinite(self.offset))
        except ValueError:
            return False
        known = {"boolean": BOOLEANS, "category": self.levels, "empty": {self.fill}}[self.kind]
        return self.fill in known

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
    if column.constant:
        for row in np.flatnonzero(dates != np.datetime64(column.fill, "us")):
            flags[row].append(f"{column.name} was always {column.fill[:10]} in training")
    parts = date_parts(dates, column.offset)
    return np.stack([parts[name] for name in column.parts or PARTS], axis=1)


def _few(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


_ENCODERS = {
    "number": _encode_number,
    "boolean": _encode_boolean,
    "category": _encode_category,
    "date": _encode_date,
}
