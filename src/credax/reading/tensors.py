"""The safetensors layout, read without trust and written in place.

Eight bytes of header length, a JSON header ``{name: dtype, shape, data_offsets}``, raw data.
"""

import json
import math
import os
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from credax.errors import DamagedFile
from credax.reading.jsons import parse_json
from credax.reading.records import (
    SHAPE,
    TEXT,
    WHOLE,
    Optional,
    check_record,
    list_of,
    map_of,
    one_of,
    record,
)
from credax.reading.regular import damage, first_line, open_regular

LONGEST_HEADER = 2**24
"""Bytes of a header: a hundred thousand arrays."""
COPY = "restore it from a copy"
DTYPES = {
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
    "BF16": np.dtype("<u2"),
}
NAMES = {dtype: name for name, dtype in DTYPES.items() if name != "BF16"}
_HEADER = {"__metadata__": Optional(map_of(TEXT))}
_ENTRY = record(
    {"dtype": one_of(*DTYPES), "shape": SHAPE, "data_offsets": list_of(WHOLE, length=2)}
)


class Tensor(NamedTuple):
    """Where one array is: its type, shape and first and last byte after the header."""

    kind: str
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Bytes of the array."""
        return DTYPES[self.kind].itemsize * math.prod(self.shape)


def layout(shapes: Mapping[str, tuple[np.dtype, tuple[int, ...]]]) -> tuple[bytes, int]:
    """The header of a file that holds these arrays one after another, and the bytes of its data."""
    header: dict[str, Any] = {}
    start = 0
    for name, (dtype, shape) in shapes.items():
        kind = NAMES[np.dtype(dtype)]
        stop = start + math.prod(shape) * np.dtype(dtype).itemsize
        header[name] = {
            "dtype": kind,
            "shape": list(shape),
            "data_offsets": [start, stop],
        }
        start = stop
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, start


class Layout(NamedTuple):
    """What a header says: the arrays by name, the metadata, and where the data begins."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str]
    start: int


def read_layout(path: str | os.PathLike[str]) -> Layout:
    """The checked header of a file; its arrays are not read."""
    with open_regular(path) as file, damage(path, COPY):
        head = file.read(8)
        length = int.from_bytes(head, "little")
        head += file.read(min(length, LONGEST_HEADER))
        return check_layout(head, os.fstat(file.fileno()).st_size, str(path))


def check_layout(head: bytes | bytearray, total: int, where: str) -> Layout:
    """The header of a file, checked: offsets must tile the data.

    ``head`` is at least the first eight bytes and the header, ``total`` the length of the file.
    """
    try:
        (length,) = struct.unpack("<Q", head[:8])
        if length > min(LONGEST_HEADER, total - 8):
            raise ValueError(f"its header claims {length} bytes")
        content = parse_json(bytes(head[8 : 8 + length]), "its header", remedy="")
        check_record(content, _HEADER, "its header", extra=True, remedy="")
        metadata = content.pop("__metadata__", {})
        check_record(content, dict.fromkeys(content, _ENTRY), "its header", remedy="")
        found = {
            n: Tensor(e["dtype"], tuple(e["shape"]), *e["data_offsets"]) for n, e in content.items()
        }
        place = 0
        for name, tensor in sorted(found.items(), key=lambda item: (item[1].start, item[1].size)):
            if tensor.start != place or tensor.stop != place + tensor.size:
                raise ValueError(f"the bytes of array {name!r} overlap others or leave a gap")
            place += tensor.size
        if place != total - 8 - length:
            raise ValueError(f"it holds {total - 8 - length} bytes of data and names {place}")
    except (ValueError, struct.error) as error:
        raise DamagedFile(
            f"{where} is not a whole safetensors file: it is damaged ({first_line(error)}); {COPY}"
        ) from error
    return Layout(found, metadata, 8 + length)


def views(content: bytes | bytearray, layout: Layout) -> dict[str, np.ndarray]:
    """The arrays of a file in memory, without copies; bfloat16 as its 16 bits."""
    arrays = {}
    for name, tensor in layout.tensors.items():
        count = math.prod(tensor.shape)
        flat = np.frombuffer(content, DTYPES[tensor.kind], count, layout.start + tensor.start)
        arrays[name] = flat.reshape(tensor.shape)
    return arrays


def parse(content: bytes, where: str) -> dict[str, np.ndarray]:
    """All arrays of a file in memory; bfloat16 becomes float32."""
    layout = check_layout(content, len(content), where)
    arrays = views(content, layout)
    for name, tensor in layout.tensors.items():
        if tensor.kind == "BF16":
            arrays[name] = (arrays[name].astype("<u4") << 16).view("<f4")
    return arrays
