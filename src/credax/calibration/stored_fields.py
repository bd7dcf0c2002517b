"""Whether what a file holds can be the fields of a fitted calibrator: types, shapes, ranges."""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import jaxtyped

from credax.reading.settings import fits

_SCORES = {"ConformalSets": ("Threshold", "APS", "RAPS")}
_SCORES |= {"ConformalIntervals": ("Residual", "Normalised", "CQR")}
_POSITIVE = (1e-15, 1e15)  # whose squares are numbers in float32 too
_RANGES: dict[str, tuple[float, float]] = dict.fromkeys(
    ("temperature", "scale", "floor"), _POSITIVE
)
_RANGES |= dict.fromkeys(("values", "before", "after"), (0.0, 1.0))


def wrong_field(record: type, fields: dict[str, Any]) -> str:
    """What is wrong with the fields of a record read from a file, in words; nothing if all fit."""
    known = {field.name: field for field in dataclasses.fields(record)}
    odd = sorted(known.keys() ^ fields.keys())
    if odd:
        return f"{odd[0]} is {'missing' if odd[0] in known else 'not known'}"
    # Inside one context axes of the same name must have the same length.
    with jaxtyped("context"):  # pyright: ignore[reportGeneralTypeIssues]
        for name, field in known.items():
            scores = _SCORES.get(record.__name__) if name == "score" else None
            if scores is not None and type(fields[name]).__name__ not in scores:
                return f"{name} is not one of {', '.join(scores)}"
            if not fits(fields[name], field.type):
                return f"{name} is not what it should be"
    outside = next((name for name, value in fields.items() if _outside(name, value)), None)
    if outside is not None:
        return f"{outside} is out of its range"
    return _mismatch(record.__name__, fields)


def _outside(name: str, value: Any) -> bool:
    if name not in _RANGES:
        return False
    low, high = _RANGES[name]
    parts = [np.asarray(part) for part in (value if isinstance(value, tuple) else (value,))]
    numbers = [part for part in parts if part.dtype.kind in "iuf"]
    return any(bool((part < low).any() or (part > high).any()) for part in numbers)


def _mismatch(record: str, fields: dict[str, Any]) -> str:
    """What arrays of one record must have in common beyond their types."""
    if record == "AffineScaling":
        weight, classes = fields["weight"], len(fields["bias"])
        if weight.shape not in ((classes,), (classes, classes)):
            return f"weight has shape {weight.shape} for {classes} classes"
    if record == "LineMaps" and (np.diff(fields["knots"]) < 0).any():
        return "knots do not rise"
    if record == "StepMaps" and fields["values"].shape[1] != fields["edges"].shape[1] + 1:
        return "values are not one more than edges"
    if record == "LevelMaps":
        pairs = list(zip(fields["before"], fields["after"], strict=False))
        same = len(fields["before"]) == len(fields["after"]) > 0
        if not same or any(a.shape != b.shape or len(a) < 2 for a, b in pairs):
            return "before and after have different corners"
        if any((np.diff(corner) < 0).any() for pair in pairs for corner in pair):
            return "a map of levels falls"
    if record in _SCORES and not len(fields["quantiles"]):
        return "quantiles is empty"
    return ""
