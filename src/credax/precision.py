"""Numbers that single precision cannot hold, or cannot tell apart: refused before training."""

from typing import Any

import jax
import numpy as np

from credax.errors import InputError

LARGEST = float(np.finfo(np.float32).max)
ROUNDING = 1e-3
"""Share of a column's standard deviation that rounding to float32 may cost."""
SCALES = (1e-15, 1e15)
"""Standard deviations whose squares float32 holds without overflow."""


def check_range(x: np.ndarray, name: str, block: int = 4096) -> None:
    """Refuse numbers that float32 turns into infinity, naming the first row."""
    if x.dtype.itemsize <= 4 or _double():
        return
    for start in range(0, len(x), block):
        rows = np.abs(x[start : start + block].reshape(len(x[start : start + block]), -1))
        large = (rows > LARGEST).any(axis=1)
        if large.any():
            row = int(np.argmax(large))
            raise InputError(
                f"{name} holds {rows[row].max():g} in row {start + row}, which is beyond single "
                f"precision ({LARGEST:.1e}); give it in a larger unit, or take its logarithm"
            )


def check_digits(x: np.ndarray, name: str) -> None:
    """Refuse columns whose differences are lost when they are rounded to float32.

    >>> check_digits(np.array([[1.7e9 + i] for i in range(5)]), "x")
    Traceback (most recent call last):
    ...
    credax.errors.InputError: ...
    """
    if x.dtype.itemsize <= 4 or x.dtype.kind == "b" or _double() or len(x) < 2:
        return
    columns = x.reshape(len(x), -1)
    deviation = columns.std(axis=0, dtype=np.float64)
    lost = np.abs(columns - columns.astype(np.float32)).max(axis=0)
    bad = np.flatnonzero((deviation > 0) & (lost > ROUNDING * deviation))
    if len(bad):
        k = bad[0]
        raise InputError(
            f"column {k} of {name} varies by {deviation[k]:g} around {columns[:, k].mean():g}, "
            "which single precision cannot tell apart; subtract its mean first, or read the table "
            "with credax.data.from_frame, which does"
        )


def check_scale(targets: Any) -> None:
    """Refuse units of targets whose variance is no number in single precision."""
    scale = np.asarray(targets.scale, np.float64)
    if ((scale < SCALES[0]) | (scale > SCALES[1])).any():
        odd = float(scale[(scale < SCALES[0]) | (scale > SCALES[1])].flat[0])
        raise InputError(
            f"y has a standard deviation of {odd:g}, whose square single precision cannot hold; "
            "give the targets in another unit"
        )


def _double() -> bool:
    """Whether jax computes in double precision."""
    return jax.dtypes.canonicalize_dtype(np.float64) == np.float64
