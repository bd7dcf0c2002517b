"""Arrays of numbers out of MATLAB 5 files, whose declared sizes are checked before they are used.

A header of 128 bytes, then elements: a tag (type and length) and data, compressed by zlib or not.
"""

import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from credax.reading import damage, expand, read_bytes

_TYPES = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = range(6, 16)


class _Element(NamedTuple):
    kind: int
    data: memoryview


def read_matlab(place: Path, names: Collection[str]) -> dict[str, np.ndarray]:
    """The arrays of numbers with these names; variables of other kinds are passed over."""
    content = read_bytes(place)
    found = {}
    again = "delete it and get it again"
    with damage(place, again, problem="is not a readable MATLAB file"):
        order: Any = {b"IM": "<", b"MI": ">"}.get(content[126:128])
        if order is None:
            raise ValueError("it has no header of MATLAB 5")
        for kind, data in _elements(memoryview(content)[128:], order):
            if kind == _COMPRESSED:
                inside = expand(bytes(data), str(place))
                ((kind, data),) = _elements(memoryview(inside), order)
            name, array = _matrix(data, order) if kind == _MATRIX else ("", None)
            if array is not None and name in names:
                found[name] = array
    return found


def _elements(data: memoryview, order: str) -> Iterator[_Element]:
    """The elements one after another; lengths of up to four bytes are packed into the tag."""
    while len(data):
        kind, size = struct.unpack(f"{order}II", data[:8])
        start, step = 8, size if kind == _COMPRESSED else -(-size // 8) * 8
        if kind >> 16:
            kind, size, start, step = kind & 0xFFFF, kind >> 16, 4, 4
        if size > len(data) - start or (start == 4 and size > 4):
            raise ValueError(f"an element declares {size} bytes and has {len(data) - start}")
        yield _Element(kind, data[start : start + size])
        data = data[start + step :]


def _matrix(data: memoryview, order: Any) -> tuple[str, np.ndarray | None]:
    """Name and array of a variable; None where it is no array of real numbers."""
    parts = _elements(data, order)
    flags, sides, name = next(parts), next(parts), next(parts)
    (flag,) = struct.unpack(f"{order}I", flags.data[:4])
    label = bytes(name.data).decode("latin1")
    if (flag & 0xFF) not in _NUMBERS or flag & 0x0800:
        return label, None
    shape = struct.unpack(f"{order}{len(sides.data) // 4}i", sides.data)
    values = next(parts)
    numbers = np.frombuffer(values.data, np.dtype(_TYPES[values.kind]).newbyteorder(order))
    # reshape compares the declared sides with the numbers there are.
    if min(shape) < 0:
        raise ValueError(f"its shape is {shape}")
    native = numbers.astype(numbers.dtype.newbyteorder("="), copy=False)
    return label, native.reshape(shape, order="F")
