"""Ways to damage a file: bytes, JSON structure, declared shapes, bombs, what is no file."""

import copy
import gzip
import io
import json
import lzma
import os
import struct
import tarfile
import zipfile
from functools import cache

import numpy as np

from credax.files import load_arrays, save_tree

BOMB = 400 * 2**20


def mutate(path, rng):
    """Damage one file in one way; returns what was done, for a report."""
    chosen = rng.choice(_fitting(path))
    try:
        chosen(path, rng)
    except Exception as error:
        # The file does not parse (it was damaged before): bytes can always be changed.
        flip(path, rng)
        return f"flip (after {chosen.__name__}: {type(error).__name__})"
    return chosen.__name__


def _fitting(path):
    plain = [flip, flip, truncate, cut, repeat, overwrite, insert, number, swap, splice, special]
    by_ending = {
        ".json": [json_structure] * 12 + [json_text] * 2,
        ".jsonl": [json_line] * 12 + [json_text] * 2,
        ".safetensors": [tensors_header] * 5 + [signed] * 12,
        ".npz": [npz_header] * 3 + [npz_values] * 6 + [npz_bomb],
        ".npy": [npy_header] * 4 + [npy_values] * 6,
        ".csv": [cells] * 8,
        ".tsv": [cells] * 8,
        ".txt": [cells] * 8,
        ".gz": [gzip_inside] * 4 + [gzip_bomb],
        ".tgz": [tar_bomb, tar_inside, tar_inside],
        ".xz": [tar_inside, tar_inside, xz_bomb],
        ".zip": [zip_bomb, zip_inside, zip_inside],
        ".png": [png_size] * 2,
    }
    kinds = by_ending.get(path.suffix, [])
    if path.name.endswith(".tar.gz"):
        kinds = by_ending[".tgz"]
    return plain + kinds


# Bytes


def _write(path, content):
    path.write_bytes(bytes(content))


def flip(path, rng):
    content = bytearray(path.read_bytes())
    for _ in range(int(rng.integers(1, 9))):
        if content:
            content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    _write(path, content)


def truncate(path, rng):
    content = path.read_bytes()
    _write(path, content[: rng.integers(len(content) + 1)])


