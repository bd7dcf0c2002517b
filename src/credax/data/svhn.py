"""SVHN, format 2: street-view house numbers cropped to single digits."""

from pathlib import Path

import numpy as np

from credax.data import images
from credax.data.checks import as_labels
from credax.data.dataset import Dataset, Split
from credax.data.matlab import read_matlab
from credax.data.places import first_match
from credax.data.source import Download, Source
from credax.errors import InputError
from credax.reading import read_npz

_MEAN, _DEVIATION = (0.4377, 0.4438, 0.4728), (0.1980, 0.2010, 0.1970)
_FOLDERS = ("", "svhn", "SVHN")
_ADDRESS = "http://ufldl.stanford.edu/housenumbers/"


def find(root: Path) -> Path | None:
    """The published test file, or an npz file with ``x`` and ``y``."""
    names = ("test_32x32.mat", "svhn.npz", "svhn_test.npz", "svhn_test_*.npz")
    return first_match([root / folder for folder in _FOLDERS], names)


def read(place: Path) -> Dataset:
    """SVHN from ``test_32x32.mat`` and the ``train_32x32.mat`` beside it, or from an npz file.

    ``x`` is bytes ``[rows, 32, 32, 3]``; digit 0, published as label 10, is label 0. Where only
    test digits are there, the train split is empty.
    """
    if place.suffix == ".npz":
        parts = _from_npz(place)
    else:
        parts = {"test": _from_mat(place)}
        train = place.with_name("train_32x32.mat")
        if train.exists():
            parts["train"] = _from_mat(train)
    inputs = images.units(_MEAN, _DEVIATION)
    splits = {part: Split(x, y, inputs) for part, (x, y) in parts.items()}
    train = splits.get("train", splits["test"][:0])
    return Dataset("svhn", train, splits["test"], class_names=tuple("0123456789"))


def _from_npz(place: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    arrays = read_npz(place)
    keys = {"test": ("x", "y")} if "x" in arrays else {}
    keys = keys or {part: (f"x_{part}", f"y_{part}") for part in ("train", "test")}
    absent = {key for pair in keys.values() for key in pair} - arrays.keys()
    if absent:
        raise InputError(
            f"{place} has the arrays {', '.join(sorted(arrays)) or 'none'}; it needs x_train, "
            "y_train, x_test and y_test, or x and y of the test split"
        )
    return {part: _pair(arrays[x], arrays[y], place) for part, (x, y) in keys.items()}


def _from_mat(place: Path) -> tuple[np.ndarray, np.ndarray]:
    stored = read_matlab(place, ("X", "y"))
    if not {"X", "y"} <= stored.keys() or stored["X"].ndim != 4:
        raise InputError(f"{place} has no X [32, 32, 3, rows] and y; get the published file again")
    x = np.ascontiguousarray(np.moveaxis(stored["X"], -1, 0))
    return _pair(x, stored["y"].ravel(), place)


def _pair(x: np.ndarray, y: np.ndarray, place: Path) -> tuple[np.ndarray, np.ndarray]:
    if x.shape[1:] != (32, 32, 3) or x.dtype != np.uint8 or y.shape != x.shape[:1]:
        raise InputError(
            f"{place} holds x of shape {x.shape} and type {x.dtype} with y of shape {y.shape}; "
            "it should hold [rows, 32, 32, 3] bytes and one label per row"
        )
    y = as_labels(y, str(place))
    return x, np.where(y == 10, 0, y)


SOURCES = (
    Source(
        "svhn",
        "house numbers seen from the street, 73 257 + 26 032 (from svhn_test*.npz: the test split)",
        "classification",
        (32, 32, 3),
        read,
        find,
        "put train_32x32.mat and test_32x32.mat, or svhn_test.npz (x, y), into {root}",
        (
            Download(
                "train_32x32.mat",
                (f"{_ADDRESS}train_32x32.mat",),
                "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
            ),
            Download(
                "test_32x32.mat",
                (f"{_ADDRESS}test_32x32.mat",),
                "md5:eb5a983be6a315427106f1b164d9cef3",
            ),
        ),
    ),
)
