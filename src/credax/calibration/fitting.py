"""One call from a name to a fitted calibrator, with the rows checked."""

from typing import Any

from credax.calibration.protocol import Calibrator
from credax.calibration.registry import get
from credax.calibration.rows import refuse_training_rows
from credax.data import Split
from credax.errors import InputError


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
