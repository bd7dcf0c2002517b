"""What users hand to `credax.fit`, turned into what the loop takes; or an error."""

import dataclasses
from typing import Any

import numpy as np

from credax.data.about import About
from credax.data.dataset import Dataset, Split
from credax.data.tasks import Tasks
from credax.errors import InputError
from credax.problem import Problem


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


def held_out_rows(data: Any, validation: Any) -> Split | None:
    """Validation rows: those given, else those of the data set."""
    if validation is not None:
        return training_rows(validation, "validation")
    return data.validation if isinstance(data, Dataset) else None


def about_rows(data: Any, train: Split, held_out: Split | None, problem: Problem) -> About:
    """What a run's folder says of its rows."""
    if not isinstance(data, Dataset):
        return About.of_rows(train, held_out, problem.likelihood.task)
    return About.of(dataclasses.replace(data, validation=held_out))


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
