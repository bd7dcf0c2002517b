"""Published checkpoints: one safetensors file per network, in a folder or an archive."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from credax.errors import InputError
from credax.files import DamagedFile
from credax.reading import read_bytes, tar_members, tensors

ARCHIVES = (".tgz", ".tar.gz", ".tar")


class Checkpoint(NamedTuple):
    """One network of a collection: its name, and its arrays or why it cannot be read."""

    name: str
    arrays: dict[str, np.ndarray] | None
    problem: str = ""


def read_checkpoints(place: str | Path) -> Iterator[Checkpoint]:
    """The networks of a folder, a ``.tgz``, or one file; a damaged one is named, not raised.

    An archive is read as a stream and nothing is unpacked to disk: one network is in memory at a
    time. Paths inside it are names only; absolute ones and those with ``..`` are refused. A folder
    is read in the order of the numbers in its names, an archive in its own order.
    """
    place = Path(place)
    if place.is_dir():
        files = sorted(place.glob("*.safetensors"), key=lambda path: natural(path.name))
        if not files:
            raise InputError(f"{place} holds no .safetensors files")
        for path in files:
            yield _checkpoint(path.stem, read_bytes(path))
    elif place.name.endswith(ARCHIVES) and place.exists():
        yield from _archive(place)
    elif place.suffix == ".safetensors" and place.exists():
        yield _checkpoint(place.stem, read_bytes(place))
    else:
        raise InputError(
            f"{place} is not there or is neither a folder of .safetensors files nor one of "
            f"{', '.join(ARCHIVES)}"
        )


def natural(name: str) -> tuple:
    """A key that sorts by the numbers in a name.

    >>> sorted(["net-10", "net-9"], key=natural)
    ['net-9', 'net-10']
    """
    parts = re.split(r"(\d+)", name)
    return tuple(int(part) if part.isdigit() else part for part in parts)


def _archive(place: Path) -> Iterator[Checkpoint]:
    last = "its first file"
    try:
        for name, contents in tar_members(place):
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise InputError(
                    f"{place} holds the path {name!r}, which points outside; "
                    "do not use this archive"
                )
            if path.suffix == ".safetensors":
                content = contents()
                last = path.name
                yield _checkpoint(path.stem, content)
    except DamagedFile as error:
        raise DamagedFile(
            f"{place} breaks off after {last} ({error}); what came before it was read, fetch the "
            "archive again for the rest"
        ) from error


def _checkpoint(name: str, content: bytes) -> Checkpoint:
    try:
        return Checkpoint(name, tensors.parse(content, name))
    except DamagedFile as error:
        return Checkpoint(name, None, str(error))
