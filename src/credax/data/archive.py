"""Files by name out of a folder, a tar or a zip: read in memory, never unpacked to disk."""

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from credax.data.checks import first_line
from credax.errors import InputError

# A damaged zip header also looks like encryption or an unknown version (RuntimeError), or holds
# names that are not text (ValueError).
_DAMAGE = (
    *(OSError, EOFError, RuntimeError, ValueError),
    *(tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)


def read(path: Path, names: Collection[str], inside: str = "") -> dict[str, bytes]:
    """The contents of the named files: directly in a folder, or anywhere in an archive.

    In an archive, only files whose folder ends with ``inside`` count. Names that are not there are
    left out; `need` turns that into an error where it is one.
    """
    if path.is_dir():
        here = [(path / name) for name in names if (path / name).is_file()]
        return {file.name: _guard(path, file.read_bytes) for file in here}
    found: dict[str, bytes] = {}
    folder = PurePosixPath(inside).parts

    def wanted(name: str) -> bool:
        member = PurePosixPath(name)
        parent = member.parent.parts
        return member.name in names and parent[len(parent) - len(folder) :] == folder

    for name, contents in stream(path, wanted):
        found[PurePosixPath(name).name] = contents
        if len(found) == len(names):
            break
    return found


def need(files: dict[str, bytes], name: str, path: Path) -> bytes:
    """The contents of one file that must be there."""
    if name not in files:
        raise InputError(f"{path} has no file {name!r}; get the whole published set again")
    return files[name]


def stream(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the wanted files, in the order they are stored."""
    try:
        for name, contents in _members(path):
            if wanted(name):
                yield name, contents()
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def names(path: Path) -> list[str]:
    """The names of all files in a folder or an archive."""
    return _guard(path, lambda: [name for name, _ in _members(path)])


def _members(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file():
                yield file.relative_to(path).as_posix(), file.read_bytes
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                yield info.filename, partial(archive.read, info)
    else:
        with tarfile.open(path) as archive:
            for member in archive:
                handle = archive.extractfile(member)
                if handle is not None:
                    yield member.name, handle.read


def _guard(path: Path, action: Callable):
    try:
        return action()
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path} cannot be read ({first_line(error)}); "
        "it is damaged or cut short: delete it and get it again"
    )
