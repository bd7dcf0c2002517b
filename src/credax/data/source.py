"""One record per data set: what it is, where its files are looked for, how they are read."""

import importlib.util
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from credax.data.dataset import Dataset, Task
from credax.data.places import root_folder
from credax.errors import InputError


@dataclass(frozen=True)
class Download:
    """A published file: its place under the root, addresses to try in turn, and its checksum."""

    file: str
    addresses: tuple[str, ...]
    checksum: str


@dataclass(frozen=True)
class Source:
    """A data set that `credax.data.load` knows by name.

    ``find(root)`` returns the file or folder the set is read from, or None; it is None itself for
    sets that need no file. ``read(place, **options)`` (``read(**options)`` without files) builds
    the data set. ``remedy`` says in words which file to put where, with ``{root}`` for the folder.
    ``requires`` is a module that must be importable.
    """

    name: str
    description: str
    task: Task
    input_shape: tuple[int, ...]
    read: Callable[..., Dataset]
    find: Callable[[Path], Path | None] | None = None
    remedy: str = ""
    downloads: tuple[Download, ...] = ()
    requires: str | None = None

    @property
    def form(self) -> str:
        """The task in words: of pixels, segmentation or pixel-regression."""
        if not self.name.startswith("pixels/"):
            return self.task
        return "segmentation" if self.task == "classification" else "pixel-regression"

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the keyword options `credax.data.load` takes for this set."""
        parameters = inspect.signature(self.read).parameters.values()
        return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)

    def locate(self, root: str | os.PathLike[str] | None = None) -> Path | None:
        """The file or folder this set would be read from; None if there is or needs to be none."""
        return None if self.find is None else self.find(root_folder(root))

    def available(self, root: str | os.PathLike[str] | None = None) -> bool:
        """Whether the set can be loaded here without downloading anything."""
        if self.requires is not None and importlib.util.find_spec(self.requires) is None:
            return False
        return self.find is None or self.locate(root) is not None

    def where(self, root: str | os.PathLike[str] | None = None) -> str:
        """Where the data is or, if it is not here, what to put where, for a table."""
        if self.requires is not None and importlib.util.find_spec(self.requires) is None:
            return "run: pip install 'credax[data]'"
        if self.find is None:
            return "built in" if self.requires is None else f"comes with {self.requires}"
        place = self.locate(root)
        return self.advice(root_folder(root)) if place is None else str(place)

    def advice(self, root: Path) -> str:
        """What to do to have the files under ``root``."""
        return self.remedy.replace("{root}", str(root))

    def missing(self, root: Path, reason: str = "") -> InputError:
        """The error for files that are not there, with what to do."""
        because = f" and could not be downloaded ({reason})" if reason else ""
        return InputError(
            f"data set {self.name!r} was not found in {root}{because}; {self.advice(root)}"
        )
