"""How the columns of a table become numbers: decided on training rows, kept, applied unchanged."""

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float32

from credax.data.column import Column
from credax.data.frame import Frame, frame_of
from credax.errors import DamagedFile, InputError
from credax.reading import check_settings


class Encoded(NamedTuple):
    """Inputs of a network, and what is unusual about each row."""

    x: Float32[np.ndarray, "rows features"]
    flags: tuple[tuple[str, ...], ...]
    """Per row, in words: levels that training rows never had, values that they never lacked."""


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
            own: Any = {n: tuple(v) if n in listed else v for n, v in each.items()}
            columns.append(Column(**own))
        values |= {"targets": tuple(values["targets"]), "ignored": tuple(values.get("ignored", ()))}
        made = cls(**{**values, "columns": tuple(columns)})
        if len(made.features) != width or not all(column.is_sound() for column in columns):
            raise DamagedFile(
                f"{where} describes columns that do not give {width} inputs; restore it"
            )
        return made


def flag_sentence(frame: Frame, flags: Sequence[Sequence[str]]) -> str:
    """How many rows are unusual, and the first of them; empty where none is."""
    rows = [row for row, found in enumerate(flags) if found]
    if not rows:
        return ""
    return (
        f"{len(rows)} of {len(frame)} rows are unlike all training rows; the first is "
        f"{frame.at(rows[0])}: {'; '.join(flags[rows[0]])}"
    )


def _check_range(values: np.ndarray, column: Column, frame: Frame) -> None:
    """Refuse what float32 cannot hold, with its column and row."""
    large = (np.abs(values) > np.finfo(np.float32).max).any(axis=1)
    if large.any():
        row = int(np.argmax(large))
        raise InputError(
            f"{frame.at(row)}: column {column.name!r} holds {values[row].max():g}, which is not a "
            "finite float32; give it in a larger unit, or leave the column out by ignore"
        )
