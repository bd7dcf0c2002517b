"""The targets of a table: classes by name, or numbers; and which task that makes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from credax.data.arrays import few_values
from credax.data.cells import is_number
from credax.data.dataset import Task
from credax.data.frame import Frame, Series
from credax.data.parsing import NO_LABEL, number_name, plain_text
from credax.data.values import numbers_of
from credax.errors import InputError

LOST = 1e-3
"""Share of a target's deviation that rounding to float32 may cost before it is refused."""


class Targets(NamedTuple):
    """Labels (int32) with the names of their classes, or numbers (float32) without."""

    y: np.ndarray
    classes: tuple[str, ...]
    task: Task
    why: str
    """How the task was chosen, in words."""


def targets_of(frame: Frame, names: Sequence[str], task: Task | None) -> Targets:
    """The targets of all rows; several are numbers of one regression."""
    if len(names) == 1:
        return _one(frame[names[0]], frame, task)
    if task == "classification":
        raise InputError(
            f"target names {len(names)} columns, which is for regression; name one to classify"
        )
    found = [_numbers(frame[name], frame, None) for name in names]
    why = f"regression of {len(names)} targets at once"
    return Targets(np.stack(found, axis=1), (), "regression", why)


def _one(series: Series, frame: Frame, task: Task | None) -> Targets:
    _refuse_missing(series, frame)
    if series.stored == "date":
        raise InputError(
            f"{frame.where}: the target {series.name!r} holds dates; give numbers, such as days "
            "since some date, or classes"
        )
    texts = series.texts()
    numeric = np.array([is_number(text) for text in texts])
    if task == "regression":
        why = _why("regression", True, "")
        return Targets(_numbers(series, frame, task), (), "regression", why)
    if numeric.all():
        return _of_numbers(series, frame, task)
    if task is None and numeric.any():
        _numbers(series, frame, task)  # an error that names the first text among numbers
    if task is None and 2 * len(set(texts)) > len(texts):
        raise InputError(
            f"{frame.where}: the target {series.name!r} has {len(set(texts))} different texts in "
            f"{len(texts)} rows; name another target, or say task='classification'"
        )
    return _classes([plain_text(t) for t in texts] if numeric.any() else texts, frame, series, task)


def _of_numbers(series: Series, frame: Frame, task: Task | None) -> Targets:
    numbers = numbers_of(series, frame)
    values = np.unique(numbers)
    whole = bool((numbers == np.rint(numbers)).all()) and few_values(len(values), len(numbers))
    if task is None and not whole:
        why = _why("regression", False, "its numbers (else --task classification)")
        return Targets(_numbers(series, frame, task), (), "regression", why)
    classes = tuple(map(number_name, values))
    y = np.searchsorted(values, numbers).astype(np.int32)
    found = "its few whole numbers (else --task regression)"
    why = _why("classification", task is not None, found, classes)
    return Targets(y, classes, "classification", why)


def _classes(texts: list[str], frame: Frame, series: Series, task: Task | None) -> Targets:
    values = np.unique(texts)
    classes = tuple(str(value) for value in values)
    y = np.searchsorted(values, texts).astype(np.int32)
    why = _why("classification", task is not None, "its text", classes)
    return Targets(y, classes, "classification", why)


def _numbers(series: Series, frame: Frame, task: Task | None) -> np.ndarray:
    _refuse_missing(series, frame)
    if series.stored == "text":
        for row, text in enumerate(series.values):
            if not is_number(text):
                hint = ", or say task='classification'" if task is None else ""
                raise InputError(
                    f"{frame.at(row)}: the target {series.name!r} holds {text!r}; give a number in "
                    f"every line{hint}"
                )
    numbers = numbers_of(series, frame)
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = numbers.astype(np.float32)
        lost = np.abs(numbers - narrow)
    if not np.isfinite(narrow).all():
        row = int(np.argmin(np.isfinite(narrow)))
        raise InputError(
            f"{frame.at(row)}: the target {series.name!r} holds {numbers[row]:g}, which is not a "
            "finite float32; give it in a larger unit"
        )
    if len(numbers) > 1 and lost.max() > LOST * numbers.std() > 0:
        raise InputError(
            f"{frame.where}: the target {series.name!r} has values near {numbers[0]:.17g} that "
            "differ in digits which float32 does not hold; subtract a constant from them first"
        )
    return narrow


def _refuse_missing(series: Series, frame: Frame) -> None:
    texts = series.texts() if series.stored == "text" else []
    gone = series.missing
    if texts:
        gone = np.array([text.lower() in NO_LABEL for text in texts])
    if gone.any():
        row = int(np.argmax(gone))
        held = texts[row] if texts else ""
        raise InputError(
            f"{frame.at(row)}: the target {series.name!r} holds {held!r} ({int(gone.sum())} of "
            f"{len(gone)} rows have no target); fill it in or remove these rows"
        )


def _why(task: Task, given: bool, found: str, classes: Sequence[str] = ()) -> str:
    """How the task was chosen, and which classes there are."""
    said = f"{task} as said" if given else f"{task}, by {found}"
    names = ", ".join(classes[:6]) + (", ..." if len(classes) > 6 else "")
    return said + (f"; {len(classes)} classes: {names}" if classes else "")
