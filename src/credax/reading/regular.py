"""Regular files as bytes and text: nothing that blocks, nothing larger than a stated bound."""

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from credax.errors import DamagedFile, InputError

MOST_BYTES = 2**32
"""Bytes read into memory at once, where nothing else is said."""
MOST_TEXT = 2**30
"""Bytes of a text file, such as a table."""

AGAIN = "it is damaged or cut short: delete it and get it again"
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: str | os.PathLike[str]) -> io.BufferedReader:
    """A regular file, open for reading; a pipe, a device or a folder is refused at once."""
    try:
        # Opening a pipe that nobody writes to would wait for ever without O_NONBLOCK.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(f"there is no file {path}") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be opened ({first_line(error)})") from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise InputError(f"{path} is {kind}; give a regular file")
    return os.fdopen(handle, "rb")


def read_bytes(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """The whole of a regular file of at most ``most`` bytes."""
    with open_regular(path) as file, damage(path):
        size = os.fstat(file.fileno()).st_size
        if size <= most:
            content = file.read(most + 1)
            size = len(content)
            if size <= most:
                return content
    raise InputError(f"{path} has {size} bytes; such a file may have at most {most}")


def read_text(
    path: str | os.PathLike[str],
    most: int = MOST_TEXT,
    *,
    problem: str = "is not UTF-8 text",
    remedy: str = "save it as UTF-8 text",
) -> str:
    """The whole of a UTF-8 text file; a byte order mark is dropped."""
    content = read_bytes(path, most)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DamagedFile(f"{path} {problem} ({first_line(error)}); {remedy}") from error


def first_line(error: Exception) -> str:
    """What another library's error says, short enough to stand inside one sentence of ours."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200].rstrip(":")


@contextmanager
def damage(
    where: str | os.PathLike[str], remedy: str = AGAIN, *, problem: str = "cannot be read"
) -> Iterator[None]:
    """Whatever a parser raises on damaged bytes, as one sentence; ours pass as they are.

    Around parsers of other libraries only: given damaged bytes they raise nearly anything.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise DamagedFile(f"{where} {problem} ({first_line(error)}); {remedy}") from error
