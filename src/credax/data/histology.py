"""Tiles of tissue: NCT-CRC-HE-100K and its companions, from their published folders.

J. N. Kather, N. Halama, A. Marx: 100,000 histological images of human colorectal cancer and healthy
tissue, Zenodo record 1214456, 2018 (CC BY 4.0). 224 by 224 pixels, nine classes.
"""

from pathlib import Path

import numpy as np

from credax.data import images
from credax.data.dataset import Dataset, Split
from credax.errors import InputError
from credax.reading import read_bytes
from credax.standardise import Standardise

CLASSES = ("ADI", "BACK", "DEB", "LYM", "MUC", "MUS", "NORM", "STR", "TUM")
SIDE = 224
MOST_TILE = 2**24
"""Bytes of one tile's file; a published one has 150 000."""


def load_histology(
    folder: str | Path, *, size: int = 32, per_class: int | None = None, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Images ``[rows, size, size, 3]`` (float32, 0 to 255) and labels by the alphabet.

    ``folder`` holds ``CLASS/*.tif`` or flat ``CLASS-NAME.tif``. Images are reduced by means of
    square blocks, which commutes with quarter turns; ``size`` must divide 224. ``per_class`` draws
    so many of each class.
    """
    folder = Path(folder)
    if SIDE % size:
        raise InputError(f"size is {size}; it must divide {SIDE}, such as 32 or 56")
    found = {name: _files(folder, name) for name in CLASSES}
    if not any(found.values()):
        raise InputError(
            f"{folder} holds no tiles; unpack NCT-CRC-HE-100K (Zenodo record 1214456) so that it "
            "holds ADI/*.tif, BACK/*.tif, ... or ADI-*.tif, ..."
        )
    rng = np.random.default_rng(seed)
    pictures, labels = [], []
    for label, name in enumerate(CLASSES):
        paths = found[name]
        if per_class is not None and len(paths) > per_class:
            paths = [paths[i] for i in np.sort(rng.permutation(len(paths))[:per_class])]
        pictures += [read_tile(path, size) for path in paths]
        labels += [label] * len(paths)
    return np.stack(pictures), np.array(labels)


def read_tile(path: str | Path, size: int) -> np.ndarray:
    """One image, reduced to ``size`` by ``size`` by the means of square blocks."""
    contents = read_bytes(path, MOST_TILE)
    pixels = images.decode(contents, str(path), formats=("TIFF",)).astype(np.float32)
    if pixels.shape[0] != pixels.shape[1] or pixels.shape[0] % size:
        raise InputError(
            f"{path} has {pixels.shape[0]} by {pixels.shape[1]} pixels; tiles are squares whose "
            f"side {size} divides"
        )
    block = pixels.shape[0] // size
    return pixels.reshape(size, block, size, block, 3).mean((1, 3))


def histology(
    folder: str | Path, *, size: int = 32, train: int = 200, test: int = 100, seed: int = 0
) -> Dataset:
    """A data set of so many training and test tiles per class, in one unit for all pixels."""
    x, y = load_histology(folder, size=size, per_class=train + test, seed=seed)
    rng = np.random.default_rng(seed)
    held = np.zeros(len(y), bool)
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        if len(rows) < 2:
            raise InputError(
                f"{folder} holds {len(rows)} tile of class {CLASSES[label]}; training and test "
                "need at least 2 of every class: unpack the whole set"
            )
        # Too few tiles are shared out in the same proportion, at least one to each side.
        count = round(len(rows) * test / (train + test))
        held[rows[: min(max(count, 1), len(rows) - 1)]] = True
    units = Standardise(float(x.mean()), float(x.std()))
    train_rows, test_rows = (Split(x[rows], y[rows], units) for rows in (~held, held))
    return Dataset("NCT-CRC-HE", train_rows, test_rows, class_names=CLASSES)


def _files(folder: Path, name: str) -> list[Path]:
    inside = sorted((folder / name).glob("*.tif"))
    return inside or sorted(folder.glob(f"{name}-*.tif"))
