"""Predictions on shifted data, by type and severity of the shift: two ways to average them.

*Pooled*: all types of one severity are one set, and the value is the mean over severities. *Cells*:
every type and severity is a set of its own, and the value is the mean over all of them. Pooling
gives the lower calibration error, because gaps of opposite sign meet in one bin; both are named.
"""

from collections.abc import Mapping
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from credax.errors import InputError
from credax.metrics.metric import POSITIVE, REAL, Metric
from credax.metrics.streaming import Collection, State
from credax.prediction import Prediction

Cell = tuple[str, int]
CLEAN: Cell = ("clean", 0)


def shift_values(
    collection: Collection, predictions: Mapping[Cell, Any], y: Any
) -> dict[str, float]:
    """The metrics of shifted predictions under both protocols, and for each severity.

    ``predictions`` maps ``(type, severity)`` to a prediction of the rows of ``y``, or to a pair
    ``(prediction, labels)``; severities start at 1. Keys are ``pooled/NAME``, ``cells/NAME`` and
    ``severity S/NAME``.
    """
    return values_of_cells(collection, cell_states(collection, predictions, y))


def shift_cells(
    collection: Collection, predictions: Mapping[Cell, Any], y: Any
) -> dict[Cell, dict[str, float]]:
    """The metrics of every cell: a line per type against severity is made of these."""
    states = cell_states(collection, predictions, y)
    return {cell: collection.finish(state) for cell, state in states.items()}


def values_of_cells(collection: Collection, states: Mapping[Cell, State]) -> dict[str, float]:
    """`shift_values` from what each cell adds to the metrics, so that predictions need not stay."""
    by_severity: dict[int, State] = {}
    for (_, severity), state in sorted(states.items(), key=lambda item: item[0][1]):
        seen = by_severity.get(severity, collection.init())
        by_severity[severity] = collection.merge(seen, state)
    pooled = {severity: collection.finish(state) for severity, state in by_severity.items()}
    cells = [collection.finish(state) for state in states.values()]
    out = {f"pooled/{n}": fmean(v[n] for v in pooled.values()) for n in collection.streams}
    out |= {f"cells/{n}": fmean(v[n] for v in cells) for n in collection.streams}
    for severity, values in pooled.items():
        out |= {f"severity {severity}/{n}": value for n, value in values.items()}
    return out


def cell_states(
    collection: Collection, predictions: Mapping[Cell, Any], y: Any
) -> dict[Cell, State]:
    """What each cell's data adds to the metrics."""
    if not predictions:
        raise InputError("shift is empty; give {(type, severity): prediction}")
    states = {}
    for cell, given in predictions.items():
        if not (isinstance(cell, tuple) and len(cell) == 2 and isinstance(cell[1], int)):
            raise InputError(
                f"shift has the key {cell!r}; keys are (type, severity), severity counted from 1"
            )
        if cell[1] < 1:
            raise InputError(
                f"shift has severity {cell[1]}; 0 is clean data, give it as prediction"
            )
        prediction, labels = given if isinstance(given, tuple) else (given, y)
        states[cell] = collection.update(collection.init(), prediction, labels)
    return states


def corruption_errors(
    prediction: Prediction, y: Any, shift: Mapping[Cell, Any]
) -> dict[Cell, float]:
    """Error rates on clean data, under the key ``("clean", 0)``, and on every shifted set."""
    from credax.metrics.scoring import accuracy

    collection = Collection({"accuracy": accuracy.stream()})
    cells = shift_cells(collection, shift, y)
    clean = collection.finish(collection.update(collection.init(), prediction, y))
    errors = {cell: 1 - values["accuracy"] for cell, values in cells.items()}
    return {CLEAN: 1 - clean["accuracy"]} | errors


def mean_corruption_error(
    errors: Mapping[Cell, float], baseline: Mapping[Cell, float], *, relative: bool = False
) -> float:
    """Mean over types of ``Σ_s error / Σ_s baseline error``; 1 for the baseline itself.

    ``relative=True`` takes the error on clean data off both first, so that it measures what the
    shift costs. The inputs are what `corruption_errors` returns; the baseline is commonly the
    single network of the same run. NaN where the baseline loses nothing to some type.
    Reference: D. Hendrycks and T. Dietterich, ICLR 2019.

    >>> ours = {("clean", 0): 0.1, ("fog", 1): 0.2, ("fog", 2): 0.4}
    >>> base = {("clean", 0): 0.1, ("fog", 1): 0.3, ("fog", 2): 0.5}
    >>> round(mean_corruption_error(ours, base), 4)
    0.75
    >>> round(mean_corruption_error(ours, base, relative=True), 4)
    0.6667
    """
    cells = [cell for cell in errors if cell != CLEAN]
    missing = [cell for cell in [*cells, CLEAN] if cell not in baseline or cell not in errors]
    if missing or not cells:
        raise InputError(
            f"the errors and the baseline do not match at {missing[:1] or 'any cell'}; make both "
            "with corruption_errors from the same shifted sets"
        )
    offset = (errors[CLEAN], baseline[CLEAN]) if relative else (0.0, 0.0)
    ratios = []
    for kind in dict.fromkeys(cell[0] for cell in cells):
        ours = sum(errors[cell] - offset[0] for cell in cells if cell[0] == kind)
        theirs = sum(baseline[cell] - offset[1] for cell in cells if cell[0] == kind)
        ratios.append(ours / theirs if theirs else np.nan)
    return float(np.mean(ratios))


METRICS = tuple(
    Metric(
        name,
        label,
        partial(mean_corruption_error, relative=relative),
        "shift",
        False,
        "share of the baseline's",
        REAL if relative else POSITIVE,
        "sum over severities, mean over types, over the baseline's",
        words,
    )
    for name, label, relative, words in (
        ("mean_corruption_error", "mCE", False, "error rate under shift"),
        ("relative_mean_corruption_error", "Relative mCE", True, "error rate that shift adds"),
    )
)
