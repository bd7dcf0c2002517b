"""The cells of a text table: separators, header, decimal commas; the same for every reader."""

import csv
import io
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from credax.data.checks import first_line
from credax.errors import InputError
from credax.reading import read_text

Row = tuple[int, list[str]]
"""The number of a line, and its cells."""

_SEPARATOR = re.compile(r'"?sep=([,;\t|])"?\s*')
_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?")
_POINT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")


@dataclass(frozen=True)
class Cells:
    """The rows of a table as text; numbers are written with a decimal point whatever the file has.

    ``names`` are the header's, or None for a file without one.
    """

    path: Path
    names: tuple[str, ...] | None
    rows: list[Row]

    @property
    def width(self) -> int:
        """Columns."""
        return len(self.rows[0][1])

    def column(self, position: int) -> list[str]:
        """The texts of one column."""
        return [cells[position] for _, cells in self.rows]

    def numbers(self, position: int) -> np.ndarray:
        """One column as numbers; the first cell that is none is named."""
        return np.array([self._number(row, position) for row in self.rows])

    def label(self, position: int) -> str:
        """The name of a column in messages."""
        return str(position) if self.names is None else self.names[position]

    def _number(self, row: Row, position: int) -> float:
        line, cells = row
        value = float(cells[position]) if is_number(cells[position]) else np.nan
        if not np.isfinite(value):
            raise InputError(
                f"{self.path}, line {line}: column {self.label(position)!r} holds "
                f"{cells[position]!r}, which is not a finite number; fill it in, encode it as a "
                "number, or leave the column out by ignore"
            )
        return value


def read_rows(path: Path, delimiter: str | None = None) -> list[Row]:
    """All lines that hold something, cut into cells, of equal length."""
    try:
        text = read_text(path, problem="cannot be read as UTF-8 CSV")
        with io.StringIO(text, newline="") as file:
            first, start, skipped = file.readline(), 0, 0
            if said := _SEPARATOR.fullmatch(first):  # written by spreadsheets for spreadsheets
                delimiter, start, skipped = delimiter or said[1], file.tell(), 1
            delimiter = delimiter or _delimiter(first)
            file.seek(start)
            reader = csv.reader(file, delimiter=delimiter)
            rows = [(reader.line_num + skipped, [c.strip() for c in row]) for row in reader]
    except (csv.Error, TypeError) as error:
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
    return rows if delimiter == "," else _with_points(path, rows)


def is_number(cell: str) -> bool:
    """Whether a cell is a number as a file writes it: ``1_000`` is a name."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _delimiter(line: str) -> str:
    """The most frequent of comma, semicolon and tab, outside quotes and not inside a number."""
    line = re.sub(r'"[^"]*"', "", line)
    bare = re.sub(r"(?<=\d),(?=\d)", "", line) if re.search("[;\t]", line) else line
    return max(",;\t", key=bare.count)


def _with_points(path: Path, rows: list[Row]) -> list[Row]:
    """Decimal commas as points, in a table whose numbers have commas and no points."""
    cells = [cell for _, row in rows for cell in row]
    commas = [cell for cell in cells if _COMMA.fullmatch(cell)]
    if not commas or any(_POINT.fullmatch(cell) for cell in cells):
        return rows
    if all(_THOUSANDS.fullmatch(cell) for cell in commas):
        example = commas[0]
        warnings.warn(
            f"the comma of {path} is read as a decimal comma: {example} is "
            f"{example.replace(',', '.')}; write thousands without a separator",
            stacklevel=4,
        )
    point = lambda cell: cell.replace(",", ".") if _COMMA.fullmatch(cell) else cell  # noqa: E731
    return [(line, [point(cell) for cell in row]) for line, row in rows]
