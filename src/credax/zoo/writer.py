"""Writing a zoo: members appended one by one or by the batch, whole after any crash."""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from credax.errors import InputError
from credax.files import write_atomic
from credax.locks import claim
from credax.reading import open_regular
from credax.zoo.manifest import (
    JOURNAL,
    LARGEST_HALF,
    UNREADABLE,
    Manifest,
    Shard,
    file_digest,
    member_digest,
    read_journal,
)


def check_same_kind(folder: Path, found: Manifest, wanted: Manifest) -> None:
    """Raise one sentence if a zoo on disk is not the one that is wanted."""
    if not found.same_kind(wanted):
        raise InputError(
            f"{folder} holds a zoo of other networks or settings; choose another folder"
        )


class ZooWriter:
    """Appends members to a zoo, new or begun; use it in a ``with`` block.

    Members lie in the open shard, a file of full size, and are in the zoo once `flush` wrote their
    records; a shard that is full, and the last one at `finish`, is closed under its own name with
    its digest. Opening an interrupted zoo goes on after the last record. Memory: what is appended
    at once.
    """

    def __init__(self, folder: str | Path, manifest: Manifest):
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = claim(self.folder)
        except BlockingIOError as error:
            raise InputError(f"another process is writing to {self.folder}; wait for it") from error
        except OSError as error:
            raise InputError(
                f"cannot write to the folder {self.folder} ({error.strerror}); choose another"
            ) from error
        self.manifest = manifest
        self.records: list[dict[str, Any]] = []
        self._pending: list[dict[str, Any]] = []
        self._arrays: dict[str, np.memmap] = {}
        try:
            self._open()
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> "ZooWriter":
        return self

    def __exit__(self, *_) -> None:
        self._arrays = {}
        self._lock.close()

    @property
    def count(self) -> int:
        """Members so far."""
        return len(self.records) + len(self._pending)

    def append(self, arrays: Mapping[str, np.ndarray] | None, record: Mapping[str, Any]) -> None:
        """One member, or the record of one that has no usable weights (stored as zeros)."""
        slot = self.count - sum(shard.members for shard in self.manifest.shards)
        self._open_shard()
        stored = []
        for name, shape in self.manifest.shapes.items():
            array = np.zeros(shape) if arrays is None else np.asarray(arrays[name])
            half = self.manifest.storage == "float16"
            if half and arrays is not None and np.abs(array).max(initial=0) > LARGEST_HALF:
                raise InputError(
                    f"member {self.count} has numbers above {LARGEST_HALF:.0f} in {name}, which "
                    "float16 cannot hold; store as float32"
                )
            self._reserve(self._arrays[name], slot)
            self._arrays[name][slot] = array
            stored.append(self._arrays[name][slot])
        line = {"index": self.count, "status": "ok", **record, "digest": member_digest(stored)}
        self._pending.append(line)
        if slot + 1 == self.manifest.shard_members:
            self.flush()
            self._close_shard()

    def flush(self) -> None:
        """Put what was appended on disk: first the numbers, then their records."""
        for array in self._arrays.values():
            array.flush()
        if self._pending:
            with self._room(), open(self.folder / JOURNAL, "a") as file:
                file.writelines(json.dumps(line) + "\n" for line in self._pending)
                file.flush()
                os.fsync(file.fileno())
        self.records += self._pending
        self._pending = []

    def finish(self) -> None:
        """Close the last shard; later members go into new ones."""
        self.flush()
        if self.count > sum(shard.members for shard in self.manifest.shards):
            self._open_shard()
            self._close_shard()

    @property
    def _number(self) -> int:
        return len(self.manifest.shards)

    @property
    def _part(self) -> Path:
        return self.folder / f".shard-{self._number:05d}.part"

    @property
    def _name(self) -> str:
        return f"shard-{self._number:05d}.safetensors"

    def _open(self) -> None:
        try:
            found = Manifest.read(self.folder)
        except InputError:
            if any(not path.name.startswith(".") for path in self.folder.iterdir()):
                raise
            self.manifest.write(self.folder)
            return
        check_same_kind(self.folder, found, self.manifest)
        self.manifest = found
        self.records = read_journal(self.folder, sum(shard.members for shard in found.shards))
        self._adopt()
        closed = sum(shard.members for shard in self.manifest.shards)
        lost = [r["index"] for r in self.records[closed:] if r["status"] == UNREADABLE]
        if not self._part_is_whole():  # records without their numbers: those are made again
            self._part.unlink(missing_ok=True)
            lost = [closed]
        self.records = self.records[: lost[0]] if lost else self.records
        lines = "".join(json.dumps(line) + "\n" for line in self.records)
        write_atomic(self.folder / JOURNAL, lines)
        if self.count - closed == self.manifest.shard_members:  # full, and killed before it closed
            self._open_shard()
            self._close_shard()

    def _part_is_whole(self) -> bool:
        """Whether the open shard is there with its header; a kill may leave an empty file."""
        header, size = self.manifest.header(self.manifest.shard_members)
        if not self._part.is_file() or self._part.stat().st_size != len(header) + size:
            return False
        with open_regular(self._part) as file:
            return file.read(len(header)) == header

    @contextmanager
    def _room(self) -> Iterator[None]:
        """Errors of the disk in one sentence."""
        try:
            yield
        except OSError as error:
            raise InputError(
                f"cannot write to the zoo in {self.folder} ({error.strerror}); free some space and "
                "run the same command again: it goes on after the last member that was kept"
            ) from error

    def _reserve(self, array: np.memmap, slot: int) -> None:
        """Blocks of the disk for one member: a full one is an error now, not a signal later."""
        if array.nbytes == 0:
            return
        size = array.nbytes // len(array)
        start = array.offset + slot * size
        with self._room(), os.fdopen(os.open(self._part, os.O_RDWR), "r+b") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), start, size)
            else:  # macOS and Windows: write what will be overwritten
                file.seek(start)
                file.write(bytes(size))

    def _adopt(self) -> None:
        """A shard closed just before a crash is there and not yet in ``zoo.json``."""
        path = self.folder / self._name
        if path.exists():
            members = len(self.records) - sum(shard.members for shard in self.manifest.shards)
            members = min(members, self.manifest.shard_members)
            self._part.unlink(missing_ok=True)
            self._register(path, members)

    def _open_shard(self) -> None:
        if self._arrays:
            return
        header, size = self.manifest.header(self.manifest.shard_members)
        if not self._part.exists():
            with self._room(), open(self._part, "wb") as file:
                file.write(header)
                file.truncate(len(header) + size)
        start = len(header)
        for name, shape in self.manifest.shapes.items():
            whole = (self.manifest.shard_members, *shape)
            dtype = self.manifest.dtype
            self._arrays[name] = np.memmap(self._part, dtype, "r+", start, whole)
            start += self._arrays[name].nbytes

    def _close_shard(self) -> None:
        members = self.count - sum(shard.members for shard in self.manifest.shards)
        path, part = self.folder / self._name, self._part
        if members < self.manifest.shard_members:
            part = part.with_suffix(".closing")
            with self._room(), open(part, "wb") as file:
                file.write(self.manifest.header(members)[0])
                for array in self._arrays.values():
                    for row in range(members):
                        file.write(np.ascontiguousarray(array[row]).tobytes())
                file.flush()
                os.fsync(file.fileno())
        self._arrays = {}
        os.replace(part, path)
        self._part.unlink(missing_ok=True)
        self._register(path, members)

    def _register(self, path: Path, members: int) -> None:
        shard = Shard(path.name, members, file_digest(path))
        self.manifest = dataclasses.replace(self.manifest, shards=(*self.manifest.shards, shard))
        self.manifest.write(self.folder)
