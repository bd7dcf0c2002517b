"""Rows of a user's own divided into training, validation and test rows by fixed seeds."""

import warnings
from collections.abc import Sequence

import numpy as np

from credax.data.dataset import Dataset, Split, Task
from credax.data.holdout import hold_out, rows_held


def divide(
    y: np.ndarray,
    task: Task,
    classes: Sequence[str] = (),
    *,
    given: dict[str, np.ndarray] | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    train_rows: int | None = None,
    test_rows: int | None = None,
    validation: float = 0.0,
) -> dict[str, np.ndarray]:
    """Positions of the rows of each split; classes in proportion.

    ``given`` are positions that are divided already, at least those to train; a test split that is
    not among them is held out of the training rows, and so is a share ``validation``.

    >>> parts = divide(np.array([0, 1] * 10), "classification", validation=0.25)
    >>> {name: len(rows) for name, rows in parts.items()}
    {'train': 12, 'test': 4, 'validation': 4}
    """
    parts = dict(given or {"train": np.arange(len(y))})
    if "test" not in parts:
        own = parts["train"]
        count = rows_held(len(own), test_fraction)
        held = hold_out(y[own], count, stratify=task == "classification", seed=seed)
        parts |= {"train": own[~held], "test": own[held]}
    splits = {name: Split(rows[:, None], y[rows]) for name, rows in parts.items()}
    rows = Dataset("", splits["train"], splits["test"], splits.get("validation"), task)
    rows = rows.subset(train_rows, test_rows).with_validation(validation)
    seen = set(np.unique(rows.train.y).tolist()) if task == "classification" else set()
    lost = [name for label, name in enumerate(classes) if label not in seen]
    if lost and task == "classification":
        warnings.warn(
            f"no training row has the class {lost[0]!r} ({len(lost)} such classes): too few rows "
            "have it to be in every split",
            stacklevel=5,
        )
    found = {"train": rows.train, "test": rows.test, "validation": rows.validation}
    return {name: split.x[:, 0] for name, split in found.items() if split is not None}
