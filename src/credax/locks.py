"""A file that one process holds at a time, on every platform."""

from typing import IO, Any


def hold(file: IO[Any]) -> None:
    """Lock an open file until it is closed; an `OSError` says that another process has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue]
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
