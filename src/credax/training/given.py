"""What users hand to `credax.fit`, turned into what the loop takes; or an error."""

from typing import Any

import numpy as np

from credax.data.dataset import Dataset, Split
from credax.data.tasks import Tasks
from credax.errors import InputError


def training_rows(data: Any, name: str = "data") -> Split:
    """The rows of a split, a data set's training split, or a pair ``(x, y)``."""
    if isinstance(data, Split):
        return data
    if isinstance(data, Dataset):
        return data.train
    if isinstance(data, Tasks):
        return data.split()
    if isinstance(data, tuple | list) and len(data) == 2:
        return Split(_array(data[0], f"{name}[0]"), _array(data[1], f"{name}[1]"))
    raise InputError(
        f"{name} is a {type(data).__name__}; give a Split, a Dataset (such as "
        "credax.data.load('digits')), or a pair of arrays (x, y)"
    )


def check_method(method: Any) -> None:
    """Raise an error if this is no record of a method."""
    if isinstance(method, type):
        raise InputError(
            f"method is the class {method.__name__}; give a record, such as {method.__name__}()"
        )
    if not all(hasattr(method, name) for name in ("dynamics", "posterior", "load", "name")):
        raise InputError(
            f"method is {method!r}; give a record of credax.methods, such as "
            "credax.DeepEnsemble(members=5), or its name, such as 'deep-ensemble'"
        )


def _array(value: Any, name: str) -> np.ndarray:
    array = np.asarray(value)
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise InputError(
            f"{name} has shape {array.shape} and type {array.dtype}; give an array of numbers "
            "with rows first"
        )
    return array
