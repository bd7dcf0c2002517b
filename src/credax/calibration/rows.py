"""Fit a calibrator on rows of its own, which are neither training rows nor test rows."""

import math
from typing import Any

import numpy as np

from credax.calibration.protocol import Calibrator
from credax.calibration.registry import get
from credax.data import Dataset, Split
from credax.data.rows import row_digests
from credax.errors import InputError


def check_rows(
    calibration_ids: Any, training_ids: Any, test_ids: Any = None, allow_overlap: bool = False
) -> None:
    """Raise if a calibration row is also a training or a test row, by their ids.

    Ids are any arrays ``[rows]`` that name rows: positions in a common table, or `row_digests`.

    >>> check_rows([7, 8], [1, 2, 3], [4, 5])
    """
    if allow_overlap:
        return
    own = np.asarray(calibration_ids)
    for name, ids in (("training", training_ids), ("test", test_ids)):
        if ids is None:
            continue
        shared = np.flatnonzero(np.isin(own, np.asarray(ids)))
        if shared.size:
            raise InputError(_refusal(shared, len(own), name))


def refuse_training_rows(calibration: Split, training: Split, allow_overlap: bool = False) -> None:
    """Raise if calibration rows are training rows, found by their contents.

    Rows are compared by a digest of ``x`` and ``y``, read in blocks, so this works for any data,
    also on disk. Data with naturally repeated rows (small tables of rounded numbers) is let pass: a
    refusal needs more rows in common than repetition within the training rows explains (mean plus
    four standard deviations); where training rows never repeat, one row in common is refused.
    """
    if not allow_overlap:
        _refuse(calibration, training, "training")


def calibration_rows(data: Dataset, *, allow_overlap: bool = False) -> Split:
    """The validation split of a data set, after checking that it shares no rows with the others.

    A data set without one is an error: the test rows are never used in its place.
    """
    if data.validation is None:
        raise InputError(
            f"data set {data.name!r} has no validation split and a calibrator needs rows of its "
            "own; train on data.with_validation(0.1), which holds some out (never the test rows)"
        )
    if not allow_overlap:
        _refuse(data.validation, data.train, "training")
        # A small test split may show no repeated rows by chance; the training rows know better.
        repeats = _repeats_among(data.train, len(data.test)) if len(data.train) else 0.0
        _refuse(data.validation, data.test, "test", repeats)
    return data.validation


def known_rows(own: np.ndarray, others: np.ndarray, repeats: float = 0.0) -> np.ndarray:
    """Positions of rows that are among the others, by `row_digests`.

    None where there are no more of them than natural repetition within the others explains (mean
    plus four standard deviations); ``repeats`` is a share of repeated rows known from elsewhere.
    """
    shared = np.flatnonzero(np.isin(own, others))
    natural = max(repeats, float(np.mean(_copies(others) > 0)) if len(others) else 0.0)
    expected = natural * len(own)
    likely = len(shared) <= expected + 4 * math.sqrt(expected * (1 - natural))
    return shared[:0] if likely else shared


def _refuse(calibration: Split, other: Split, name: str, repeats: float = 0.0) -> None:
    dtype = None if calibration.x.dtype == other.x.dtype else np.float32
    own, digests = row_digests(calibration, dtype=dtype), row_digests(other, dtype=dtype)
    shared = known_rows(own, digests, repeats)
    if len(shared):
        raise InputError(_refusal(shared, len(own), name))


def _copies(digests: np.ndarray) -> np.ndarray:
    """How many other rows equal each row."""
    _, inverse, count = np.unique(digests, return_inverse=True, return_counts=True)
    return count[inverse] - 1


def _repeats_among(training: Split, rows: int) -> float:
    """The share of new rows that would repeat one of ``rows`` rows, as training rows repeat."""
    copies = _copies(row_digests(training))
    return float(np.mean(-np.expm1(-copies * rows / max(len(copies) - 1, 1))))


def _refusal(shared: np.ndarray, rows: int, name: str) -> str:
    return (
        f"{len(shared)} of {rows} calibration rows (first: row {shared[0]}) are {name} rows; "
        "calibrate on rows held out for it, or pass allow_overlap=True to force it"
    )


def calibrate(
    method: str | Calibrator,
    prediction: Any,
    rows: Split | Any,
    *,
    training: Split | None = None,
    allow_overlap: bool = False,
    key: Any = 0,
    **settings: Any,
) -> Any:
    """Fit a calibrator, by name or as a record, on rows of its own.

    ``rows`` is the `Split` that was predicted, or only its labels or targets ``y``. With a split
    and ``training`` given, calibration rows that are training rows are refused unless
    ``allow_overlap``. ``settings`` go to the record of a name.

    >>> import numpy as np
    >>> from credax.prediction import ClassPrediction
    >>> p = ClassPrediction.from_logits(np.array([[[2.0, 0.0]] * 4]))
    >>> round(calibrate("temperature", p, np.array([0, 0, 0, 1])).temperature, 6)
    1.820478
    """
    calibrator = get(method)(**settings) if isinstance(method, str) else method
    if settings and calibrator is method:
        raise InputError(
            f"{', '.join(settings)} came beside a record; settings go with a name: "
            "put them into the record itself"
        )
    if not isinstance(rows, Split):
        if training is not None:
            raise InputError(
                "training was given but rows has no inputs to compare with it; "
                "give the Split that was predicted"
            )
        return calibrator.fit(prediction, rows, key=key)
    if training is not None:
        refuse_training_rows(rows, training, allow_overlap=allow_overlap)
    return calibrator.fit(prediction, rows.y, key=key)
