"""Sets of tasks: every row of the data is a set of points of one function."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from credax.data.dataset import Dataset, Split, Task
from credax.data.holdout import hold_out, rows_held
from credax.data.task_form import TaskForm
from credax.errors import InputError
from credax.standardise import Standardise


@dataclass(frozen=True, repr=False)
class Tasks:
    """Points of many tasks, padded to the largest: inputs, values, and which are there.

    ``y`` are numbers ``[tasks, points]`` or ``[tasks, points, targets]``, or whole numbers: class
    labels. Padded points have ``mask`` False; what stands there is never used.

    >>> tasks = Tasks.of([np.zeros((3, 1)), np.ones((2, 1))], [np.arange(3.0), np.arange(2.0)])
    >>> tasks.x.shape, tasks.sizes.tolist()
    ((2, 3, 1), [3, 2])
    """

    x: np.ndarray
    """``[tasks, points, columns]``."""
    y: np.ndarray
    mask: np.ndarray
    """``[tasks, points]``."""

    def __post_init__(self):
        x, y, mask = (np.asarray(a) for a in (self.x, self.y, self.mask))
        if x.ndim != 3 or y.shape[:2] != x.shape[:2] or mask.shape != x.shape[:2] or y.ndim > 3:
            raise InputError(
                f"x has shape {x.shape}, y {y.shape} and mask {mask.shape}; give [tasks, points, "
                "columns], [tasks, points] and [tasks, points]"
            )
        if not len(x):
            raise InputError("x has no tasks; give at least one")
        mask = mask.astype(bool)
        bare = ~mask.any(axis=1)
        if bare.any():
            raise InputError(
                f"task {int(np.argmax(bare))} has no points ({int(bare.sum())} such tasks); leave "
                "it out, or give it points"
            )
        labels = y.dtype.kind in "iub"
        wide = mask if y.ndim == 2 else mask[..., None]
        with np.errstate(over="ignore"):
            x = np.where(mask[..., None], x, 0).astype(np.float32)
            y = np.where(wide, y, -1 if labels else np.nan)
            y = y.astype(np.int32 if labels else np.float32)
        self._refuse_bad(x, y, mask, labels)
        for name, value in (("x", x), ("y", y), ("mask", mask)):
            object.__setattr__(self, name, value)

    @staticmethod
    def _refuse_bad(x: np.ndarray, y: np.ndarray, mask: np.ndarray, labels: bool) -> None:
        values = (y >= 0) if labels else np.isfinite(y)
        fine = {"x": np.isfinite(x).all(axis=-1), "y": values if y.ndim == 2 else values.all(-1)}
        for name, good in fine.items():
            bad = mask & ~good
            if bad.any():
                task, point = np.argwhere(bad)[0]
                what = "a negative label" if labels and name == "y" else "NaN or infinity"
                raise InputError(
                    f"{name} holds {what} at point {point} of task {task}; clean or drop it"
                )

    @classmethod
    def of(cls, x: Sequence[Any], y: Sequence[Any]) -> "Tasks":
        """Tasks of different sizes: one array ``[points, columns]`` and one ``[points]`` each."""
        if len(x) != len(y) or not len(x):
            raise InputError(f"x has {len(x)} tasks and y has {len(y)}; give as many, at least one")
        inputs = [np.asarray(one) for one in x]
        inputs = [one[:, None] if one.ndim == 1 else one for one in inputs]
        values = [np.asarray(one) for one in y]
        for i, (a, b) in enumerate(zip(inputs, values, strict=True)):
            if a.ndim != 2 or len(a) != len(b) or b.ndim not in (1, 2):
                raise InputError(
                    f"task {i} has x of shape {a.shape} and y of shape {b.shape}; give [points, "
                    "columns] and [points]"
                )
            if a.shape[1:] != inputs[0].shape[1:] or b.shape[1:] != values[0].shape[1:]:
                raise InputError(
                    f"task {i} has inputs of {a.shape[1]} columns and task 0 of "
                    f"{inputs[0].shape[1]}; give all tasks the same columns and targets"
                )
        most = max(map(len, inputs))
        kind = np.result_type(*values)
        whole_x = np.zeros((len(inputs), max(most, 1), inputs[0].shape[1]))
        whole_y = np.zeros((len(inputs), max(most, 1), *values[0].shape[1:]), kind)
        mask = np.zeros(whole_x.shape[:2], bool)
        for i, (a, b) in enumerate(zip(inputs, values, strict=True)):
            whole_x[i, : len(a)], whole_y[i, : len(b)], mask[i, : len(a)] = a, b, True
        return cls(whole_x, whole_y, mask)

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        sizes = self.sizes
        return f"Tasks({len(self)} tasks of {sizes.min()} to {sizes.max()} points)"

    def __getitem__(self, rows) -> "Tasks":
        """Some tasks."""
        rows = slice(rows, rows + 1) if isinstance(rows, int) else rows
        return dataclasses.replace(self, x=self.x[rows], y=self.y[rows], mask=self.mask[rows])

    @property
    def sizes(self) -> np.ndarray:
        """Points of each task."""
        return self.mask.sum(axis=1)

    def split(
        self,
        form: TaskForm | None = None,
        inputs: Standardise | None = None,
        targets: Standardise | None = None,
    ) -> Split:
        """Rows for `credax.fit`, one for each task; padded values are NaN, padded labels -1."""
        return Split(self.x, self.y, inputs, targets, form or TaskForm())

    def units(self) -> tuple[Standardise, Standardise | None]:
        """Means and deviations of the inputs, and of values that are numbers."""
        x, y = self.x[self.mask], self.y[self.mask]
        return Standardise.of(x), None if y.dtype.kind in "iu" else Standardise.of(y)


def tasks_of(split: Split) -> Tasks:
    """The tasks in rows that `Tasks.split` gave."""
    y = np.asarray(split.y)
    there = y >= 0 if y.dtype.kind in "iu" else ~np.isnan(y)
    there = np.asarray(there)
    return Tasks(np.asarray(split.x), y, there if y.ndim == 2 else np.all(there, axis=-1))


def task_dataset(
    name: str,
    train: Tasks,
    test: Tasks | None = None,
    *,
    form: TaskForm | None = None,
    standardise: bool = True,
    test_fraction: float = 0.2,
    seed: int = 0,
    class_names: tuple[str, ...] = (),
    target_names: tuple[str, ...] = (),
) -> Dataset:
    """A data set of tasks; without ``test`` a share of the tasks is held out by the seed.

    ``standardise`` by the points of all training tasks.
    """
    if test is None:
        count = rows_held(len(train), test_fraction)
        held = hold_out(np.zeros(len(train)), count, stratify=False, seed=seed)
        train, test = train[~held], train[held]
    inputs, targets = train.units() if standardise else (None, None)
    form = form or TaskForm()
    labels = train.y.dtype.kind in "iu"
    task: Task = "classification" if labels else "regression"
    if labels and not class_names:
        most = max(int(train.y.max()), int(test.y.max()))
        class_names = tuple(map(str, range(max(2, most + 1))))
    parts = [part.split(form, inputs, targets) for part in (train, test)]
    return Dataset(
        name,
        *parts,
        task=task,
        class_names=class_names,
        target_names=target_names,
        preparation=form,
    )
