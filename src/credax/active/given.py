"""What users hand to `credax.active.run` as data, taken apart: pool, oracle, rows that measure."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from credax.active.oracle import DatasetLabels, Oracle
from credax.active.pool import check_pool
from credax.data.dataset import Dataset, Split
from credax.errors import InputError
from credax.training.given import training_rows


@dataclass(frozen=True)
class Pool:
    """Inputs that may be bought, without labels, and the units the network sees."""

    x: np.ndarray
    inputs: Any = None
    scaled_targets: bool = False
    """Whether targets are standardised, by the labels that were bought."""

    def __len__(self) -> int:
        return len(self.x)


@dataclass(frozen=True)
class Given:
    """The pool, who labels it, and rows that are never bought."""

    pool: Pool
    oracle: Oracle
    task: str
    test: Split | None = None
    validation: Split | None = None
    about: Dataset | None = None


def given_data(data: Any, oracle: Oracle | None, task: str) -> Given:
    """The parts of a data set, of rows ``(x, y)``, or of inputs alone with an oracle."""
    if isinstance(data, np.ndarray):
        if oracle is None:
            raise InputError(
                "data is an array of inputs and oracle is missing; give oracle=function, which "
                "labels rows by their numbers, or rows (x, y)"
            )
        return Given(Pool(check_pool(data)), oracle, task)
    if isinstance(data, Dataset) and data.task != task:
        raise InputError(f"data is for {data.task} and the problem's likelihood for {task}")
    rows = training_rows(data)
    pool = Pool(check_pool(rows.x), rows.inputs, rows.targets is not None)
    oracle = DatasetLabels(rows.y) if oracle is None else oracle
    if not isinstance(data, Dataset):
        return Given(pool, oracle, task)
    test = data.test if len(data.test) else None
    return Given(pool, oracle, task, test, data.validation, _without_rows(data))


def _without_rows(data: Dataset) -> Dataset:
    """Names and preparation of a data set; the labels of its pool stay behind."""
    return Dataset(
        data.name,
        data.test[:0],
        data.test[:0],
        None,
        data.task,
        data.class_names,
        data.feature_names,
        data.target_names,
        data.path,
        data.preparation,
    )
