"""Damage to archives and images: what is inside, and bombs."""

import gzip
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from functools import cache

from mutations_bytes import cut, flip, number, overwrite, repeat, truncate, write

BOMB = 400 * 2**20


@cache
def _zeros(kind):
    if kind == "gzip":
        return gzip.compress(bytes(BOMB), 6)
    return lzma.compress(bytes(BOMB), preset=0)


def gzip_bomb(path, rng):
    write(path, _zeros("gzip"))


def gzip_inside(path, rng):
    inside = path.with_suffix(".inside")
    inside.write_bytes(gzip.decompress(path.read_bytes()))
    rng.choice([flip, truncate, number, overwrite, repeat])(inside, rng)
    write(path, gzip.compress(inside.read_bytes()))
    inside.unlink()


def xz_bomb(path, rng):
    write(path, _zeros("xz"))


def _tar_mode(path):
    return "xz" if path.suffix == ".xz" else "gz"


def tar_bomb(path, rng):
    """A tar whose one file of zeros, or of holes, is far larger than the archive."""
    name = _tar_names(path)[0]
    if rng.integers(2):
        entry = tarfile.TarInfo(name)
        entry.size = BOMB
        write(path, gzip.compress(entry.tobuf(), 1) + _zeros("gzip"))
        return
    entry = tarfile.TarInfo(name)
    entry.type, entry.size = tarfile.GNUTYPE_SPARSE, 0
    header = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    header[483:495] = b"77777777777\0"  # the size with holes filled
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    write(path, gzip.compress(bytes(header) + bytes(1024)))


def _tar_names(path):
    with tarfile.open(path) as archive:
        return [m.name for m in archive if m.isreg()]


def tar_inside(path, rng):
    """One file of the archive, or its tar headers, damaged; compressed again."""
    raw = path.with_suffix(".inside")
    opener = lzma if _tar_mode(path) == "xz" else gzip
    raw.write_bytes(opener.decompress(path.read_bytes()))
    rng.choice([flip, truncate, number, overwrite, repeat, cut])(raw, rng)
    write(path, opener.compress(raw.read_bytes()))
    raw.unlink()


def zipped(path, files, bombs=()):
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
    zipped(path, {**files, name: inside.read_bytes()})
    inside.unlink()


def zip_bomb(path, rng):
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(files)[rng.integers(len(files))]
    zipped(path, files, {name: b""})


def png_size(path, rng):
    """Width or height in the header made huge, its checksum right."""
    content = bytearray(path.read_bytes())
    sides = [1, 0, 1024, 20_000, 2**30, 2**31 - 1]
    content[16:24] = struct.pack(">II", *(int(sides[i]) for i in rng.integers(6, size=2)))
    content[29:33] = struct.pack(">I", zlib.crc32(content[12:29]))
    write(path, content)
