"""A folder of pictures and masks, or of pictures and depths, as a data set."""

import os
import re
import warnings
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from credax.data.dataset import Dataset, Split
from credax.data.divide import divide
from credax.data.folder import channel_units, check_size, pictures_below
from credax.data.masks import MASKS, fitted, read_depth, read_labels, read_legend
from credax.data.pictures import Header, in_threads, read_header, sentence
from credax.data.pixel_form import IGNORE, PixelForm, check_pixels
from credax.errors import InputError
from credax.standardise import Standardise

PIXEL_TASKS = ("segmentation", "pixel-regression")
SIDE = 128
"""Pixels of a side, where pictures have different sizes or are larger."""
MULTIPLE = 16
"""What the sides of inputs are a multiple of, so that a U-Net can halve them."""
_PICTURES = ("images", "pictures", "image", "img", "rgb", "leftimg8bit")
_TARGETS = {
    "segmentation": ("masks", "labels", "annotations", "mask", "label", "gtfine"),
    "pixel-regression": ("depth", "depths", "groundtruth", "targets"),
}
_SPLITS = {"train": "train", "training": "train", "test": "test", "testing": "test"}
_SPLITS |= dict.fromkeys(("val", "valid", "validation"), "validation")
_SUFFIX = re.compile(
    r"_(leftImg8bit|gtFine_labelTrainIds|gtFine_labelIds|mask|label|depth|L|rgb|color|colors)$"
)
# Cityscapes: from the numbers in its files to the 19 that are trained; all others are ignored.
_TRAINED = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
_CITYSCAPES = (
    *("road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign"),
    *("vegetation", "terrain", "sky", "person", "rider", "car", "truck", "bus", "train"),
    *("motorcycle", "bicycle"),
)
_CAMVID = (
    *("sky", "building", "pole", "road", "pavement", "tree", "sign", "fence", "car"),
    *("pedestrian", "bicyclist"),
)


class Pair(NamedTuple):
    """A picture, its mask or depth, and the split of its folder."""

    picture: Path
    target: Path
    split: str


class Layout(NamedTuple):
    """What was found in a folder: pairs, in words what it is, names of classes it is known for."""

    pairs: list[Pair]
    source: str
    names: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()
    """Numbers in the masks of classes 0, 1, ...; empty where they are the classes."""


def read_pixels(
    folder: str | os.PathLike[str],
    *,
    task: Literal["segmentation", "pixel-regression"] = "segmentation",
    size: int | None = None,
    ignore_label: int = IGNORE,
    depth_steps: float = 256.0,
    split: int | None = None,
    test_fraction: float = 0.2,
    validation: float = 0.0,
    train_rows: int | None = None,
    test_rows: int | None = None,
) -> Dataset:
    """Pictures with a class, or a depth, at every pixel.

    Layouts: ``FOLDER/images`` beside ``FOLDER/masks`` (or ``labels``, ``annotations``; of depths
    ``depth`` or ``groundtruth``), files of one name, with folders ``train``, ``val``, ``test`` at
    either level or none; CamVid (``train`` and ``trainannot``, ...); Cityscapes (``leftImg8bit``
    and ``gtFine``; its validation pictures are the test rows, for its test pictures have no
    masks). Masks are PNG of class numbers or with a palette, coloured ones with a ``classes.txt``
    of colours; depths are PNG of 16 bits with ``depth_steps`` per unit (256 as in KITTI, 1000 for
    millimetres as in NYUv2), ``.npy`` or ``.npz``, zero where they are not known.

    A picture and its mask are cut around the centre and scaled alike, the mask by the nearest
    pixel: to ``size`` by ``size``, else to their own size if it is one and not above 128, rounded
    down to a multiple of 16, else to 128 by 128. All are kept in memory. Pictures that cannot be
    read are named in a warning and left out; a mask that does not fit is an error.
    """
    folder = Path(folder)
    check_size(size)
    if not depth_steps > 0:
        raise InputError(
            f"depth_steps is {depth_steps}; give the positive number of steps per unit of depth"
        )
    layout = find_pairs(folder, task)
    headers = list(in_threads(read_header, [pair.picture for pair in layout.pairs]))
    damaged = [str(header) for header in headers if not isinstance(header, Header)]
    both = zip(layout.pairs, headers, strict=True)
    sound = [(pair, header) for pair, header in both if isinstance(header, Header)]
    if not sound:
        raise InputError(f"{folder}: {sentence(damaged, len(headers))}; none is left")
    shape = _shape([header for _, header in sound], size)
    legend = read_legend(folder)
    colours = () if legend is None or task != "segmentation" else legend.colours
    regression = task == "pixel-regression"
    form = PixelForm(
        *shape, None if regression else ignore_label, depth_steps, colours, layout.source
    )
    read = form.pictures.read([pair.picture for pair, _ in sound])
    damaged += read.damaged
    if not read.paths:
        raise InputError(f"{folder}: {sentence(damaged, len(headers))}; none is left")
    if damaged:
        warnings.warn(sentence(damaged, len(headers)), stacklevel=4)
    form = PixelForm(**{**vars(form), "count": len(read.paths), "left_out": len(damaged)})
    known = set(read.paths)
    kept = [(pair, header) for pair, header in sound if pair.picture in known]
    y = read_targets(kept, form, layout.ids)
    rest: Any = {"test_fraction": test_fraction, "seed": split or 0, "validation": validation}
    rest |= {"train_rows": train_rows, "test_rows": test_rows}
    parts = _divided([pair.split for pair, _ in kept], rest)
    units = channel_units(read.x[parts["train"]])
    names = _names(legend, layout, y[parts["train"]], form) if not regression else ()
    targets = (
        Standardise.of(y[parts["train"]][form.counts(y[parts["train"]])]) if regression else None
    )
    made = {n: Split(read.x[i], y[i], units, targets, pixels=form) for n, i in parts.items()}
    return Dataset(
        folder.resolve().name,
        made["train"],
        made["test"],
        made.get("validation"),
        task="regression" if regression else "classification",
        class_names=names,
        target_names=("depth",) if regression else (),
        preparation=form,
    )


