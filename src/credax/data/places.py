"""Where data files are looked for: one root folder, chosen without touching the network."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

ENVIRONMENT = "CREDAX_DATA"


def root_folder(root: str | os.PathLike[str] | None = None) -> Path:
    """The folder data is read from: ``root``, else ``$CREDAX_DATA``, else the user's cache folder.

    The cache folder is ``$XDG_CACHE_HOME/credax`` or ``~/.cache/credax`` (Linux),
    ``~/Library/Caches/credax`` (macOS), ``%LOCALAPPDATA%/credax/Cache`` (Windows).

    >>> root_folder("~/data") == Path.home() / "data"
    True
    """
    if root is not None:
        return Path(root).expanduser()
    if os.environ.get(ENVIRONMENT):
        return Path(os.environ[ENVIRONMENT]).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(base) / "credax" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "credax"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "credax"


def matches(folder: Path, pattern: str) -> Iterable[Path]:
    """Files and folders directly or deeper in ``folder`` that match a glob, last name first."""
    return sorted(folder.glob(pattern), reverse=True) if folder.is_dir() else ()


def first_match(folders: Iterable[Path], patterns: Iterable[str]) -> Path | None:
    """The first thing found, patterns in order of preference, each tried in every folder."""
    folders = tuple(folders)
    found = (hit for p in patterns for folder in folders for hit in matches(folder, p))
    return next(found, None)
