"""Files by name out of a folder, a tar or a zip: read in memory, never unpacked to disk."""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path, PurePosixPath

from credax.errors import InputError
from credax.reading import read_bytes, tar_members, zip_members


def read(path: Path, names: Collection[str], inside: str = "") -> dict[str, bytes]:
    """The contents of the named files: directly in a folder, or anywhere in an archive.

    In an archive, only files whose folder ends with ``inside`` count. Names that are not there are
    left out; `need` turns that into an error where it is one.
    """
    if path.is_dir():
        here = [(path / name) for name in names if (path / name).is_file()]
        return {file.name: read_bytes(file) for file in here}
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
    for name, contents in _members(path):
        if wanted(name):
            yield name, contents()


def names(path: Path) -> list[str]:
    """The names of all files in a folder or an archive."""
    return [name for name, _ in _members(path)]


def _members(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file():
                yield file.relative_to(path).as_posix(), partial(read_bytes, file)
    else:
        yield from zip_members(path) if path.suffix == ".zip" else tar_members(path)
