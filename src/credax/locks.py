"""A file that one process holds at a time, on every platform."""

import os
from pathlib import Path
from typing import IO, Any

from credax.errors import FolderInUse, InputError


def claim(folder: Path) -> IO[Any]:
    """Open and lock ``.lock`` in a folder until it is closed.

    A `BlockingIOError` says that another process has it, any other `OSError` that it cannot be
    made. A link of that name is not followed, and nothing is emptied.
    """
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    file = os.fdopen(os.open(folder / ".lock", flags, 0o666), "r+")
    try:
        _hold(file)
    except OSError as error:
        file.close()
        raise BlockingIOError(error.errno, "held by another process") from error
    return file


def claim_folder(folder: Path) -> IO[Any]:
    """Make a folder and lock it; what stands in the way is one sentence for the user."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return claim(folder)
    except BlockingIOError as error:
        raise FolderInUse(
            f"another process is at work in {folder}; wait for it or choose another folder"
        ) from error
    except OSError as error:
        raise InputError(
            f"cannot use the folder {folder} ({error.strerror}); choose another"
        ) from error


def _hold(file: IO[Any]) -> None:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue]
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
