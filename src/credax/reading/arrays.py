"""Arrays of numpy's formats: headers are checked against the file before it is read."""

import math
import os
import zipfile
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from credax.errors import InputError
from credax.reading.archives import Allowance, check_entry
from credax.reading.regular import AGAIN, damage, open_regular

LONGEST_EMPTY = 2**24
"""The longest side of an array that holds no numbers."""


def read_npy(
    path: str | os.PathLike[str], *, mapped: bool = False, remedy: str = AGAIN
) -> np.ndarray:
    """The array of an ``.npy`` file; objects (pickles) are refused.

    With ``mapped`` it is a memory map: numbers are read when they are used.
    """
    with open_regular(path) as file, damage(path, remedy):
        _check_header(file, os.fstat(file.fileno()).st_size)
        if mapped:
            return npy.open_memmap(path, "r")
        file.seek(0)
        return npy.read_array(file, allow_pickle=False)


def read_npz(
    path: str | os.PathLike[str],
    *,
    problem: str = "is not a readable .npz file without pickled objects",
    remedy: str = "write it again with numpy.savez",
) -> dict[str, np.ndarray]:
    """All arrays of an ``.npz`` file by name; objects (pickles) are refused.

    Compressed arrays may together be at most 100 times as large as the file, or 64 MB.
    """
    arrays = {}
    with open_regular(path) as file, damage(path, remedy, problem=problem):
        allowance = Allowance.of(path, file)
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                check_entry(entry)
                allowance.spend(entry.file_size)
                with archive.open(entry) as member:
                    _check_header(member, entry.file_size)
                with archive.open(entry) as member:
                    array = npy.read_array(member, allow_pickle=False)
                    # A zip's checksum is compared when its end is reached.
                    if member.read(1):
                        raise ValueError(f"array {entry.filename!r} goes on after its end")
                arrays[entry.filename.removesuffix(".npy")] = array
    return arrays


def not_finite(values: Any) -> int | None:
    """The first row that holds NaN or infinity, or None; 0 for a single number."""
    values = np.asarray(values)
    if values.dtype.kind in "biuSUmM?" or not values.size:
        return None
    bad = ~np.isfinite(values.astype(np.float32) if values.dtype.kind == "V" else values)
    if not bad.any():
        return None
    return int(np.argmax(bad.reshape(len(bad), -1).any(axis=1))) if bad.ndim else 0


def check_numbers(x: np.ndarray, where: Any) -> np.ndarray:
    """Inputs themselves if they are finite numbers, else an error that names the first row."""
    if x.dtype.kind not in "biuf":
        raise InputError(f"{where} holds {x.dtype}; inputs are numbers")
    row = not_finite(x)
    if row is not None:
        raise InputError(f"{where} holds NaN or infinity in row {row}; clean or drop that row")
    return x


def _check_header(file: BinaryIO | Any, size: int) -> None:
    """Read the header of an ``.npy`` file and compare what it declares with the bytes there are."""
    version = npy.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = npy.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, _, dtype = npy.read_array_header_2_0(file)
    else:
        raise ValueError(f"its version is {version}, not 1.0 or 2.0")
    if dtype.hasobject or dtype.fields is not None or dtype.kind == "V" or not dtype.itemsize:
        raise ValueError(f"it holds {dtype}, not numbers or text; pickled objects are refused")
    if any(type(side) is not int or side < 0 for side in shape):
        raise ValueError(f"its shape is {shape}")
    if 0 in shape:
        if max(shape) > LONGEST_EMPTY:
            raise ValueError(f"it is empty and its shape is {shape}")
    elif math.prod(shape) * dtype.itemsize > size:
        raise ValueError(
            f"it declares {math.prod(shape) * dtype.itemsize} bytes of numbers and has {size}"
        )
