"""TinyImageNet: 64 by 64 photographs of 200 kinds of things, from its folder or its zip."""

import re
from pathlib import Path

import numpy as np

from credax.data import archive, images
from credax.data.dataset import Dataset, Split
from credax.data.places import first_match
from credax.data.source import Download, Source
from credax.errors import InputError

SIDE = 64
# Published for bytes; everything else here is published for pixels in [0, 1].
MEAN = np.array([122.4786, 114.2755, 101.3963]) / images.WHITE
DEVIATION = np.array([70.4924, 68.5679, 71.8127]) / images.WHITE
_FOLDER = "tiny-imagenet-200"
_TRAIN = re.compile(r"(?:^|/)train/(n\d+)/images/([^/]+\.JPEG)$")
_TEST = re.compile(r"(?:^|/)val/images/([^/]+\.JPEG)$")
_TEXTS = ("wnids.txt", "words.txt", "val/val_annotations.txt")


def find(root: Path) -> Path | None:
    """The published folder (unpacked) or zip."""
    if (root / "wnids.txt").is_file() and (root / "val").is_dir():
        return root
    bases = [root, root / "tiny-imagenet", root / "TinyImageNet", root / "tinyimagenet"]
    place = first_match(bases, (f"{_FOLDER}/wnids.txt", "wnids.txt", f"{_FOLDER}.zip"))
    return place.parent if place is not None and place.name == "wnids.txt" else place


def read(place: Path, *, classes: int | None = None, size: int = SIDE) -> Dataset:
    """TinyImageNet, whose published validation images are the test split here (the labels of its
    own test images were never published).

    Classes are numbered in the order of their sorted WordNet identifiers; ``classes`` keeps the
    first so many; ``size`` 64, 32, 16 or 8 averages blocks of pixels. ``x`` is bytes in NHWC.
    """
    if size not in (64, 32, 16, 8):
        raise InputError(f"size is {size}; give 64, 32, 16 or 8")
    texts = _texts(place)
    known = sorted(archive.need(texts, "wnids.txt", place).decode("utf-8", "replace").split())
    if classes is not None and not 2 <= classes <= len(known):
        raise InputError(f"classes is {classes}; give 2 to {len(known)}")
    number = {wnid: label for label, wnid in enumerate(known[:classes])}
    annotated = _annotations(archive.need(texts, "val_annotations.txt", place), place)
    train: dict[str, int] = {}
    test: dict[str, int] = {}
    for name in sorted(archive.names(place)):
        if hit := _TRAIN.search(name):
            if hit[1] in number:
                train[name] = number[hit[1]]
        elif (hit := _TEST.search(name)) and annotated.get(hit[1]) in number:
            test[name] = number[annotated[hit[1]]]
    words = _words(texts.get("words.txt", b""))
    inputs = images.units(MEAN, DEVIATION)
    return Dataset(
        "tiny-imagenet",
        Split(*_pictures(place, train, size), inputs),
        Split(*_pictures(place, test, size), inputs),
        class_names=tuple(words.get(wnid, wnid) for wnid in number),
    )


def _texts(place: Path) -> dict[str, bytes]:
    wanted = archive.stream(place, lambda name: name.endswith(_TEXTS))
    return {Path(name).name: contents for name, contents in wanted}


def _annotations(contents: bytes, place: Path) -> dict[str, str]:
    rows = [
        line.split("\t")
        for line in contents.decode("utf-8", "replace").splitlines()
        if line.strip()
    ]
    if any(len(row) < 2 for row in rows):
        raise InputError(
            f"{place}: val_annotations.txt has a line without a file and a class; get it again"
        )
    return {row[0]: row[1] for row in rows}


def _words(contents: bytes) -> dict[str, str]:
    rows = (line.split("\t", 1) for line in contents.decode("utf-8", "replace").splitlines())
    return {row[0]: row[1].split(",")[0].strip() for row in rows if len(row) == 2}


def _pictures(place: Path, rows: dict[str, int], size: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.empty((len(rows), size, size, 3), np.uint8)
    place_of = {name: row for row, name in enumerate(rows)}
    for name, contents in archive.stream(place, place_of.__contains__):
        picture = images.decode(contents, f"{place}: {name}", SIDE // size)
        if picture.shape != (size, size, 3):
            raise InputError(
                f"{place}: {name} is not {SIDE} by {SIDE} pixels; get the published set again"
            )
        x[place_of[name]] = picture
    return x, np.fromiter(rows.values(), np.int32, len(rows))


SOURCES = (
    Source(
        "tiny-imagenet",
        "photographs of 200 kinds of things, 100 000 + 10 000",
        "classification",
        (SIDE, SIDE, 3),
        read,
        find,
        f"put {_FOLDER}.zip, or the folder {_FOLDER} it unpacks to, into {{root}}",
        (
            Download(
                f"{_FOLDER}.zip",
                (f"http://cs231n.stanford.edu/{_FOLDER}.zip",),
                "md5:90528d7ca1a48142e341f4ef8d21d0de",
            ),
        ),
        requires="PIL",
    ),
)
