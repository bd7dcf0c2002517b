"""What every data set must satisfy before anyone trains on it."""

import numpy as np

from credax.data.dataset import Dataset, Split
from credax.data.pixel_form import check_pixels
from credax.errors import InputError
from credax.reading import first_line as first_line

MANY_CLASSES = 1_000_000
_BLOCK = 4096


def check(dataset: Dataset, where: str, *, train_may_be_empty: bool = False) -> Dataset:
    """The data set itself if it is sound, else an `InputError` that names ``where`` it came from.

    Sound means: rows in every split, one input shape, finite numbers, labels that are integers in
    ``[0, num_classes)`` (classification) or finite numbers (regression).
    """
    splits = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
    for name, split in splits.items():
        if split is None:
            continue
        if len(split) == 0 and not (name == "train" and train_may_be_empty):
            raise InputError(f"{where}: the {name} split is empty; give at least one row")
        if split.x.ndim < 2 or 0 in split.x.shape[1:]:
            raise InputError(
                f"{where}: x of the {name} split has shape {split.x.shape}; "
                "give [rows, features] or [rows, height, width, channels]"
            )
        if split.x.shape[1:] != dataset.input_shape:
            raise InputError(
                f"{where}: inputs are {dataset.input_shape} in the train split and "
                f"{split.x.shape[1:]} in the {name} split; give all splits one shape"
            )
        finite(split.x, f"{where}: x of the {name} split")
    for name, split in splits.items():
        if split is not None and len(split):
            _check_targets(dataset, name, split, where)
    return dataset


def as_float32(values: np.ndarray) -> np.ndarray:
    """Numbers as float32; what is too large becomes infinite, which `check` reports by its row."""
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float32)


def as_labels(y: np.ndarray, where: str) -> np.ndarray:
    """Whole numbers as int32 class numbers; whether they are in range is for `check` to say.

    >>> as_labels(np.array([0.0, 2.0]), "here").tolist()
    [0, 2]
    """
    whole = y.dtype.kind in "biu" or (y.dtype.kind == "f" and np.array_equal(y, np.rint(y)))
    if not whole or (y.size and (y.min() < -MANY_CLASSES or y.max() >= MANY_CLASSES)):
        raise InputError(
            f"{where}: y of type {y.dtype} does not hold class numbers; "
            f"number the classes 0, 1, 2, ... below {MANY_CLASSES}"
        )
    return y.astype(np.int32)


def finite(values: np.ndarray, what: str) -> None:
    """Raise an `InputError` that names the first row with a NaN or an infinity."""
    if np.issubdtype(values.dtype, np.integer):
        return
    if not np.issubdtype(values.dtype, np.floating):
        raise InputError(f"{what} has type {values.dtype}; give integers or floating-point numbers")
    axes = tuple(range(1, values.ndim))
    # Block by block: rows in a file may be more than memory holds.
    starts = range(0, len(values), _BLOCK)
    blocks = [~np.isfinite(values[s : s + _BLOCK]).all(axis=axes) for s in starts]
    bad = np.concatenate(blocks) if blocks else np.zeros(0, bool)
    if bad.any():
        raise InputError(
            f"{what} has a value that is not a finite float32 in row {int(np.argmax(bad))} "
            f"({int(bad.sum())} such rows); remove or fill in these rows"
        )


def _check_targets(dataset: Dataset, name: str, split: Split, where: str) -> None:
    if split.tasks is not None:
        return  # `credax.data.tasks.Tasks` has checked its points
    if split.pixels is not None:
        classes = dataset.num_classes if dataset.task == "classification" else None
        check_pixels(split.y, split.pixels, classes, f"{where}: y of the {name} split")
        return
    if dataset.task == "regression":
        if split.y.ndim not in (1, 2):
            raise InputError(
                f"{where}: y of the {name} split has shape {split.y.shape}; "
                "give [rows] or [rows, targets]"
            )
        finite(split.y, f"{where}: y of the {name} split")
        return
    if split.y.ndim != 1 or not np.issubdtype(split.y.dtype, np.integer):
        raise InputError(
            f"{where}: y of the {name} split has shape {split.y.shape} and type {split.y.dtype}; "
            "give one integer label per row"
        )
    classes = len(dataset.class_names) or None
    bad = (split.y < 0) | (split.y >= classes if classes else False)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"{where}: the label in row {row} of the {name} split is {split.y[row]}; labels are "
            + (f"0 to {classes - 1}" if classes else "0, 1, 2, ...")
        )
