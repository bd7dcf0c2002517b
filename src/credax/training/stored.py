"""Rows that a run keeps: a sample of its test rows for figures, digests of its training rows."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from credax.data.dataset import Split
from credax.data.rows import row_digests
from credax.data.tasks import Tasks, tasks_of
from credax.errors import DamagedFile
from credax.files import load_arrays, save_tree
from credax.reading import check_record
from credax.reading.records import TEXT, WHOLE

FILE = "rows.safetensors"
SAMPLE_ROWS = 2000
SAMPLE_BYTES = 4 * 2**20
MOST_DIGESTS = 2**20


class StoredRows(NamedTuple):
    """What `keep_rows` kept. ``test`` is in raw units; ``train`` are `row_digests`."""

    test: Split | None
    whole: bool
    """Whether ``test`` are all test rows there were."""
    train: np.ndarray | None


def keep_rows(folder: Path, train: Split, test: Split | None) -> None:
    """Keep all test rows, or as many as fit in 4 MiB, and digests of at most a million rows."""
    arrays: dict[str, Any] = {}
    if len(train) <= MOST_DIGESTS:
        arrays["train"] = row_digests(train)
    total = 0 if test is None else len(test)
    if test is not None and total:
        each = max(1, test.x.nbytes // total)
        count = max(1, min(total, SAMPLE_ROWS, SAMPLE_BYTES // each))
        chosen = np.sort(np.random.default_rng(0).permutation(total)[:count])
        arrays |= {"x": np.asarray(test.x[chosen]), "y": np.asarray(test.y[chosen])}
        if test.tasks is not None:  # a file holds finite numbers only
            tasks = tasks_of(test[chosen])
            arrays |= {"y": np.nan_to_num(tasks.y), "mask": tasks.mask}
        if test.pixels is not None and test.y.dtype.kind == "f":
            known = np.isfinite(arrays["y"])
            arrays |= {"y": np.where(known, arrays["y"], 0), "known": known}
    save_tree(folder / FILE, arrays, {"kind": "rows", "test_rows": total})


def stored_rows(folder: Path) -> StoredRows:
    """What `keep_rows` kept in a run; nothing, where the run is older than that."""
    if not (folder / FILE).exists():
        return StoredRows(None, False, None)
    arrays, metadata = load_arrays(folder / FILE)
    check_record(metadata, {"kind": TEXT, "test_rows": WHOLE}, folder / FILE)
    _check_arrays(arrays, folder / FILE)
    test = Split(arrays["x"], arrays["y"]) if "x" in arrays else None
    if test is not None and "known" in arrays:
        test = Split(test.x, np.where(arrays["known"], test.y, np.nan).astype(test.y.dtype))
    if test is not None and "mask" in arrays:
        test = Tasks(test.x, test.y, arrays["mask"]).split()
    whole = test is not None and len(test) == metadata["test_rows"]
    return StoredRows(test, whole, arrays.get("train"))


def _check_arrays(arrays: dict[str, np.ndarray], path: Path) -> None:
    """Refuse arrays that are not rows with their targets, and digests."""
    x, y, train = (arrays.get(name) for name in ("x", "y", "train"))
    rows = (x is None) == (y is None)
    if x is not None and y is not None:
        rows = x.ndim >= 2 and y.ndim in (1, 2, 3, 4) and len(x) == len(y) > 0
    mask = arrays.get("mask")
    if mask is not None:
        rows &= x is not None and x.ndim == 3 and mask.shape == x.shape[:2]
        rows &= mask.dtype == bool and y is not None and y.shape[:2] == mask.shape
    known = arrays.get("known")
    if known is not None:
        rows &= y is not None and known.shape == y.shape and known.dtype == bool
    if (
        not rows
        or set(arrays) - {"x", "y", "train", "mask", "known"}
        or (train is not None and train.ndim < 1)
    ):
        raise DamagedFile(f"{path} does not hold the rows of a run; restore it from a copy")
