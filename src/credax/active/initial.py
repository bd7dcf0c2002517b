"""The labels before the first round."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Int64

from credax.active.given import Given
from credax.active.oracle import KnowsClasses
from credax.errors import InputError
from credax.keys import numpy_generator

_BRANCH = 2**31 - 3


def initial_rows(initial: Any, given: Given, key: Any) -> Int64[np.ndarray, " rows"]:
    """The rows themselves where they are given, else so many: class by class, or at random.

    Only an oracle that knows the classes of all rows can balance them; a person does not.
    """
    size = len(given.pool)
    if not isinstance(initial, int | np.integer):
        rows = np.atleast_1d(np.asarray(initial))
        whole = rows.ndim == 1 and rows.dtype.kind in "iu"
        if not whole or len(np.unique(rows)) < len(rows) or rows.min() < 0 or rows.max() >= size:
            raise InputError(
                f"initial is {initial!r}; give a number of labels, or rows of the pool from 0 to "
                f"{size - 1}, each once"
            )
        return rows.astype(np.int64)
    generator = numpy_generator(jax.random.fold_in(key, _BRANCH))
    if isinstance(given.oracle, KnowsClasses) and given.task == "classification":
        return given.oracle.balanced(int(initial), generator)
    return generator.permutation(size)[: int(initial)].astype(np.int64)
