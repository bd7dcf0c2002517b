"""A person's answers, read from a table: every mistake is one sentence with its line."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from credax.data.cells import is_number
from credax.data.frame import Frame
from credax.data.tabular import read_frame
from credax.data.unlabelled import plain_label
from credax.errors import InputError

ROW = "row"
"""The column that says which row an answer is for: rows of the pool, from 1."""


class Answers(NamedTuple):
    """New labels by row (from 0), and how many answers only repeated what is known."""

    labels: dict[int, str]
    repeated: int


@dataclass(frozen=True)
class Asking:
    """What answers are checked against."""

    target: str
    asked: frozenset[int]
    """Rows that were ever asked for."""
    known: Mapping[int, str]
    """Labels that are there."""
    classes: Sequence[str]
    """Classes that there are; empty where the first answers name them, or for numbers."""
    task: str
    """classification, regression, or auto where the first answers say."""
    size: int
    ids: Mapping[str, int]
    """Rows by the cells of the column ``id``, where one was named."""
    id: str = ""

    def read(self, path: Path, new_classes: bool = False, correct: bool = False) -> Answers:
        """The answers of a table; cells without a label are passed over."""
        frame = read_frame(path, exact=(ROW, self.id) if self.id else (ROW,))
        if self.target not in frame.names:
            raise InputError(
                f"{path} has no column {self.target!r}; write the answers into a column of that "
                f"name, as in to_label.csv (it has {', '.join(frame.names[:6])})"
            )
        rows, texts = self._rows(frame), frame[self.target].texts()
        found: dict[int, str] = {}
        repeated = 0
        for place, (row, text) in enumerate(zip(rows, texts, strict=True)):
            label = plain_label(text)
            if not label:
                continue
            number = self._number(frame, place, row)
            self._check(frame, place, label, new_classes)
            if number in found and found[number] != label:
                raise InputError(
                    f"{frame.at(place)}: row {row} is {label!r} here and {found[number]!r} above; "
                    "give one answer for each row"
                )
            if number in self.known and self.known[number] != label and not correct:
                raise InputError(
                    f"{frame.at(place)}: row {row} is {label!r} here and was told to be "
                    f"{self.known[number]!r} before; take it out, or pass --correct to change it"
                )
            if self.known.get(number) == label:
                repeated += 1
            else:
                found[number] = label
        return Answers(found, repeated)

    def _rows(self, frame: Frame) -> list[str]:
        for name in filter(None, (ROW, self.id)):
            if name in frame.names:
                return frame[name].texts()
        also = f" or {self.id!r}" if self.id else ""
        raise InputError(
            f"{frame.where} has no column {ROW!r}{also}; keep the column {ROW!r} of to_label.csv, "
            "which says what each answer is for"
        )

    def _number(self, frame: Frame, place: int, row: str) -> int:
        if ROW not in frame.names:
            if row not in self.ids:
                raise InputError(
                    f"{frame.at(place)}: {self.id} {row!r} is not in the pool; answer the rows of "
                    "to_label.csv"
                )
            number = self.ids[row]
        else:
            whole = is_number(row) and float(row) == np.rint(float(row))
            if not whole or not 1 <= float(row) <= self.size:
                raise InputError(
                    f"{frame.at(place)}: row is {row!r}; the pool has the rows 1 to {self.size}"
                )
            number = int(float(row)) - 1
        if number not in self.asked and number not in self.known:
            raise InputError(
                f"{frame.at(place)}: row {row} was not asked for; answer the rows of to_label.csv"
            )
        return number

    def _check(self, frame: Frame, place: int, label: str, new_classes: bool) -> None:
        if self.task == "regression":
            if not is_number(label) or not np.isfinite(float(label)):
                raise InputError(
                    f"{frame.at(place)}: {self.target} is {label!r}; give a finite number, as for "
                    "the other rows"
                )
            return
        if not self.classes or label in self.classes or new_classes:
            return
        near = difflib.get_close_matches(label, self.classes, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"{frame.at(place)}: {self.target} is {label!r}, which is none of the classes so far "
            f"({', '.join(self.classes[:8])}{', ...' if len(self.classes) > 8 else ''}); {hint}"
            "correct it, or pass --new-classes if it is a new class"
        )