def _chunk(content, rng):
    start = int(rng.integers(len(content) + 1))
    return start, min(len(content), start + int(rng.integers(1, 1 + max(1, len(content) // 2))))


def cut(path, rng):
    content = path.read_bytes()
    start, stop = _chunk(content, rng)
    _write(path, content[:start] + content[stop:])


def repeat(path, rng):
    content = path.read_bytes()
    start, stop = _chunk(content, rng)
    _write(path, content[:stop] + content[start:stop] * int(rng.integers(1, 4)) + content[stop:])


def overwrite(path, rng):
    content = bytearray(path.read_bytes())
    start, stop = _chunk(content, rng)
    stop = min(stop, start + 64)
    fill = [bytes(64), b"\xff" * 64, rng.bytes(64), b"[" * 64, b"9" * 64][rng.integers(5)]
    content[start:stop] = fill[: stop - start]
    _write(path, content)


def insert(path, rng):
    content = path.read_bytes()
    start, _ = _chunk(content, rng)
    more = [rng.bytes(20), b"\0" * 1000, b"\n", b"{", b"\xff\xfe", b"1e999", b","][rng.integers(7)]
    _write(path, content[:start] + more + content[start:])


def number(path, rng):
    """An integer of the file made extreme."""
    content = bytearray(path.read_bytes())
    size = int(rng.choice([2, 4, 8]))
    if len(content) < size:
        return
    value = int(rng.choice([0, 1, -1, 2**31 - 1, -(2**31), 2**15, 10**9]))
    start = int(rng.integers(min(len(content) - size + 1, 512)))
    order = str(rng.choice(["little", "big"]))
    content[start : start + size] = (value % 2 ** (8 * size)).to_bytes(size, order)
    _write(path, content)


def swap(path, rng):
    content = bytearray(path.read_bytes())
    for _ in range(4):
        if content:
            a, b = rng.integers(len(content), size=2)
            content[a], content[b] = content[b], content[a]
    _write(path, content)


def splice(path, rng):
    """The end of another file of the same folder, or of this one moved."""
    others = [p for p in sorted(path.parent.iterdir()) if p.is_file() and p.stat().st_size < 10**7]
    other = others[rng.integers(len(others))].read_bytes()
    content = path.read_bytes()
    start = int(rng.integers(len(content) + 1))
    _write(path, content[:start] + other[int(rng.integers(len(other) + 1)) :])


def special(path, rng):
    """Something that is no regular file, or none, or a huge one, in its place."""
    kind = int(rng.integers(9))
    path.unlink()
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind in (2, 3, 4):
        os.symlink(["/dev/zero", "/dev/random", "/dev/null"][kind - 2], path)
    elif kind == 5:
        os.symlink(path.name, path)
    elif kind == 6:
        os.symlink("/nowhere/at/all", path)
    elif kind == 7:
        path.write_bytes(b"")
    else:
        with open(path, "wb") as file:
            file.truncate(2**34)


# JSON

_DEEP = "\0deep\0"
_VALUES = (
    None, True, False, 0, -1, 1, 10**9, -(10**9), 2**31, 2**63, 2**64, 10**30, 1e308, -1e-308, 0.5,
    float("nan"), float("inf"), "", "x", "../../etc/passwd", "a\0b", "\ud800", "9" * 30, [], {},
    [[]], [0], [None], {"x": 1}, [1, "a"], _DEEP, 10**4400, "long" * 5000, [-1, -1], [10**12] * 3,
)  # fmt: skip


def _nodes(content, place=()):
    yield place
    if isinstance(content, dict):
        for key in content:
            yield from _nodes(content[key], (*place, key))
    elif isinstance(content, list):
        for i in range(min(len(content), 50)):
            yield from _nodes(content[i], (*place, i))


def changed(content, rng):
    """JSON content with one or two nodes replaced, removed, added or doubled."""
    content = copy.deepcopy(content)
    for _ in range(int(rng.integers(1, 3))):
        places = list(_nodes(content))
        place = places[rng.integers(len(places))]
        if not place:
            if rng.integers(10) == 0:
                return _VALUES[rng.integers(len(_VALUES))]
            place = places[-1] or place
            if not place:
                return _VALUES[rng.integers(len(_VALUES))]
        *way, last = place
        inner = content
        for key in way:
            inner = inner[key]
        action = int(rng.integers(6))
        if action == 0:
            del inner[last]
        elif action == 1 and isinstance(inner, dict):
            inner["unknown"] = inner[last]
        elif action == 2 and isinstance(inner[last], list):
            inner[last] = inner[last] * 2
        elif action == 3 and isinstance(inner[last], int | float) and inner[last] == inner[last]:
            inner[last] = [-inner[last], inner[last] * 10**6, inner[last] + 1, str(inner[last])][
                rng.integers(4)
            ]
        else:
            inner[last] = _VALUES[rng.integers(len(_VALUES))]
    return content


def _dumps(content):
    import sys

    sys.set_int_max_str_digits(0)
    text = json.dumps(content).replace(json.dumps(_DEEP), "[" * 100_000 + "]" * 100_000)
    sys.set_int_max_str_digits(4300)
    return text


def json_structure(path, rng):
    path.write_text(_dumps(changed(json.loads(path.read_text()), rng)))


def json_line(path, rng):
    lines = path.read_text().splitlines()
    i = int(rng.integers(len(lines)))
    lines[i] = _dumps(changed(json.loads(lines[i]), rng))
    path.write_text("\n".join(lines) + "\n")


def json_text(path, rng):
    text = [
        "[" * 200_000,
        '{"a":' * 100_000,
        "9" * 100_000,
        "NaN",
        '"' + '\\"' * 100_000,
        "\ufeff{}",
        "null",
        "[1,",
        "{}",
    ][rng.integers(9)]
    if rng.integers(2):
        path.write_text(text)
    else:
        path.write_text(path.read_text() + text)


# Arrays


def tensors_header(path, rng):
    """The JSON header of a safetensors file changed, its length made right."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = _dumps(changed(json.loads(content[8 : 8 + length]), rng)).encode()
    _write(path, struct.pack("<Q", len(header)) + header + content[8 + length :])


def signed(path, rng):
    """Metadata or numbers changed and the digest made right: what only checks of types find."""
    arrays, metadata = load_arrays(path, finite=False)
    arrays = {name: array.copy() for name, array in arrays.items()}
    if rng.integers(2):
        metadata = json.loads(_dumps(changed(metadata, rng)))
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
    _write(path, _headed(path.read_bytes(), rng))


def npz_header(path, rng):
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(files)[rng.integers(len(files))]
    files[name] = _headed(files[name], rng)
    _zip(path, files)


def npz_bomb(path, rng):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (BOMB,)}
    )
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(files)[rng.integers(len(files))]
    _zip(path, files, {name: header.getvalue()})


# Text tables


def cells(path, rng):
    lines = path.read_text(errors="replace").splitlines() or [""]
    mark = "\t" if path.suffix == ".tsv" else "," if path.suffix == ".csv" else " "
    i = int(rng.integers(len(lines)))
    row = lines[i].split(mark)
    odd = ["nan", "inf", "1e999", "", "x", "1_000", "-1", "1e300", "9" * 400, '"', "1,2", "0x10"]
    odd += ["é", "\0", "1e-400", "1e38", "٣", "\u2028", "99999999999999999999"]
    j = int(rng.integers(len(row)))
    row[j] = odd[rng.integers(len(odd))]
    if rng.integers(8) == 0:
        row.append("1")
    lines[i] = mark.join(row)
    if rng.integers(8) == 0:
        lines = lines[: rng.integers(len(lines) + 1)]
    path.write_text("\n".join(lines), encoding="utf-8")


# Archives and bombs


@cache
def _zeros(kind):
    if kind == "gzip":
        return gzip.compress(bytes(BOMB), 6)
    return lzma.compress(bytes(BOMB), preset=0)


def gzip_bomb(path, rng):
    _write(path, _zeros("gzip"))


def gzip_inside(path, rng):
    inside = path.with_suffix(".inside")
    inside.write_bytes(gzip.decompress(path.read_bytes()))
    rng.choice([flip, truncate, number, overwrite, repeat])(inside, rng)
    _write(path, gzip.compress(inside.read_bytes()))
    inside.unlink()


def xz_bomb(path, rng):
    _write(path, _zeros("xz"))


def _tar_mode(path):
    return "xz" if path.suffix == ".xz" else "gz"


def tar_bomb(path, rng):
    """A tar whose one file of zeros, or of holes, is far larger than the archive."""
    name = _tar_names(path)[0]
    if rng.integers(2):
        entry = tarfile.TarInfo(name)
        entry.size = BOMB
        _write(path, gzip.compress(entry.tobuf(), 1) + _zeros("gzip"))
        return
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = tarfile.GNUTYPE_SPARSE, 0
    header = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"77777777777\0"  # the size with holes filled
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    _write(path, gzip.compress(bytes(header) + bytes(1024)))


def _tar_names(path):
    with tarfile.open(path) as archive:
        return [m.name for m in archive if m.isreg()]


def tar_inside(path, rng):
    """One file of the archive, or its tar headers, damaged; compressed again."""
    raw = path.with_suffix(".inside")
    opener = lzma if _tar_mode(path) == "xz" else gzip
    raw.write_bytes(opener.decompress(path.read_bytes()))
    rng.choice([flip, truncate, number, overwrite, repeat, cut])(raw, rng)
    _write(path, opener.compress(raw.read_bytes()))
    raw.unlink()


def _zip(path, files, bombs=()):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            if name in bombs:
                with archive.open(name, "w") as out:
                    out.write(bombs[name])
                    for _ in range(BOMB >> 24):
                        out.write(bytes(2**24))
            else:
                archive.writestr(name, content)


def zip_inside(path, rng):
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(files)[rng.integers(len(files))]
    inside = path.with_name("inside" + os.path.splitext(name)[1])
    inside.write_bytes(files[name])
    rng.choice([flip, truncate, number, overwrite, repeat, cut])(inside, rng)
    _zip(path, {**files, name: inside.read_bytes()})
    inside.unlink()


def zip_bomb(path, rng):
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(files)[rng.integers(len(files))]
    _zip(path, files, {name: b""})


def png_size(path, rng):
    """Width or height in the header made huge, its checksum right."""
    import zlib

    content = bytearray(path.read_bytes())
    sides = [1, 0, 1024, 20_000, 2**30, 2**31 - 1]
    content[16:24] = struct.pack(">II", *(int(sides[i]) for i in rng.integers(6, size=2)))
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    _write(path, content)
