"""What a run keeps of its data beside the rows: names, shapes, digests."""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from credax.data.dataset import Dataset, Split, Task
from credax.data.rows import fingerprint
from credax.errors import InputError
from credax.reading import check_settings

SPLITS = ("train", "validation", "test")
DIGESTED = ("count", "shape", "digest")


@dataclass(frozen=True)
class About:
    """Names and digests of a data set, as plain data.

    ``rows`` holds the `fingerprint` of each split, ``classes`` the rows of each class by split.
    """

    name: str = ""
    task: Task = "classification"
    input_shape: tuple[int, ...] = ()
    input_dtype: str = "float32"
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    target_names: tuple[str, ...] = ()
    path: str = ""
    """The file the rows were read from, where they came from one."""
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    classes: dict[str, list[int]] = field(default_factory=dict)
    preparation: dict[str, Any] = field(default_factory=dict)
    """How raw rows became inputs, as plain data; see `credax.data.preparation.read_preparation`."""

    @classmethod
    def of(cls, data: Dataset) -> "About":
        """What is to be known of a data set."""
        splits = {name: getattr(data, name) for name in SPLITS}
        rows = {name: fingerprint(s) for name, s in splits.items() if s is not None and len(s)}
        classes = {}
        if data.task == "classification" and data.train.tasks is None:
            count = data.num_classes
            classes = {n: np.bincount(_labels(splits[n]), minlength=count).tolist() for n in rows}
        return cls(
            data.name,
            data.task,
            data.input_shape,
            str(data.train.x.dtype),
            data.class_names,
            data.feature_names,
            data.target_names,
            data.path,
            rows,
            classes,
            {} if data.preparation is None else json.loads(json.dumps(data.preparation.to_json())),
        )

    @classmethod
    def of_rows(cls, train: Split, validation: Split | None, task: Task) -> "About":
        """What is to be known of rows that nobody named."""
        splits = {"train": train, "validation": validation}
        rows = {name: fingerprint(s) for name, s in splits.items() if s is not None}
        shape = tuple(train.x.shape[1:])
        return cls("", task, shape, str(train.x.dtype), rows=rows)

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any], where: Any = "the data set") -> "About":
        """What `to_json` gave; unknown entries are left alone."""
        names = {f.name for f in dataclasses.fields(cls)}
        check_settings(cls, {n: v for n, v in content.items() if n in names}, where)
        tuples = {"input_shape", "class_names", "feature_names", "target_names"}
        known: Any = {n: tuple(v) if n in tuples else v for n, v in content.items() if n in names}
        return cls(**known)

    def difference(self, data: Dataset, splits: tuple[str, ...] = SPLITS) -> str | None:
        """In words, what of these splits is no longer as it was; None where all is."""
        if self.name and data.class_names != self.class_names:
            return f"its classes were {_few(self.class_names)} and are {_few(data.class_names)}"
        if self.feature_names and data.feature_names != self.feature_names:
            return f"its columns were {_few(self.feature_names)} and are {_few(data.feature_names)}"
        for name in splits:
            split, old = getattr(data, name), self.rows.get(name)
            if old is None or split is None:
                continue
            new = fingerprint(split)
            if any(old.get(entry) != new[entry] for entry in DIGESTED):
                same = old.get("count") == new["count"]
                how = "other values" if same else f"{old.get('count')} then, {new['count']} now"
                return f"its {name} rows are others ({how})"
        return None

    def refuse_changed(self, data: Dataset, run: Any, splits: tuple[str, ...] = SPLITS) -> None:
        """Raise an error if the data is not what the run was made with."""
        found = self.difference(data, splits)
        if found is not None:
            raise InputError(
                f"{data.name} is not as it was when the run in {run} was trained: {found}; restore "
                "it, or name other rows with --data, or use the rows kept in the run with --stored"
            )


def _labels(split: Split) -> np.ndarray:
    """Labels of the rows, or of the pixels that count."""
    return split.y if split.pixels is None else split.y[split.pixels.counts(split.y)]


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "") if names else "not named"
