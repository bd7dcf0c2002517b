"""Masks and depths in files: class numbers, colours, or depths, one per pixel."""

import io
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from credax.data.images import MOST_PIXELS
from credax.data.pictures import MOST_FILE, pillow
from credax.errors import InputError
from credax.reading import damage, read_bytes, read_npy, read_npz

MASKS = (".png", ".bmp", ".npy", ".npz")
_WHOLE_MODES = ("1", "L", "P", "I", "I;16", "I;16B", "I;16L")
FORMATS = ("PNG", "BMP")
_ARRAYS = ("depth", "depths", "mask", "masks", "label", "y", "arr_0")


class Legend(NamedTuple):
    """Names of classes and, where masks are coloured, their colours."""

    names: tuple[str, ...]
    colours: tuple[tuple[int, int, int], ...]


def read_labels(path: Path, colours: tuple[tuple[int, int, int], ...]) -> np.ndarray:
    """Class numbers ``[height, width]`` of a mask: integers, palette indices, or known colours."""
    values, mode = _values(path)
    if values.ndim == 2 and mode != "F":
        return values.astype(np.int32)
    if values.ndim != 3 or values.shape[-1] < 3:
        raise InputError(f"{path} holds {mode} values; a mask holds class numbers, such as a PNG")
    if not colours:
        raise InputError(
            f"{path} is a mask of {mode} colours and no palette says which class each is; save it "
            "as class numbers or with a palette, or put a file classes.txt with lines "
            "'red green blue name' beside the folders"
        )
    return _by_colour(values[..., :3], colours, path)


def read_depth(path: Path, steps: float) -> np.ndarray:
    """Depths ``[height, width]``, NaN where they are not known (zero, or not finite).

    A PNG of whole numbers has ``steps`` per unit; arrays of ``.npy`` and ``.npz`` are in units.
    """
    values, mode = _values(path)
    if values.ndim != 2:
        raise InputError(f"{path} holds {mode} values; a depth is one number per pixel")
    depth = values.astype(np.float32)
    if path.suffix.lower() not in (".npy", ".npz"):
        depth = depth / steps
    return np.where(np.isfinite(depth) & (depth > 0), depth, np.nan).astype(np.float32)


def read_legend(folder: Path) -> Legend | None:
    """``classes.txt`` or CamVid's ``label_colors.txt``: a class per line, colours first or none."""
    for name in ("classes.txt", "label_colors.txt"):
        path = folder / name
        if path.is_file():
            break
    else:
        return None
    names, colours = [], []
    for line in read_bytes(path, 2**20).decode("utf-8", "replace").splitlines():
        words = line.split()
        if not words:
            continue
        if len(words) > 3 and all(word.isdigit() for word in words[:3]):
            colours.append(tuple(min(255, int(word)) for word in words[:3]))
            words = words[3:]
        names.append(" ".join(words))
    if not names or len(colours) not in (0, len(names)) or len(set(names)) < len(names):
        raise InputError(
            f"{path} must have a different name on every line, with three numbers of a colour "
            "before each of them or before none"
        )
    return Legend(tuple(names), tuple(colours))


def fitted(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """A mask cut around the centre and scaled as its picture is, by the nearest pixel."""
    tall, wide = values.shape
    if (tall, wide) == (height, width):
        return values
    scale = min(wide / width, tall / height)
    rows = (tall - scale * height) / 2 + scale * (np.arange(height) + 0.5)
    columns = (wide - scale * width) / 2 + scale * (np.arange(width) + 0.5)
    rows = np.clip(rows.astype(int), 0, tall - 1)
    columns = np.clip(columns.astype(int), 0, wide - 1)
    return values[rows[:, None], columns]


def _values(path: Path) -> tuple[np.ndarray, str]:
    """The numbers of a file, and what they are in words."""
    ending = path.suffix.lower()
    if ending in (".npy", ".npz"):
        if ending == ".npy":
            found = read_npy(path, remedy="save it again")
        else:
            arrays = read_npz(path, problem="cannot be read", remedy="save it again")
            named = [name for name in _ARRAYS if name in arrays] or list(arrays)[:1]
            found = arrays[named[0]]
        found = np.squeeze(found)
        if found.dtype.kind not in "biuf":
            raise InputError(f"{path} holds {found.dtype}; a mask or depth holds numbers")
        return found, "F" if found.dtype.kind == "f" else "whole"
    contents = read_bytes(path, MOST_FILE)
    refused = damage(path, "save it again", problem="is not a readable mask")
    with refused, pillow().open(io.BytesIO(contents), formats=FORMATS) as mask:
        if mask.width * mask.height > MOST_PIXELS:
            raise ValueError(f"it has {mask.width} by {mask.height} pixels")
        mode = mask.mode
        shown: Any = mask if mode in (*_WHOLE_MODES, "F") else mask.convert("RGB")
        return np.asarray(shown), mode


def _by_colour(values: np.ndarray, colours: tuple, path: Path) -> np.ndarray:
    number = lambda c: (c[..., 0] * 256 + c[..., 1]) * 256 + c[..., 2]  # noqa: E731
    codes, known = number(values.astype(np.int64)), number(np.asarray(colours, np.int64))
    order = np.argsort(known)
    place = np.minimum(np.searchsorted(known[order], codes), len(known) - 1)
    label = order[place]
    odd = known[label] != codes
    if odd.any():
        colour = tuple(values[odd][0].tolist())
        raise InputError(f"{path} has the colour {colour}, which no class has; add it to the file")
    return label.astype(np.int32)
