"""Small files in the true published formats, and where the real ones are if they are here."""

import gzip
import io
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def with_shared(*files):
    """The named real files that are present beside the repository; often none."""
    return [SHARED / file for file in files if (SHARED / file).is_file()]


def idx_bytes(array):
    array = np.asarray(array, np.uint8)
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def grey(rows, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (rows, 28, 28), np.uint8), np.arange(rows) % 10


def write_idx(folder, stem, images, labels, compress=True):
    folder.mkdir(parents=True, exist_ok=True)
    for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
        contents = idx_bytes(array)
        name = f"{stem}-{kind}-ubyte"
        if compress:
            (folder / f"{name}.gz").write_bytes(gzip.compress(contents))
        else:
            (folder / name).write_bytes(contents)


def colour(rows, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (rows, 32, 32, 3), np.uint8), rng.integers(0, 10, rows)


def planes(pictures):
    """CIFAR's own order: a row is all red, then all green, then all blue pixels."""
    return np.stack([pictures[..., c].reshape(len(pictures), -1) for c in range(3)], 1).reshape(
        len(pictures), -1
    )


def python2_pickle(entries):
    """A pickle as Python 2 wrote it (protocol 2, byte strings), as in the published archives."""
    out = io.BytesIO()
    out.write(b"\x80\x02}(")
    for key, value in entries.items():
        out.write(_string(key))
        if isinstance(value, np.ndarray) and value.ndim == 2:
            out.write(_array(value))
        elif isinstance(value, bytes):
            out.write(_string(value))
        else:
            items = b"".join(_string(v) if isinstance(v, bytes) else _integer(v) for v in value)
            out.write(b"](" + items + b"e")
    out.write(b"u.")
    return out.getvalue()


def _string(text):
    if len(text) < 256:
        return b"U" + bytes([len(text)]) + text
    return b"T" + struct.pack("<i", len(text)) + text


def _integer(number):
    return b"K" + bytes([number]) if 0 <= number < 256 else b"J" + struct.pack("<i", int(number))


def _array(array):
    dtype = (
        b"cnumpy\ndtype\n" + _string(b"u1") + _integer(0) + _integer(1) + b"\x87R("
        + _integer(3) + _string(b"|") + b"NNN" + _integer(-1) + _integer(-1) + _integer(0) + b"tb"
    )  # fmt: skip
    shape = b"".join(map(_integer, array.shape)) + b"\x86"
    return (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + _integer(0) + b"\x85"
        + _string(b"b") + b"\x87R(" + _integer(1) + shape + dtype + b"\x89"
        + _string(array.tobytes()) + b"tb"
    )  # fmt: skip


def pack(path, files):
    """A tar (any compression, by the name) or a zip with these contents."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, contents in files.items():
                archive.writestr(name, contents)
        return path
    mode = {".gz": "w:gz", ".tgz": "w:gz", ".xz": "w:xz"}[path.suffix]
    with tarfile.open(path, mode) as archive:
        for name, contents in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(contents)
            archive.addfile(member, io.BytesIO(contents))
    return path


def unpack(folder, files):
    for name, contents in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(contents)
    return folder
