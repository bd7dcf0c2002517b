"""Checks of labels, targets and counts, with one sentence each."""

import numpy as np

from credax.errors import InputError

_WORDS = {2: "two", 3: "three", 4: "four"}


def check_labels(y: np.ndarray, classes: int) -> None:
    """Labels are integers in ``0 .. classes - 1``, one per row."""
    y = np.asarray(y)
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer):
        raise InputError(
            f"y has shape {y.shape} and type {y.dtype}; labels are integers, one per row"
        )
    if len(y) and (y.min() < 0 or y.max() >= classes):
        raise InputError(
            f"y holds labels from {y.min()} to {y.max()}; with {classes} classes they must lie in "
            f"0 to {classes - 1}"
        )


def check_targets(y: np.ndarray, targets: int) -> None:
    """Targets are finite numbers, so many per row."""
    y = np.asarray(y)
    width = int(np.prod(y.shape[1:], dtype=int))
    if y.ndim > 2 or width != targets:
        raise InputError(
            f"y has shape {y.shape}; {targets} target(s) per row are predicted, so y must be "
            f"[rows, {targets}]" + (" or [rows]" if targets == 1 else "")
        )
    if not np.issubdtype(y.dtype, np.number) or not np.all(np.isfinite(y)):
        row = (
            int(np.argmin(np.isfinite(y.reshape(len(y), -1)).all(1))) if y.dtype.kind == "f" else 0
        )
        raise InputError(f"y is not a finite number in row {row}; clean or drop that row")


def check_counts(y: np.ndarray, targets: int, likelihood: str) -> None:
    """Targets are whole numbers of at least zero."""
    check_targets(y, targets)
    flat = np.asarray(y).reshape(len(y), -1)
    bad = ((flat < 0) | (flat != np.floor(flat))).any(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"y is {flat[row].tolist()} in row {row}; {likelihood} needs counts: whole numbers of "
            "at least 0"
        )


def check_multiple(outputs: int, each: int, likelihood: str, parts: str) -> None:
    """The network has so many outputs per target."""
    if outputs % each:
        raise InputError(
            f"the network has {outputs} outputs; {likelihood} needs {_WORDS.get(each, each)} per "
            f"target ({parts})"
        )
