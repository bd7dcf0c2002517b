"""The pool: rows that may be bought. It may lie on disk; only chunks of it are read at once."""

from typing import Any

import numpy as np

from credax.description import digest
from credax.errors import InputError
from credax.problem import check_inputs

WHOLE_BYTES = 2**32
_BLOCK = 2**24


class Rows:
    """Some rows of an array, in order, without a copy of them: slices are read when asked for."""

    def __init__(self, x: np.ndarray, indices: np.ndarray):
        self._x, self._indices = x, indices

    def __len__(self) -> int:
        return len(self._indices)

    @property
    def shape(self) -> tuple[int, ...]:
        """As the array of these rows would have."""
        return (len(self._indices), *self._x.shape[1:])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._x.ndim

    @property
    def dtype(self) -> Any:
        """Type of the numbers."""
        return self._x.dtype

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Some of the rows, as an array in memory."""
        return np.asarray(self._x[self._indices[rows]])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """All of the rows in memory, for those who ask for them."""
        return np.asarray(self[slice(None)], dtype)


def check_pool(x: Any) -> np.ndarray:
    """The pool itself if it has rows of finite numbers, else an error."""
    x = x if isinstance(x, np.ndarray) else np.asarray(x)
    if x.ndim < 2 or len(x) == 0:
        raise InputError(
            f"the pool has shape {x.shape}; give at least one row of inputs, [rows, ...]"
        )
    check_inputs(x, "the pool")
    return x


def pool_digest(x: np.ndarray) -> dict[str, Any]:
    """Number, shape, type and digest of a pool's inputs; its labels are not looked at.

    Of pools larger than 4 GiB the digest is that of 4096 rows, evenly spread.
    """
    rows = np.arange(len(x))
    if x.nbytes > WHOLE_BYTES:
        rows = np.linspace(0, len(x) - 1, 4096).astype(int)
    step = max(1, _BLOCK // max(1, x[:1].nbytes))
    parts = [
        digest(np.ascontiguousarray(x[rows[start : start + step]]).tobytes())
        for start in range(0, len(rows), step)
    ]
    return {
        "count": len(x),
        "shape": list(x.shape[1:]),
        "dtype": str(x.dtype),
        "digest": digest("".join(parts)),
    }
