"""Rows to predict: checked, and batch by batch in one compiled shape."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jax.core import Tracer

from credax.errors import InputError
from credax.problem import check_inputs


def check_rows(x, input_shape: tuple[int, ...]) -> np.ndarray:
    """``x`` as an array of rows of a shape, or an error if it cannot be predicted."""
    x = np.asarray(x)
    _check_shape(x, input_shape)
    if len(x) == 0:
        raise InputError("x has no rows; give at least one")
    check_inputs(x)
    return x


def is_traced(x, input_shape: tuple[int, ...]) -> bool:
    """Whether ``x`` is a value inside ``jax.jit`` or its like; only its shape can be checked."""
    if isinstance(x, Tracer):
        _check_shape(x, input_shape)
        return True
    return False


def _check_shape(x: Any, input_shape: tuple[int, ...]) -> None:
    if x.ndim == 0 or tuple(x.shape[1:]) != tuple(input_shape):
        raise InputError(
            f"x has shape {x.shape}; this posterior was trained on inputs of shape "
            f"{tuple(input_shape)}, so x must be [rows, {', '.join(map(str, input_shape))}]"
        )


def in_batches(function: Callable[[np.ndarray, int], Any], x: np.ndarray, size: int) -> list[Any]:
    """A function of rows and the number of the first one, batch by batch, in one compiled shape.

    The last batch is filled up by repeating its last row, and its result is cut.
    """
    size = min(size, len(x))
    parts = []
    for start in range(0, len(x), size):
        rows = x[start : start + size]
        missing = size - len(rows)
        padded = np.concatenate([rows, np.repeat(rows[-1:], missing, axis=0)]) if missing else rows
        part = function(padded, start)
        parts.append(_cut(part, len(rows)) if missing else part)
    return parts


def _cut(part: Any, rows: int) -> Any:
    """The first rows of a prediction, or of several arrays."""
    cut = slice(0, rows)
    return tuple(a[cut] for a in part) if isinstance(part, tuple) else part.select(cut)
