"""A folder of pictures as a data set: a subfolder per class, and perhaps train, test, val above."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from credax.data.dataset import Dataset, Split
from credax.data.divide import divide
from credax.data.picture_store import stored_pictures
from credax.data.pictures import Header, Pictures, in_threads, is_picture, read_header, sentence
from credax.errors import InputError
from credax.standardise import Standardise

SIZE = 64
"""Pixels of a side, where pictures have different sizes or are larger."""
MOST_SIZE = 1024
_SPLITS = {"train": "train", "training": "train", "test": "test", "testing": "test"}
_SPLITS |= dict.fromkeys(("val", "valid", "validation"), "validation")
_BLOCK = 2**24


class Found(NamedTuple):
    """A picture's file, its class, and the split its folder is in (train where there is none)."""

    path: Path
    label: str
    split: str


def read_folder(
    folder: str | os.PathLike[str],
    *,
    size: int | None = None,
    split: int | None = None,
    test_fraction: float = 0.2,
    validation: float = 0.0,
    train_rows: int | None = None,
    test_rows: int | None = None,
) -> Dataset:
    """A data set of the pictures below a folder: PNG, JPEG, WebP and BMP of any size.

    ``FOLDER/CLASS/...`` holds the pictures of a class, however deep, or ``FOLDER/train/CLASS/...``
    with ``test`` and ``val`` or ``validation`` beside ``train``. A test split that is not there is
    held out of the training pictures (``test_fraction``, classes in proportion, by the fixed seed
    ``split``), and so is a share ``validation``. Hidden files are passed over; pictures that cannot
    be read are named in a warning and left out.

    ``x`` is bytes ``[rows, size, size, channels]``, with one channel if all pictures are grey. A
    picture is cut around its centre to the ratio of sides and scaled by bilinear interpolation.
    Without ``size``, pictures that all have one size of at most 64 by 64 keep it, and others become
    64 by 64. More than 512 MB are kept in a file of the user's cache folder and streamed from it.
    """
    folder = Path(folder)
    check_size(size)
    found = list_pictures(folder)
    classes = _classes(found, folder)
    headers = list(in_threads(read_header, [each.path for each in found]))
    damaged = [str(header) for header in headers if not isinstance(header, Header)]
    pairs = zip(found, headers, strict=True)
    sound = [(each, header) for each, header in pairs if isinstance(header, Header)]
    if not sound:
        raise InputError(f"{folder}: {sentence(damaged, len(found))}; none is left")
    shape = picture_shape([header for _, header in sound], size)
    kept = [each for each, _ in sound]
    rest: Any = {"test_fraction": test_fraction, "seed": split or 0, "validation": validation}
    rest |= {"train_rows": train_rows, "test_rows": test_rows}

    def divided(rows: list[Found]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        y = np.array([classes.index(row.label) for row in rows], np.int32)
        of = np.array([row.split for row in rows])
        given = {name: np.flatnonzero(of == name) for name in dict.fromkeys(of.tolist())}
        if "train" not in given:
            raise InputError(f"{folder}: no training picture can be read; save them again")
        return divide(y, "classification", classes, given=given, **rest), y

    parts, more = stored_pictures(folder, kept, Pictures(*shape), divided, rest)
    damaged += more
    if damaged:
        warnings.warn(sentence(damaged, len(found)), stacklevel=4)
    record = Pictures(*shape, len(found) - len(damaged), len(damaged))
    units = channel_units(parts["train"][0])
    splits = {name: Split(x, y, units) for name, (x, y) in parts.items()}
    train, test, held = splits["train"], splits["test"], splits.get("validation")
    return Dataset(
        folder.resolve().name, train, test, held, class_names=classes, preparation=record
    )


def labelled_pictures(folder: Path, pictures: Pictures, classes: tuple[str, ...]) -> Split:
    """The pictures of a folder with a model's classes, for an evaluation.

    Where the folder has a test split, that; else all. A class the model does not know is refused.
    """
    found = list_pictures(folder)
    found = [each for each in found if each.split == "test"] or found
    odd = sorted({each.label for each in found} - set(classes))
    if odd or not found:
        what = f"the class {odd[0]!r}" if odd else "no pictures in folders of classes"
        raise InputError(f"{folder} has {what}; the model knows {', '.join(classes[:8])}")
    read = pictures.read([each.path for each in found])
    if not read.paths:
        raise InputError(f"{folder}: {sentence(read.damaged, len(found))}; none is left")
    if read.damaged:
        warnings.warn(sentence(read.damaged, len(found)), stacklevel=3)
    labels = {each.path: classes.index(each.label) for each in found}
    return Split(read.x, np.array([labels[path] for path in read.paths], np.int32))


def list_pictures(folder: Path) -> list[Found]:
    """The pictures below a folder with their classes and splits, in the order of their names."""
    tops = [path for path in _visible(folder) if path.is_dir()]
    splits = {path: _SPLITS[path.name.lower()] for path in tops if path.name.lower() in _SPLITS}
    divided = any(name == "train" and _holds_folders(path) for path, name in splits.items())
    if not divided:
        return _of_classes(tops, "train", folder)
    others = [path for path in tops if path not in splits and next(pictures_below(path), None)]
    if others:
        raise InputError(
            f"{folder} holds train/ and the folder {others[0].name}/ with pictures beside it; put "
            "every class into train/ (and test/, validation/), or none"
        )
    found = []
    for path, name in splits.items():
        found += _of_classes([sub for sub in _visible(path) if sub.is_dir()], name, path)
    return found


def pictures_below(folder: Path, seen: frozenset[str] = frozenset()) -> Iterator[Path]:
    """The pictures of a folder and of all folders in it, without hidden ones, in order."""
    real = os.path.realpath(folder)
    if real in seen:  # a link to a folder above
        return
    for path in _visible(folder):
        if path.is_dir():
            yield from pictures_below(path, seen | {real})
        elif is_picture(path.name):
            yield path


def channel_units(x: np.ndarray) -> Standardise:
    """Mean and standard deviation of every channel, read in blocks: ``x`` may lie on disk."""
    channels = x.shape[-1]
    total, squares, count = np.zeros(channels), np.zeros(channels), 0
    step = max(1, _BLOCK // max(1, x[:1].size))
    for start in range(0, len(x), step):
        block = np.asarray(x[start : start + step], np.float64).reshape(-1, channels)
        total, squares = total + block.sum(0), squares + np.square(block).sum(0)
        count += len(block)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
    return Standardise(mean, np.where(deviation > 0, deviation, 1.0))


def _of_classes(folders: list[Path], split: str, where: Path) -> list[Found]:
    loose = [path for path in _visible(where) if path.is_file() and is_picture(path.name)]
    if loose and folders:
        warnings.warn(
            f"{len(loose)} pictures of {where} are left out because they are in no folder of a "
            f"class, such as {loose[0].name}",
            stacklevel=5,
        )
    return [Found(path, sub.name, split) for sub in folders for path in pictures_below(sub)]


def _classes(found: list[Found], folder: Path) -> tuple[str, ...]:
    classes = tuple(sorted({each.label for each in found if each.split == "train"}))
    if len(classes) < 2:
        raise InputError(
            f"{folder} holds pictures of {len(classes)} classes; give two or more subfolders, one "
            "per class, with .png, .jpg, .webp or .bmp files"
        )
    odd = sorted({each.label for each in found} - set(classes))
    if odd:
        raise InputError(
            f"{folder} has the class {odd[0]!r} outside train/ and not in it; a class needs "
            "pictures to train on"
        )
    return classes


def check_size(size: int | None) -> None:
    """Raise an error if pictures cannot be scaled to so many pixels a side."""
    if size is not None and (isinstance(size, bool) or not 4 <= size <= MOST_SIZE):
        raise InputError(f"size is {size}; give a number of pixels from 4 to {MOST_SIZE}")


def picture_shape(headers: list[Header], size: int | None) -> tuple[int, int, int]:
    """Height, width and channels of the inputs that pictures become."""
    check_size(size)
    channels = 1 if all(header.grey for header in headers) else 3
    sizes = {(header.height, header.width) for header in headers}
    if size is None and len(sizes) == 1 and max(max(each) for each in sizes) <= SIZE:
        return (*sizes.pop(), channels)
    return (size or SIZE, size or SIZE, channels)


def _holds_folders(folder: Path) -> bool:
    """Whether a folder called train holds folders of classes, and is not a class itself."""
    inside = _visible(folder)
    loose = any(path.is_file() and is_picture(path.name) for path in inside)
    return not loose and any(path.is_dir() for path in inside)


def _visible(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise InputError(f"{folder} cannot be read ({error.strerror})") from error
    return [folder / name for name in names if name[0] != "." and name != "__MACOSX"]
