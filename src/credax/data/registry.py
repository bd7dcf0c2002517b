"""The data sets there are, by name, and the function that loads them."""

import dataclasses
import difflib
import inspect
import os
from pathlib import Path
from typing import Any

from credax.data import (
    cifar,
    digits,
    mnist,
    pixel_scenes,
    svhn,
    task_sets,
    tiny_imagenet,
    toys,
    uci,
    uci_tables,
)
from credax.data.arrays import read_npz
from credax.data.checks import check
from credax.data.dataset import Dataset
from credax.data.fetch import download as fetch
from credax.data.folder import read_folder
from credax.data.mapped import is_mapped_folder, read_mapped
from credax.data.pixel_folder import PIXEL_TASKS, read_pixels
from credax.data.places import root_folder
from credax.data.source import Source
from credax.data.tabular import TABLES, read_tabular
from credax.data.task_files import is_task_folder, read_task_folder
from credax.errors import InputError, unknown

_ROOMS = (
    digits,
    mnist,
    cifar,
    svhn,
    tiny_imagenet,
    uci,
    uci_tables,
    toys,
    task_sets,
    pixel_scenes,
)
_SOURCES: dict[str, Source] = {source.name: source for room in _ROOMS for source in room.SOURCES}
_SHORT = {
    "uci/boston": "uci/boston-housing",
    "uci/naval": "uci/naval-propulsion-plant",
    "uci/power": "uci/power-plant",
    "uci/protein": "uci/protein-tertiary-structure",
    "uci/wine": "uci/wine-quality-red",
}
_FILES = {".npz": read_npz, **dict.fromkeys(TABLES, read_tabular)}


def names() -> tuple[str, ...]:
    """The names `load` knows, in the order of a table.

    >>> names()[:3]
    ('digits', 'mnist', 'fashion-mnist')
    """
    return tuple(_SOURCES)


def sources() -> tuple[Source, ...]:
    """The record of every data set: description, task, input shape, whether and where it is."""
    return tuple(_SOURCES.values())


def describe(name: str) -> Source:
    """The record of one data set; case, hyphens and underscores in the name do not matter.

    >>> describe("Fashion_MNIST").input_shape
    (28, 28, 1)
    """
    plain = {_plain(known): source for known, source in _SOURCES.items()}
    plain |= {_plain(short): _SOURCES[full] for short, full in _SHORT.items()}
    if _plain(name) not in plain:
        raise unknown("data set", name, _SOURCES)
    return plain[_plain(name)]


def locate(name: str, root: str | os.PathLike[str] | None = None) -> Path | None:
    """The file or folder a data set would be read from, or None; nothing is read or downloaded."""
    return describe(name).locate(root)


def load(
    name: str | os.PathLike[str],
    root: str | os.PathLike[str] | None = None,
    *,
    split: int | None = None,
    download: bool = True,
    **options: Any,
) -> Dataset:
    """A data set by its name, or from a user's own file, folder of pictures or folder of tasks.

    Files are looked for under ``root``, else ``$CREDAX_DATA``, else the user's cache folder, and
    where a system package puts them. What is not there is downloaded into that folder if its
    publisher's address and checksum are known, unless ``download`` is False. ``split`` chooses one
    of the published splits of a ``uci/`` set, or the seed by which a user's rows are held out;
    other ``options`` are those of the set (``credax.data.describe(name).options``) or, for files,
    of `credax.data.arrays.read_npz`, `credax.data.tabular.read_tabular`
    (``.csv``, ``.tsv``, ``.parquet``, ``.feather``), `credax.data.folder.read_folder`, with
    ``task="segmentation"`` or ``"pixel-regression"`` `credax.data.pixel_folder.read_pixels`, for a
    folder of tables `credax.data.task_files.read_task_folder` and, for a folder with
    ``x_train.npy``, `credax.data.mapped.read_mapped`.

    A set of which only test rows are there (``kmnist_test.npz``) has an empty ``train``.

    >>> data = load("toy/two-moons", train=50, seed=1)
    >>> len(data.train), data.num_classes
    (50, 2)
    """
    name = os.fspath(name)
    if Path(name).suffix.lower() in _FILES:
        return _from_file(name, root, split, options)
    if (folder := own_folder(name, root)) is not None:
        reader = read_task_folder if is_task_folder(folder) else read_folder
        reader = read_mapped if is_mapped_folder(folder) else reader
        reader = read_pixels if options.get("task") in PIXEL_TASKS else reader
        return _read(reader, folder, split, options)
    source = describe(name)
    if split is not None:
        options["split"] = split
    _check_options(source.name, options, source.options)
    if source.find is None:
        return check(source.read(**options), source.name)
    folder = root_folder(root)
    place = source.find(folder)
    if place is None and download:
        fetch(source, folder)
        place = source.find(folder)
    if place is None:
        raise source.missing(folder)
    return check(source.read(place, **options), str(place), train_may_be_empty=True)


def own_folder(name: str, root: str | os.PathLike[str] | None = None) -> Path | None:
    """The folder of pictures that a user means by a name, or None; sets by name come first.

    A folder that has the name of a set is meant by a path with a separator, such as ``./digits``.
    """
    plain = {_plain(known) for known in (*_SOURCES, *_SHORT)}
    if _plain(name) in plain:
        return None
    path = Path(root or "").expanduser() / Path(name).expanduser()
    if path.is_dir():
        return path
    if name.endswith(("/", os.sep)):
        raise InputError(f"there is no folder {path}; give one with a subfolder per class")
    return None


def _from_file(name: str, root, split: int | None, options: dict[str, Any]) -> Dataset:
    path = Path(root or "").expanduser() / Path(name).expanduser()
    if not path.is_file():
        known = ", ".join(_FILES)
        raise InputError(f"there is no file {path}; give the path of a file ({known}) or a folder")
    return _read(_FILES[path.suffix.lower()], path, split, options)


def _read(read: Any, path: Path, split: int | None, options: dict[str, Any]) -> Dataset:
    parameters = inspect.signature(read).parameters.values()
    known = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} - {"split"}
    _check_options(path.name, options, known)
    found = check(read(path, split=split, **options), str(path))
    return dataclasses.replace(found, path=str(path.resolve()))


def _check_options(name: str, options: dict[str, Any], known) -> None:
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise InputError(
                f"data set {name!r} has no option {option!r}; {hint}it takes: "
                + (", ".join(known) or "none")
            )


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
