"""Published corrupted test sets, read one kind and severity at a time.

CIFAR-10-C, CIFAR-100-C and TinyImageNet-C: D. Hendrycks and T. Dietterich, Benchmarking neural
network robustness to common corruptions and perturbations, ICLR 2019.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from credax.data import cifar, images, tiny_imagenet
from credax.data.corruptions.registry import EXTRA, MAIN, SEVERITIES
from credax.data.dataset import Split
from credax.data.places import root_folder
from credax.errors import InputError, unknown
from credax.reading import read_bytes, read_npy
from credax.standardise import Standardise

_ORDER = (*MAIN, *EXTRA)


@dataclass(frozen=True)
class Shifted:
    """A published corrupted test set: the kinds of corruption that are here, and where.

    ``read(kind, severity)`` gives the images of one cell as a `Split` in raw bytes; ``cells()``
    gives them all, in the form of `credax.data.corruptions.corrupted`.
    """

    name: str
    place: Path
    kinds: tuple[str, ...]
    inputs: Standardise
    classes: int
    size: int | None = None

    def read(self, kind: str, severity: int) -> Split:
        """The test images under one kind and severity (1 to 5), with their labels."""
        if kind not in self.kinds:
            raise unknown(f"corruption in {self.place}", kind, self.kinds)
        if severity not in SEVERITIES:
            raise InputError(f"severity is {severity}; {self.name} has 1 to 5")
        read = _read_folder if self.name == "tiny-imagenet-c" else _read_block
        return Split(*read(self, kind, int(severity)), inputs=self.inputs)

    def cells(
        self, kinds: Iterable[str] | None = None, severities: Iterable[int] = SEVERITIES
    ) -> Iterator[tuple[tuple[str, int], Split]]:
        """``((kind, severity), Split)`` for every kind (all, if left out) and severity."""
        severities = tuple(severities)
        for kind in self.kinds if kinds is None else kinds:
            for severity in severities:
                yield (kind, severity), self.read(kind, severity)


@dataclass(frozen=True)
class _Published:
    folder: str
    classes: int
    mean: Any
    deviation: Any
    files: str = "<kind>.npy"


_PUBLISHED = {
    "cifar10-c": _Published("CIFAR-10-C", 10, *cifar.UNITS_10),
    "cifar100-c": _Published("CIFAR-100-C", 100, *cifar.UNITS_100),
    "tiny-imagenet-c": _Published(
        "Tiny-ImageNet-C",
        200,
        tiny_imagenet.MEAN,
        tiny_imagenet.DEVIATION,
        "<kind>/<severity>/<class>/*.JPEG",
    ),
}


def shifted_names() -> tuple[str, ...]:
    """The names `load_shifted` knows.

    >>> shifted_names()
    ('cifar10-c', 'cifar100-c', 'tiny-imagenet-c')
    """
    return tuple(_PUBLISHED)


def load_shifted(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    classes: int | None = None,
    size: int | None = None,
) -> Shifted:
    """A published corrupted test set from its unpacked folder; nothing is downloaded.

    The folder (``CIFAR-10-C``, ``CIFAR-100-C``, ``Tiny-ImageNet-C``) is looked for under ``root``,
    else ``$CREDAX_DATA``, else the user's cache folder; ``root`` may be the folder itself. For
    TinyImageNet-C only, ``classes`` keeps the first so many and ``size`` 64, 32, 16 or 8 averages
    blocks of pixels, both as in ``load("tiny-imagenet", classes=..., size=...)``.
    """
    plain = {known.replace("-", ""): known for known in _PUBLISHED}
    name = plain.get(name.lower().replace("-", "").replace("_", ""), name)
    if name not in _PUBLISHED:
        raise unknown("corrupted data set", name, _PUBLISHED)
    published = _PUBLISHED[name]
    if (classes, size) != (None, None) and name != "tiny-imagenet-c":
        raise InputError(f"{name} takes no classes and no size; only tiny-imagenet-c does")
    if classes is not None and not 2 <= classes <= published.classes:
        raise InputError(f"classes is {classes}; give 2 to {published.classes}")
    if size not in (None, 64, 32, 16, 8):
        raise InputError(f"size is {size}; give 64, 32, 16 or 8")
    place = _locate(name, published, root_folder(root))
    found = {p.stem for p in place.iterdir() if p.suffix == ".npy" or p.is_dir()}
    kinds = tuple(kind for kind in _ORDER if kind in found)
    if not kinds:
        raise InputError(
            f"{place} has no {published.files} for any known kind, such as {_ORDER[0]}; "
            f"unpack the whole {published.folder}.tar there"
        )
    inputs = images.units(published.mean, published.deviation)
    return Shifted(name, place, kinds, inputs, classes or published.classes, size)


def _locate(name: str, published: _Published, root: Path) -> Path:
    for place in (root / published.folder, root / name, root):
        if place.is_dir() and (place != root or root.name in (published.folder, name)):
            return place
    archive = root / f"{published.folder}.tar"
    if archive.is_file():
        raise InputError(f"{archive} is still packed; unpack it in {root}")
    raise InputError(
        f"data set {name!r} was not found in {root}; unpack {published.folder}.tar there, "
        f"so that there is a folder {root / published.folder}"
    )


def _read_block(data: Shifted, kind: str, severity: int) -> tuple[np.ndarray, np.ndarray]:
    file = data.place / f"{kind}.npy"
    x = _array(file)
    if x.dtype != np.uint8 or x.shape[1:] != (32, 32, 3) or not len(x) or len(x) % len(SEVERITIES):
        raise InputError(
            f"{file} has shape {x.shape} and type {x.dtype}; the published file has bytes "
            "[50000, 32, 32, 3], five severities one after another: get it again"
        )
    labels = data.place / "labels.npy"
    y = _array(labels)
    if y.shape != (len(x),) or y.dtype.kind not in "iu":
        raise InputError(
            f"{labels} has shape {y.shape} and type {y.dtype}; it should hold a whole number for "
            f"each of the {len(x)} images of {file.name}: get it again"
        )
    if y.min() < 0 or y.max() >= data.classes:
        raise InputError(
            f"{labels} has labels from {y.min()} to {y.max()}; {data.name} has 0 to "
            f"{data.classes - 1}: get the labels of this set"
        )
    rows = len(x) // len(SEVERITIES)
    block = slice((severity - 1) * rows, severity * rows)
    return x[block], np.asarray(y[block], np.int32)


def _array(file: Path) -> np.ndarray:
    if not file.exists():
        raise InputError(f"there is no file {file}; put the published one there")
    return read_npy(file, mapped=True)


def _read_folder(data: Shifted, kind: str, severity: int) -> tuple[np.ndarray, np.ndarray]:
    folder = data.place / kind / str(severity)
    classes = _classes(folder)
    known = _classes(data.place / data.kinds[0] / str(SEVERITIES[0]))
    if classes != known:
        odd = min(set(classes) ^ set(known))
        raise InputError(
            f"{folder} and {data.kinds[0]}/{SEVERITIES[0]} beside it differ in the class {odd}; "
            "unpack the whole Tiny-ImageNet-C.tar again"
        )
    pictures = [
        (file, label)
        for label, wnid in enumerate(classes[: data.classes])
        for file in sorted((folder / wnid).glob("*.JPEG"))
    ]
    if not pictures:
        raise InputError(
            f"{folder} has no images <class>/*.JPEG; unpack the whole Tiny-ImageNet-C.tar again"
        )
    size = data.size or tiny_imagenet.SIDE
    x = np.empty((len(pictures), size, size, 3), np.uint8)
    for row, (file, _) in enumerate(pictures):
        picture = images.decode(read_bytes(file), str(file), tiny_imagenet.SIDE // size)
        if picture.shape != x.shape[1:]:
            raise InputError(f"{file} is not 64 by 64 pixels; get the published set again")
        x[row] = picture
    return x, np.array([label for _, label in pictures], np.int32)


def _classes(folder: Path) -> list[str]:
    if not folder.is_dir():
        raise InputError(
            f"there is no folder {folder}; unpack the whole Tiny-ImageNet-C.tar into "
            f"{folder.parents[1]}"
        )
    return sorted(path.name for path in folder.iterdir() if path.is_dir())
