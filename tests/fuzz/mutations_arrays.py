"""Damage to arrays: declared shapes and types, odd numbers, digests made right."""

import io
import json
import struct
import zipfile

import numpy as np
from mutations_archives import BOMB, zipped
from mutations_bytes import write
from mutations_json import changed, dumps

from credax.files import load_arrays, save_tree


def tensors_header(path, rng):
    """The JSON header of a safetensors file changed, its length made right."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = dumps(changed(json.loads(content[8 : 8 + length]), rng)).encode()
    write(path, struct.pack("<Q", len(header)) + header + content[8 + length :])


def signed(path, rng):
    """Metadata or numbers changed and the digest made right: what only checks of types find."""
    arrays, metadata = load_arrays(path, finite=False)
    arrays = {name: array.copy() for name, array in arrays.items()}
    if rng.integers(2):
        metadata = json.loads(dumps(changed(metadata, rng)))
        save_tree(path, arrays, metadata)
        return
    name = sorted(arrays)[rng.integers(len(arrays))]
    arrays[name] = _array(arrays[name], rng)
    if rng.integers(6) == 0:
        arrays[f"{name}x"] = arrays.pop(name)
    elif rng.integers(6) == 0:
        del arrays[name]
    save_tree(path, arrays, metadata)


def _array(array, rng):
    """One array with odd numbers, another shape, or another type."""
    action = int(rng.integers(8))
    if action < 4 and array.size:
        array = np.array(array)
        odd = [np.nan, np.inf, -np.inf, 0, -1, 1e30, -1e30, 1e-30, 2**31]
        with np.errstate(all="ignore"):
            try:
                array.reshape(-1)[rng.integers(array.size)] = odd[rng.integers(len(odd))]
            except (ValueError, OverflowError):
                array = np.zeros_like(array)
        return array
    if action == 4:
        return array.astype(str(rng.choice(["float64", "float16", "int32", "uint8", "int64"])))
    if action == 5:
        return np.concatenate([np.atleast_1d(array)] * 2)
    if action == 6:
        return array.reshape(-1)[: rng.integers(array.size + 1)]
    return array[..., None] if rng.integers(2) else np.float32(1.0).reshape(())


def _npz(path):
    with np.load(path, allow_pickle=True) as stored:
        return {name: stored[name] for name in stored.files}


def npz_values(path, rng):
    arrays = _npz(path)
    name = sorted(arrays)[rng.integers(len(arrays))]
    action = int(rng.integers(8))
    if action == 0:
        del arrays[name]
    elif action == 1:
        arrays[name] = np.array([{"a": 1}, None], dtype=object)
    elif action == 2:
        arrays[name] = np.array(["x", "y"])
    else:
        arrays[name] = _with_warnings(_array, arrays[name], rng)
    np.savez(path, **arrays)


def _with_warnings(function, *arguments):
    with np.errstate(all="ignore"):
        return function(*arguments)


def npy_values(path, rng):
    array = _with_warnings(_array, np.load(path), rng)
    if rng.integers(6) == 0:
        array = np.array([{"a": 1}, None], dtype=object)
    np.save(path, array)


_SHAPES = ("(10**6, 10**6)", "(1000000000000,)", "(-1,)", "(99999999999999999999,)", "()", "(0,)")
_SHAPES += ("(2**40, 0)", "(1099511627776, 0)", "(2, 100000000)", "(True,)", "(1.5,)", "'a'")
_TYPES = ("<f8", "|O", "<U100000", "|V1000", "|S0", "<M8[s]", "<c16", ">f4", "|b1", "<f2", "junk")


def _headed(content, rng):
    """The bytes of an ``.npy`` file with another shape or type in its header."""
    (length,) = struct.unpack("<H", content[8:10])
    shape, kind = _SHAPES[rng.integers(len(_SHAPES))], _TYPES[rng.integers(len(_TYPES))]
    old = content[10 : 10 + length].decode("latin1")
    start = old.index("'shape': ") + 9
    if rng.integers(3):
        old = old[:start] + shape + old[old.index(")", start) + 1 :]
    else:
        old = old.replace(old.split("'descr': '")[1].split("'")[0], kind)
    header = old.encode("latin1")
    return content[:8] + struct.pack("<H", len(header)) + header + content[10 + length :]


def npy_header(path, rng):
    write(path, _headed(path.read_bytes(), rng))


def npz_header(path, rng):
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(files)[rng.integers(len(files))]
    files[name] = _headed(files[name], rng)
    zipped(path, files)


def npz_bomb(path, rng):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (BOMB,)}
    )
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(files)[rng.integers(len(files))]
    zipped(path, files, {name: header.getvalue()})
