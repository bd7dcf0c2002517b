"""The idx format of MNIST: a magic number, the sizes (big-endian), the bytes."""

import numpy as np

from credax.errors import InputError
from credax.reading import expand

_UNSIGNED_BYTES = 0x08


def parse(contents: bytes, where: str, ndim: int) -> np.ndarray:
    """The array of unsigned bytes with ``ndim`` axes in an idx file, compressed by gzip or not.

    >>> parse(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]), "labels", 1).tolist()
    [7, 8, 9]
    """
    contents = expand(contents, where)
    if len(contents) < 4 or contents[:2] != b"\0\0":
        raise InputError(f"{where} is not an idx file; delete it and get the published file again")
    if contents[2] != _UNSIGNED_BYTES or contents[3] != ndim:
        raise InputError(
            f"{where} holds idx type 0x{contents[2]:02x} with {contents[3]} axes; "
            f"this file should hold unsigned bytes (0x08) with {ndim}"
        )
    start = 4 + 4 * ndim
    if len(contents) < start:
        raise InputError(f"{where} is cut short; delete it and get it again")
    shape = np.frombuffer(contents, ">u4", ndim, 4).astype(np.int64)
    expected = int(np.prod(shape, dtype=object))
    if len(contents) - start != expected:
        raise InputError(
            f"{where} has {len(contents) - start} bytes of data where its header says {expected}; "
            "it is damaged or cut short: delete it and get it again"
        )
    return np.frombuffer(contents, np.uint8, offset=start).reshape(shape)
