"""Rows larger than memory: folders of mapped ``.npy`` files, and Parquet turned into one."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

from credax import reading
from credax.data.arrays import PARTS, check_task, few_values
from credax.data.checks import as_float32, as_labels
from credax.data.dataset import Dataset, Split, Task
from credax.data.holdout import rows_held
from credax.errors import InputError
from credax.reading.columnar import Batches, column_batches
from credax.standardise import Standardise

FIRST = "x_train.npy"
BLOCK_BYTES = 2**26
BATCH_ROWS = 2**16


def is_mapped_folder(folder: Path) -> bool:
    """Whether a folder holds arrays rather than pictures."""
    return (folder / FIRST).is_file()


def read_mapped(
    folder: str | os.PathLike[str], *, split: int | None = None, task: Task | None = None
) -> Dataset:
    """A data set whose inputs stay in ``x_train.npy`` and ``x_test.npy`` and are read when used.

    ``y_train.npy`` and ``y_test.npy`` are read at once; ``x_validation.npy`` and
    ``y_validation.npy`` may be there. Inputs are float32 or bytes, rows first; targets as in
    `credax.data.arrays.read_npz`. Memory: the targets, and 64 MB of inputs.
    """
    folder = Path(folder)
    if split is not None:
        raise InputError(f"split is {split}, but {folder} brings its own splits; leave split out")
    parts = {name: _part(folder, name) for name in PARTS if (folder / f"x_{name}.npy").is_file()}
    if "test" not in parts:
        raise InputError(f"{folder} has {FIRST} and no x_test.npy; give rows to test on")
    train_x, train_y = parts["train"]
    integers = train_y.dtype.kind in "iub"
    few = integers and train_y.ndim == 1 and few_values(len(np.unique(train_y)), len(train_y))
    task = check_task(task) or ("classification" if few else "regression")
    names: tuple[str, ...] = ()
    if task == "classification":
        parts = {p: (x, as_labels(y, f"{folder}/y_{p}.npy")) for p, (x, y) in parts.items()}
        names = tuple(map(str, range(1 + max(int(y.max(initial=0)) for _, y in parts.values()))))
    else:
        parts = {p: (x, as_float32(y)) for p, (x, y) in parts.items()}
    inputs = block_units(train_x)
    outputs = Standardise.of(parts["train"][1]) if task == "regression" else None
    splits = {p: Split(x, y, inputs, outputs) for p, (x, y) in parts.items()}
    validation = splits.get("validation")
    return Dataset(folder.name, splits["train"], splits["test"], validation, task, names)


def _part(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    x = reading.read_npy(folder / f"x_{name}.npy", mapped=True)
    y = reading.read_npy(folder / f"y_{name}.npy")
    if x.dtype not in (np.float32, np.uint8):
        raise InputError(
            f"{folder}/x_{name}.npy has type {x.dtype}, which would be converted in memory; write "
            "float32, or uint8 for pictures"
        )
    if x.ndim < 2 or len(x) != len(y) or not len(x):
        raise InputError(
            f"{folder}: x_{name}.npy has shape {x.shape} and y_{name}.npy {y.shape}; give rows "
            "first and one target per row"
        )
    return x, y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


def block_units(x: np.ndarray) -> Standardise:
    """`Standardise.of` block by block: ``Σx`` first, then ``Σ(x - mean)²``, in float64."""
    axes = {2: (0,), 4: (0, 1, 2)}.get(x.ndim, tuple(range(x.ndim)))
    rows = max(1, BLOCK_BYTES // max(1, x[:1].nbytes))
    blocks = [slice(start, start + rows) for start in range(0, len(x), rows)]
    count = np.prod([x.shape[axis] for axis in axes])
    with np.errstate(invalid="ignore", over="ignore"):  # reported by row when the set is checked
        mean = sum(np.sum(x[block], axis=axes, dtype=np.float64) for block in blocks) / count
        square = sum(np.sum((x[block] - mean) ** 2, axis=axes) for block in blocks)
        deviation = np.sqrt(square / count)
    return Standardise(mean, np.where(deviation > 0, deviation, 1.0))


def store_parquet(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    target: str,
    ignore: Sequence[str] = (),
    test_fraction: float = 0.2,
    seed: int = 0,
) -> Path:
    """Turn a Parquet file of numbers into a folder for `read_mapped`, one batch of rows at a time.

    Args:
        path: the file; all columns but ``ignore`` are numbers.
        folder: where the arrays go; new or empty.
        target: the column to predict.
        ignore: columns to leave out.
        test_fraction: share of the rows held out for testing, at random.
        seed: of which rows those are.
    """
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} holds other files; choose an empty or new folder")
    with column_batches(path, BATCH_ROWS) as (rows, names, batches):
        odd = [name for name in (target, *ignore) if name not in names]
        if odd:
            raise InputError(f"{path} has no column {odd[0]!r}; it has {', '.join(names[:8])}")
        features = [name for name in names if name not in (target, *ignore)]
        held = np.zeros(rows, bool)
        chosen = np.random.default_rng(seed).permutation(rows)[: rows_held(rows, test_fraction)]
        held[chosen] = True
        _store(folder, _blocks(batches, features, target, path), held, len(features))
    return folder


def _blocks(
    batches: Batches, features: list[str], target: str, path: object
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Inputs and targets of each batch."""
    for batch in batches:
        x = np.stack([_numbers(batch[name], name, path) for name in features], 1)
        yield as_float32(x), _numbers(batch[target], target, path)


def _store(
    folder: Path, blocks: Iterator[tuple[np.ndarray, np.ndarray]], held: np.ndarray, width: int
) -> None:
    """Write each row into the arrays of its part, in order; those ``held`` are test rows."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = {"train": int((~held).sum()), "test": int(held.sum())}
    x = {
        name: open_memmap(folder / f".x_{name}.npy", "w+", np.float32, (count, width))
        for name, count in counts.items()
    }
    y: dict[str, list[np.ndarray]] = {name: [] for name in counts}
    done, start = dict.fromkeys(counts, 0), 0
    for block, answers in blocks:
        own = held[start : start + len(block)]
        for name, rows in (("train", ~own), ("test", own)):
            count = int(rows.sum())
            x[name][done[name] : done[name] + count] = block[rows]
            y[name].append(answers[rows])
            done[name] += count
        start += len(block)
    for name in ("test", "train"):  # x_train.npy last: with it the folder is whole
        x[name].flush()
        np.save(folder / f"y_{name}.npy", np.concatenate(y[name]))
        os.replace(folder / f".x_{name}.npy", folder / f"x_{name}.npy")


def _numbers(column: np.ndarray, name: str, path: object) -> np.ndarray:
    if column.dtype.kind not in "biuf":
        raise InputError(f"{path}: column {name!r} has type {column.dtype}; ignore it")
    return column
