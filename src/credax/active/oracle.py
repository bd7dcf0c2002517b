"""Who gives labels: a function of row numbers, the only door through which labels come."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int

from credax.errors import InputError

Oracle = Callable[[np.ndarray], Any]
"""``oracle(indices) -> labels``: the labels of some rows of the pool, in the order asked for."""


@runtime_checkable
class KnowsClasses(Protocol):
    """An oracle that can choose rows class by class: one of a labelled data set, not a person."""

    def balanced(self, count: int, generator: np.random.Generator) -> np.ndarray:
        """So many rows, as many of each class as of any other."""
        ...


class DatasetLabels:
    """The labels of a data set, given out row by row.

    >>> labels = DatasetLabels(np.array([3, 1, 2]))
    >>> labels(np.array([2, 0])).tolist()
    [2, 3]
    """

    def __init__(self, y: np.ndarray):
        self._y = y

    def __call__(self, indices: Int[np.ndarray, " asked"]) -> np.ndarray:
        """The labels of these rows."""
        return np.asarray(self._y[indices])

    def balanced(self, count: int, generator: np.random.Generator) -> Int[np.ndarray, " chosen"]:
        """``count`` rows in turn from every class; a class that runs out is passed over."""
        y = np.asarray(self._y)
        ranks = np.empty(len(y), np.int64)
        classes = np.unique(y)
        for label in classes:
            rows = np.flatnonzero(y == label)
            ranks[rows[generator.permutation(len(rows))]] = np.arange(len(rows))
        # Rows of one rank in a random order, so that no class is preferred where count ends.
        return np.lexsort((generator.random(len(y)), ranks))[:count].astype(np.int64)


def checked_labels(labels: Any, indices: np.ndarray, task: str) -> np.ndarray:
    """What an oracle answered, one label per row that was asked for; or an error."""
    found = np.asarray(labels)
    if found.ndim == 0 or len(found) != len(indices):
        raise InputError(
            f"oracle gave labels of shape {found.shape} for {len(indices)} rows; it must give one "
            "label for each, in the order of the rows"
        )
    if task == "classification":
        if found.dtype.kind not in "iu" and not np.array_equal(found, np.rint(found)):
            raise InputError(
                f"oracle gave labels of type {found.dtype}; classes are whole numbers from 0"
            )
        return found.astype(np.int32)
    if not np.isfinite(found.astype(np.float64)).all():
        row = int(indices[int(np.argmin(np.isfinite(found.reshape(len(found), -1)).all(1)))])
        raise InputError(f"oracle gave NaN or infinity for row {row}; give finite targets")
    return found.astype(np.float32)
