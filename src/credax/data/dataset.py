"""Named arrays in splits, with the units the network should see."""

import dataclasses
import textwrap
from dataclasses import dataclass
from typing import Literal

import numpy as np

from credax.data.pixel_form import PixelForm
from credax.data.prepared import Preparation
from credax.data.task_form import TaskForm
from credax.errors import InputError
from credax.standardise import Standardise

Task = Literal["classification", "regression"]


@dataclass(frozen=True, repr=False)
class Split:
    """Inputs ``x`` and targets ``y``, row by row, in raw units (uint8 pixels stay uint8).

    ``inputs`` and ``targets`` say how to standardise them; `credax.fit` hands both to the problem,
    so training, prediction and metrics all use raw units. ``x`` may be a ``numpy.memmap``: it is
    then streamed from disk.
    """

    x: np.ndarray
    y: np.ndarray
    inputs: Standardise | None = None
    targets: Standardise | None = None
    tasks: TaskForm | None = None
    """Where every row is a task, a set of points: what is known of them (`credax.data.Tasks`)."""
    pixels: PixelForm | None = None
    """Where every pixel of a row has a target, ``y`` of ``[rows, height, width]``: what is known
    of them."""

    def __post_init__(self):
        if len(self.x) != len(self.y):
            raise InputError(
                f"x has {len(self.x)} rows and y has {len(self.y)}; give one target per row"
            )

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        x, y = (f"{a.dtype}{list(a.shape)}" for a in (self.x, self.y))
        return f"Split({len(self)} rows, x {x}, y {y})"

    def __getitem__(self, rows) -> "Split":
        """Some rows, in the same units."""
        rows = slice(rows, rows + 1) if isinstance(rows, int) else rows
        return dataclasses.replace(self, x=self.x[rows], y=self.y[rows])


@dataclass(frozen=True, repr=False)
class Dataset:
    """A named data set: ``train``, ``test`` and, where there is one, ``validation``."""

    name: str
    train: Split
    test: Split
    validation: Split | None = None
    task: Task = "classification"
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    """Names of the input columns, where inputs are rows of a table with a header."""
    target_names: tuple[str, ...] = ()
    """Names of the target columns, where there are any."""
    path: str = ""
    """The file or folder of a user's own that the rows were read from, where there is one."""
    preparation: Preparation | None = None
    """How raw rows became inputs, to be applied to new ones; None where they are the inputs."""

    def __repr__(self) -> str:
        """One paragraph: rows, inputs and what is predicted.

        >>> import credax as cx
        >>> print(cx.data.load("toy/two-moons", train=40, test=20))
        toy/two-moons: classification with 40 training and 20 test rows. Inputs are float32 of shape
        (2,). Classes (2): 0, 1.
        """
        parts = {"training": self.train, "validation": self.validation, "test": self.test}
        counts = [f"{len(part)} {name}" for name, part in parts.items() if part is not None]
        rows = " and ".join(", ".join(counts).rsplit(", ", 1))
        inputs = f"Inputs are {self.train.x.dtype} of shape {self.input_shape}"
        columns = f": {_few(self.feature_names)}." if self.feature_names else "."
        if self.task == "classification":
            names = self.class_names or tuple(map(str, range(self.num_classes)))
            predicted = f"Classes ({len(names)}): {_few(names)}."
        else:
            name = f" ({_few(self.target_names)})" if self.target_names else ""
            predicted = f"Targets: {self.num_targets}{name}."
        unit = "rows" if self.train.tasks is None else "tasks"
        unit = unit if self.train.pixels is None else "pictures"
        text = f"{self.name}: {self.kind} with {rows} {unit}. {inputs}{columns} {predicted}"
        return textwrap.fill(text, 100)

    @property
    def kind(self) -> str:
        """The task in words: of pixels, segmentation or pixel-regression."""
        if self.train.pixels is None:
            return self.task
        return "segmentation" if self.task == "classification" else "pixel-regression"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input, without the batch axis."""
        return tuple(self.train.x.shape[1:])

    @property
    def num_classes(self) -> int:
        """Number of classes (classification only)."""
        if self.task != "classification":
            raise InputError(f"data set {self.name!r} is for regression and has no classes")
        return len(self.class_names) or int(self.train.y.max()) + 1

    @property
    def num_targets(self) -> int:
        """Number of regression targets per row, or per point of a task."""
        axes = 1 if self.train.tasks is None else 2
        axes = axes if self.train.pixels is None else 3
        return int(np.prod(self.train.y.shape[axes:], dtype=int))

    def with_validation(self, fraction: float, seed: int = 0) -> "Dataset":
        """Hold out a share of the training rows (stratified by class) as the validation split."""
        if self.validation is not None or fraction == 0:
            return self
        if not 0 < fraction < 1:
            raise InputError(
                f"validation is {fraction}; give a share of the training rows in [0, 1)"
            )
        whole = self.train.tasks is None and self.train.pixels is None
        stratify = self.task == "classification" and whole
        held = _held_out(self.train.y, fraction, stratify, seed)
        if held.all() or not held.any():
            raise InputError(
                f"validation is {fraction}, which leaves no rows on one side of "
                f"{len(self.train)} training rows; choose a share nearer to 0.1, or 0 for none"
            )
        return dataclasses.replace(self, train=self.train[~held], validation=self.train[held])

    def subset(self, train: int | None = None, test: int | None = None, seed: int = 0) -> "Dataset":
        """The first rows of a fixed random order of each split, for quick runs."""
        return dataclasses.replace(
            self, train=_shuffled(self.train, train, seed), test=_shuffled(self.test, test, seed)
        )


def _few(names: tuple[str, ...], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _shuffled(split: Split, rows: int | None, seed: int) -> Split:
    if rows is None or rows >= len(split):
        return split
    return split[np.sort(np.random.default_rng(seed).permutation(len(split))[:rows])]


def _held_out(y: np.ndarray, fraction: float, stratify: bool, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    held = np.zeros(len(y), bool)
    groups = [np.flatnonzero(y == c) for c in np.unique(y)] if stratify else [np.arange(len(y))]
    for rows in groups:
        held[rng.permutation(rows)[: round(fraction * len(rows))]] = True
    return held
