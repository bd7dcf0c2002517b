"""UCI tables in the files of the repository itself, cut at random: airfoil and bike sharing."""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from credax.data.arrays import assemble
from credax.data.checks import as_float32, first_line
from credax.data.dataset import Dataset
from credax.data.places import first_match
from credax.data.source import Source
from credax.errors import InputError
from credax.reading import read_bytes

TEST_SHARE = 0.1
_WHEN = ("season", "yr", "mnth", "hr", "holiday", "weekday", "workingday")
_HOUR = (*_WHEN, "weathersit", "temp", "atemp", "hum", "windspeed")


def find(file: str, folder: str, root: Path) -> Path | None:
    """The file under the root, under ``uci``, or in a folder of the set's name."""
    bases = [root, root / "uci", root / folder, root / "uci" / folder, root / "UCI_Datasets"]
    return first_match(bases, (file,))


def read(
    name: str, table: Callable[[Path], np.ndarray], place: Path, *, split: int | None = None
) -> Dataset:
    """Nine tenths of the rows for training, the rest for test, drawn with seed ``split`` (0)."""
    split = 0 if split is None else split
    if isinstance(split, bool) or not isinstance(split, int) or split < 0:
        raise InputError(f"split is {split}; {name} has the splits 0, 1, 2 and so on")
    numbers = table(place)
    if len(numbers) < 2:
        raise InputError(f"{place} has {len(numbers)} rows; get the published file again")
    order = np.random.default_rng(split).permutation(len(numbers))
    count = max(1, round(TEST_SHARE * len(numbers)))
    x, y = as_float32(numbers[:, :-1]), as_float32(numbers[:, -1])
    rows = {"test": order[:count], "train": order[count:]}
    parts = {part: (x[index], y[index]) for part, index in rows.items()}
    return assemble(name, parts, "regression", ())


def airfoil(place: Path) -> np.ndarray:
    """``airfoil_self_noise.dat``: five inputs and the sound level, separated by tabs."""
    return _numbers(place, read_bytes(place).decode("latin1"), range(6), None)


def bike_sharing(place: Path) -> np.ndarray:
    """``hour.csv``: 12 inputs and the count of all rentals, without its two parts and the date."""
    text = read_bytes(place).decode("latin1")
    header = text.partition("\n")[0].strip().split(",")
    missing = [column for column in (*_HOUR, "cnt") if column not in header]
    if missing:
        raise InputError(f"{place} has no column {missing[0]!r}; get the published file again")
    columns = [header.index(column) for column in (*_HOUR, "cnt")]
    return _numbers(place, text.partition("\n")[2], columns, ",")


def _numbers(place: Path, text: str, columns, delimiter: str | None) -> np.ndarray:
    try:
        return np.loadtxt(io.StringIO(text), usecols=list(columns), delimiter=delimiter, ndmin=2)
    except ValueError as error:
        raise InputError(
            f"{place} is not the published table ({first_line(error)}); get it again"
        ) from error


_SETS = (
    ("airfoil", airfoil, "airfoil_self_noise.dat", "noise of airfoils, 1503 rows", 5, "291"),
    ("bike-sharing", bike_sharing, "hour.csv", "rentals of bikes per hour, 17 379 rows", 12, "275"),
)

SOURCES = tuple(
    Source(
        f"uci/{name}",
        description,
        "regression",
        (features,),
        partial(read, f"uci/{name}", table),
        partial(find, file, name),
        f"put {file} of data set {number} of archive.ics.uci.edu into {{root}}",
    )
    for name, table, file, description, features, number in _SETS
)
