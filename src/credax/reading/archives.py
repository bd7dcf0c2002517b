"""Compressed bytes and archives, streamed: sizes are checked against the compressed ones."""

import bz2
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

from credax.errors import DamagedFile
from credax.reading.regular import AGAIN, MOST_BYTES, damage, open_regular

MOST_RATIO = 100
"""Times the compressed size that may come out of a compressed file ..."""
MOST_SMALL = 2**26
"""... or this many bytes, if that is more."""
MOST_MEMORY = 2**27
"""Bytes that the xz decompressor may use itself (the published files need 64 MB)."""
MOST_MEMBERS = 2**21
"""Files in one archive."""

_CHUNK = 2**18
_MAGIC = {b"\x1f\x8b": "gzip", b"BZ": "bzip2", b"\xfd7": "xz"}
_MAGIC |= dict.fromkeys((b"x\x01", b"x\x5e", b"x\x9c", b"x\xda"), "gzip")  # zlib, without names


@dataclass
class Allowance:
    """How many bytes may still come out of a file."""

    where: str
    left: int

    @classmethod
    def of(cls, where: Any, file: BinaryIO) -> "Allowance":
        """For a file of this size."""
        size = os.fstat(file.fileno()).st_size
        return cls(str(where), max(MOST_RATIO * size, MOST_SMALL))

    def spend(self, count: int) -> None:
        """Take so many bytes out, or refuse."""
        self.left -= count
        if self.left < 0:
            raise DamagedFile(
                f"{self.where} is larger than {MOST_RATIO} times its compressed size once expanded "
                f"(and than {MOST_SMALL >> 20} MB); do not use it, or store it uncompressed"
            )


def expand(contents: bytes, where: str, remedy: str = AGAIN) -> bytes:
    """Contents compressed by gzip, zlib, bzip2 or xz as they were before; others as they are."""
    if contents[:2] not in _MAGIC:
        return contents
    allowance = Allowance(where, max(MOST_RATIO * len(contents), MOST_SMALL))
    with damage(where, remedy, problem="cannot be decompressed"):
        return _Expanded(io.BytesIO(contents), allowance).readall()


def tar_members(path: str | os.PathLike[str]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Names of the regular files of a tar, compressed or not, and what reads each in its turn."""
    with open_regular(path) as file, damage(path):
        stream: Any = io.BufferedReader(_Expanded(file, Allowance.of(path, file)), _CHUNK)
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for number, member in enumerate(archive):
                if number >= MOST_MEMBERS or member.size < 0:
                    raise ValueError(f"it has {number} files, the last of {member.size} bytes")
                # Holes of sparse files would be filled with zeros without end.
                if member.isreg() and not member.issparse():
                    opened = partial(archive.extractfile, member)
                    yield member.name, partial(_contents, path, opened, member.size)


def zip_members(path: str | os.PathLike[str]) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Names of the files of a zip, and what reads each."""
    with open_regular(path) as file, damage(path):
        allowance = Allowance.of(path, file)
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                check_entry(entry)
                if not entry.is_dir():
                    opened = partial(archive.open, entry)
                    size = entry.file_size
                    yield entry.filename, partial(_contents, path, opened, size, allowance)


def check_entry(entry: zipfile.ZipInfo) -> None:
    """Refuse what no zip that we read has: encryption, other compression than deflate."""
    if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{entry.filename[:80]!r} is encrypted or compressed in another way")


def _contents(
    path: Any, opened: Callable[[], Any], size: int, allowance: Allowance | None = None
) -> bytes:
    """One file of an archive, of exactly the declared size."""
    with damage(path):
        if size > MOST_BYTES:
            raise ValueError(f"it holds a file of {size} bytes")
        if allowance is not None:
            allowance.spend(size)
        with opened() as stream:
            contents = stream.read(size + 1)
        if len(contents) != size:
            raise ValueError(f"a file has {len(contents)} bytes where {size} are declared")
        return contents


class _Expanded(io.RawIOBase):
    """What a compressed file holds, a chunk at a time, within an allowance."""

    def __init__(self, file: BinaryIO, allowance: Allowance):
        self._file, self._allowance = file, allowance
        head = file.read(2)
        self._pending = head
        self._method = _MAGIC.get(head)
        self._machine = self._new()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._next(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def _next(self, most: int) -> bytes:
        """At most so many bytes more; none at the end."""
        if self._machine is None:
            found, self._pending = self._pending[:most], self._pending[most:]
            return found or self._file.read(most)
        while True:
            if self._machine.eof:
                rest = self._machine.unused_data or self._file.read(_CHUNK)
                rest = rest.lstrip(b"\0")  # padding between and after streams
                if not rest:
                    return b""
                self._machine, self._pending = self._new(), rest
            if not self._pending and not self._held():
                self._pending = self._file.read(_CHUNK)
            ended = not self._pending and not self._held()
            found = self._step(most)
            self._allowance.spend(len(found))
            if found:
                return found
            if ended and not self._machine.eof:
                raise EOFError("it ends before its end-of-stream marker")

    def _new(self) -> Any:
        if self._method == "gzip":
            return zlib.decompressobj(wbits=47)
        if self._method == "bzip2":
            return bz2.BZ2Decompressor()
        if self._method == "xz":
            return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_MEMORY)
        return None

    def _held(self) -> bool:
        """Whether the decompressor still has bytes to give without new ones."""
        return self._method != "gzip" and not self._machine.needs_input

    def _step(self, most: int) -> bytes:
        pending, self._pending = self._pending, b""
        found = self._machine.decompress(pending, most)
        if self._method == "gzip":
            self._pending = self._machine.unconsumed_tail
        return found
