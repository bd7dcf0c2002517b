"""What rows are, by digest: of a whole split, and of each row."""

import hashlib
from typing import Any

import numpy as np
from jaxtyping import UInt64

from credax.data.dataset import Split
from credax.errors import InputError

WHOLE_BYTES = 2**32
_BLOCK = 4096


def fingerprint(split: Split, most: int = WHOLE_BYTES) -> dict[str, Any]:
    """Number, shape, type and digest of the rows.

    Of sets larger than ``most`` bytes the digest is that of 4096 rows, evenly spread.
    """
    rows: Any = slice(None)
    if split.x.nbytes > most:
        rows = np.linspace(0, len(split) - 1, 4096).astype(int)
    digest = hashlib.blake2b(digest_size=16)
    for array in (split.x, split.y):
        digest.update(np.ascontiguousarray(array[rows]).data)
    return {
        "count": len(split),
        "shape": list(split.x.shape[1:]),
        "digest": digest.hexdigest(),
        "dtype": str(split.x.dtype),
    }


def row_digests(split: Split, *, dtype: Any = None) -> UInt64[np.ndarray, " rows"]:
    """A 64-bit digest of every row's ``x`` and ``y``; equal rows have equal digests.

    ``dtype`` casts ``x`` first, for splits that hold the same numbers in different types. Two
    different rows among a million by a million collide with probability about 5e-8.

    >>> one = Split(np.array([[1.0], [2.0], [1.0]]), np.array([0, 0, 0]))
    >>> a, b, c = row_digests(one)
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    digests = np.empty(len(split), np.uint64)
    for start in range(0, len(split), _BLOCK):
        stop = min(start + _BLOCK, len(split))
        x = _bytes(split.x[start:stop], dtype)
        # Labels and targets are compared as numbers: 3, 3.0 and [3.0] name the same one.
        y = _bytes(split.y[start:stop], np.float32)
        for row in range(stop - start):
            digest = hashlib.blake2b(x[row].tobytes() + y[row].tobytes(), digest_size=8)
            digests[start + row] = int.from_bytes(digest.digest(), "little")
    return digests


def _bytes(block: Any, dtype: Any) -> np.ndarray:
    block = np.ascontiguousarray(block, dtype)
    if block.dtype == object:
        raise InputError("rows of Python objects cannot be compared; give arrays of numbers")
    if block.dtype.kind == "f":
        block = block + 0.0  # minus zero equals zero, and must have equal bytes
    return block.reshape(len(block), -1)