def labelled_pixels(folder: Path, form: PixelForm, classes: tuple[str, ...]) -> Split:
    """The pictures and targets of a folder in the form of a model, for an evaluation.

    Where the folder has a test split, that; else all.
    """
    task = "segmentation" if classes else "pixel-regression"
    layout = find_pairs(folder, task)
    pairs = [pair for pair in layout.pairs if pair.split == "test"] or layout.pairs
    headers = list(in_threads(read_header, [pair.picture for pair in pairs]))
    read = form.pictures.read([pair.picture for pair in pairs])
    if len(read.paths) < len(pairs):
        raise InputError(f"{folder}: {sentence(read.damaged, len(pairs))}; save them again")
    y = read_targets(list(zip(pairs, headers, strict=True)), form, layout.ids)
    check_pixels(y, form, len(classes) or None, str(folder))
    return Split(read.x, y, pixels=form)


def read_targets(
    kept: list[tuple[Pair, Header]], form: PixelForm, ids: tuple[int, ...] = ()
) -> np.ndarray:
    """Masks or depths of pictures, in the form of a data set."""
    regression = form.ignore_label is None
    table = np.full(256, IGNORE if form.ignore_label is None else form.ignore_label, np.int32)
    table[list(ids)] = np.arange(len(ids))
    y = np.empty((len(kept), form.height, form.width), np.float32 if regression else np.int32)
    for row, (pair, header) in enumerate(kept):
        if regression:
            values = read_depth(pair.target, form.steps)
        else:
            values = read_labels(pair.target, form.colours)
            values = table[np.clip(values, 0, 255)] if ids else values
        if values.shape != (header.height, header.width):
            raise InputError(
                f"{pair.target} is {values.shape[0]} by {values.shape[1]} and its picture "
                f"{pair.picture.name} {header.height} by {header.width}; a mask has the "
                "size of its picture"
            )
        y[row] = fitted(values, form.height, form.width)
    return y


def find_pairs(folder: Path, task: str) -> Layout:
    """Pictures and their targets in one of the layouts that `read_pixels` knows."""
    inside = {path.name.lower(): path for path in sorted(folder.iterdir()) if path.is_dir()}
    if "trainannot" in inside:
        pairs = []
        for name, split in (("train", "train"), ("val", "validation"), ("test", "test")):
            if name in inside and f"{name}annot" in inside:
                pairs += _matched(inside[name], inside[f"{name}annot"], split)
        return Layout(_some(pairs, folder, task), "CamVid", _CAMVID)
    tops = _branches(inside, task)
    if tops is not None:
        return _beside(*tops, folder, task)
    pairs = []
    for name, path in inside.items():
        if name in _SPLITS:
            below = {p.name.lower(): p for p in sorted(path.iterdir()) if p.is_dir()}
            tops = _branches(below, task)
            pairs += [] if tops is None else _matched(*tops, _SPLITS[name])
    return Layout(_some(pairs, folder, task), "pictures and targets")


