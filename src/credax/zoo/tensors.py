"""The safetensors layout, read without trust and written in place.

Eight bytes of header length, a JSON header ``{name: dtype, shape, data_offsets}``, raw data.
"""

import json
import math
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from credax.files import DamagedFile

LONGEST_HEADER = 100_000_000
DTYPES = {
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
    "BF16": np.dtype("<u2"),
}
NAMES = {dtype: name for name, dtype in DTYPES.items() if name != "BF16"}


class Tensor(NamedTuple):
    """Where one array is: its type, shape and first byte after the header."""

    kind: str
    shape: tuple[int, ...]
    start: int

    @property
    def size(self) -> int:
        """Bytes of the array."""
        return DTYPES[self.kind].itemsize * math.prod(self.shape)


def layout(shapes: Mapping[str, tuple[np.dtype, tuple[int, ...]]]) -> tuple[bytes, int]:
    """The header of a file that holds these arrays one after another, and the bytes of its data."""
    header: dict[str, Any] = {}
    start = 0
    for name, (dtype, shape) in shapes.items():
        tensor = Tensor(NAMES[np.dtype(dtype)], tuple(shape), start)
        stop = start + tensor.size
        header[name] = {
            "dtype": tensor.kind,
            "shape": list(shape),
            "data_offsets": [start, stop],
        }
        start = stop
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, start


def read_header(head: bytes, total: int, where: str) -> tuple[dict[str, Tensor], int]:
    """Arrays of a file and the length of its header, checked: offsets must tile the data.

    ``head`` is at least the first eight bytes and the header, ``total`` the length of the file.
    """
    try:
        (length,) = struct.unpack("<Q", head[:8])
        if length > min(LONGEST_HEADER, total - 8):
            raise ValueError(f"its header claims {length} bytes")
        content = json.loads(head[8 : 8 + length])
        content.pop("__metadata__", None)
        found = {
            name: Tensor(entry["dtype"], tuple(map(int, entry["shape"])), entry["data_offsets"][0])
            for name, entry in content.items()
        }
        place = 0
        for name, tensor in sorted(found.items(), key=lambda item: (item[1].start, item[1].size)):
            if tensor.kind not in DTYPES or any(side < 0 for side in tensor.shape):
                raise ValueError(f"array {name!r} has type {tensor.kind} and shape {tensor.shape}")
            if tensor.start != place or content[name]["data_offsets"][1] != place + tensor.size:
                raise ValueError(f"the bytes of array {name!r} overlap others or leave a gap")
            place += tensor.size
        if place != total - 8 - length:
            raise ValueError(f"it holds {total - 8 - length} bytes of data and names {place}")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, struct.error) as error:
        raise DamagedFile(f"{where} is not a whole safetensors file: {error}") from error
    return found, 8 + length


def parse(content: bytes, where: str) -> dict[str, np.ndarray]:
    """All arrays of a file in memory; bfloat16 becomes float32."""
    found, offset = read_header(content, len(content), where)
    arrays = {}
    for name, tensor in found.items():
        dtype = DTYPES[tensor.kind]
        count = math.prod(tensor.shape)
        flat = np.frombuffer(content, dtype, count, offset + tensor.start)
        if tensor.kind == "BF16":
            flat = (flat.astype("<u4") << 16).view("<f4")
        arrays[name] = flat.reshape(tensor.shape)
    return arrays