def _beside(pictures: Path, targets: Path, folder: Path, task: str) -> Layout:
    """Folders of pictures and targets, perhaps each with the folders of the splits."""
    below = {p.name.lower(): p for p in sorted(pictures.iterdir()) if p.is_dir()}
    splits = [name for name in below if name in _SPLITS]
    cityscapes = pictures.name.lower() == "leftimg8bit"
    if not splits:
        pairs = _matched(pictures, targets, "train")
        return Layout(_some(pairs, folder, task), "pictures and targets")
    pairs = []
    for name in splits:
        other = targets / below[name].name
        split = "test" if cityscapes and name == "val" else _SPLITS[name]
        if other.is_dir() and not (cityscapes and name == "test"):
            pairs += _matched(below[name], other, split)
    _some(pairs, folder, task)
    if not cityscapes:
        return Layout(pairs, "pictures and targets")
    full = any("_labelIds" in pair.target.stem for pair in pairs)
    return Layout(pairs, "Cityscapes", _CITYSCAPES, _TRAINED if full else ())


def _matched(pictures: Path, targets: Path, split: str) -> list[Pair]:
    """Pictures and targets of one name; endings such as _mask and _gtFine_labelIds aside."""
    chosen: dict[str, Path] = {}
    for path in sorted(targets.rglob("*")):
        usable = path.suffix.lower() in MASKS and not path.name.startswith(".")
        # Cityscapes keeps four files for a picture; the numbers to train come first.
        if usable and not path.stem.endswith(("_color", "_instanceIds", "_instanceTrainIds")):
            stem = _SUFFIX.sub("", path.stem)
            if stem not in chosen or path.stem.endswith("_labelTrainIds"):
                chosen[stem] = path
    found, alone = [], []
    for path in pictures_below(pictures):
        target = chosen.get(_SUFFIX.sub("", path.stem))
        if target is None:
            alone.append(path)
        else:
            found.append(Pair(path, target, split))
    if alone:
        warnings.warn(
            f"{len(alone)} pictures of {pictures} are left out because they have no target in "
            f"{targets.name}, such as {alone[0].name}",
            stacklevel=6,
        )
    return found


def _branches(inside: dict[str, Path], task: str) -> tuple[Path, Path] | None:
    pictures = [inside[name] for name in _PICTURES if name in inside]
    targets = [inside[name] for name in _TARGETS[task] if name in inside]
    return (pictures[0], targets[0]) if pictures and targets else None


def _some(pairs: list[Pair], folder: Path, task: str) -> list[Pair]:
    if not pairs:
        wanted = "masks" if task == "segmentation" else "depth"
        raise InputError(
            f"{folder} holds no pictures with targets; {task} needs the folders images and "
            f"{wanted} with files of the same names, or the layout of CamVid or Cityscapes"
        )
    return pairs


def _shape(headers: list[Header], size: int | None) -> tuple[int, int, int]:
    channels = 1 if all(header.grey for header in headers) else 3
    sizes = {(header.height, header.width) for header in headers}
    if size is None and len(sizes) == 1 and max(max(each) for each in sizes) <= SIDE:
        height, width = (max(MULTIPLE, n // MULTIPLE * MULTIPLE) for n in sizes.pop())
        return height, width, channels
    return size or SIDE, size or SIDE, channels


def _divided(splits: list[str], rest: dict[str, Any]) -> dict[str, np.ndarray]:
    of = np.array(splits)
    given = {name: np.flatnonzero(of == name) for name in dict.fromkeys(splits)}
    if "train" not in given:
        raise InputError("no training picture can be read; save them again")
    return divide(np.zeros(len(of)), "regression", given=given, **rest)


def _names(legend: Any, layout: Layout, y: np.ndarray, form: PixelForm) -> tuple[str, ...]:
    counted = y[form.counts(y)]
    if not len(counted):
        raise InputError(
            "all pixels of the training masks are ignored; check them and ignore_label"
        )
    if legend is not None:
        return legend.names
    if layout.names:
        return layout.names
    return tuple(map(str, range(int(counted.max()) + 1)))
