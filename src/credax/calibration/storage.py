"""Fitted calibrators as files: arrays in safetensors, settings in its header, never pickle."""

import dataclasses
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import jaxtyped

from credax.errors import DamagedFile, InputError
from credax.files import load_arrays, save_tree
from credax.reading import check_record
from credax.reading.records import LIST, OBJECT, TEXT
from credax.reading.settings import fits
from credax.reading.tensors import COPY

# Only these classes are ever made from a file, and where they live.
_RECORDS = {
    "FittedTemperature": "temperature",
    "AffineScaling": "scaling",
    "FittedBinary": "binary",
    "StepMaps": "classwise",
    "LineMaps": "classwise",
    "VarianceScale": "variance_scaling",
    "LevelMaps": "quantile_recalibration",
    "ConformalSets": "sets",
    "ConformalIntervals": "intervals",
    "Threshold": "sets",
    "APS": "sets",
    "RAPS": "sets",
    "Residual": "intervals",
    "Normalised": "intervals",
    "CQR": "intervals",
}
# Infinity stands where a class has fewer steps, and where no finite quantile covers.
_INFINITE = ("edges", "quantiles")
_PLAIN = (str, int, float, bool, type(None))


def save(path: str | Path, fitted: Any) -> None:
    """Write a fitted calibrator; what `load` reads is equal to the last bit."""
    arrays: dict[str, np.ndarray] = {}
    description = _encode(fitted, "fitted", arrays)
    save_tree(path, arrays, {"calibrator": description})


def load(path: str | Path) -> Any:
    """Read a fitted calibrator that `save` wrote."""
    arrays, metadata = load_arrays(path, infinite=_INFINITE)
    if "calibrator" not in metadata:
        raise InputError(
            f"{path} holds no calibrator; give a file written by credax.calibration.save"
        )
    check_record(metadata, {"calibrator": OBJECT}, path, remedy=COPY)
    check_record(metadata["calibrator"], {"record": TEXT, "fields": OBJECT}, path, remedy=COPY)
    return _decode(metadata["calibrator"], arrays, path)


def _encode(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    if isinstance(value, tuple):
        return {"tuple": [_encode(part, f"{name}/{i}", arrays) for i, part in enumerate(value)]}
    if type(value).__name__ in _RECORDS:
        fields = {
            field.name: _encode(getattr(value, field.name), f"{name}/{field.name}", arrays)
            for field in dataclasses.fields(value)
        }
        return {"record": type(value).__name__, "fields": fields}
    if isinstance(value, _PLAIN):
        return value
    raise InputError(f"fitted is a {type(value).__name__}; give what a calibrator's fit returned")


def _decode(description: Any, arrays: dict[str, np.ndarray], path: str | Path) -> Any:
    if not isinstance(description, dict):
        if isinstance(description, _PLAIN):
            return description
        raise DamagedFile(f"{path} holds a list where a calibrator's field should be; {COPY}")
    if description.keys() == {"array"}:
        if not isinstance(description["array"], str) or description["array"] not in arrays:
            raise DamagedFile(f"{path} names an array that it does not hold; {COPY}")
        return arrays[description["array"]]
    if description.keys() == {"tuple"}:
        check_record(description, {"tuple": LIST}, path, remedy=COPY)
        return tuple(_decode(part, arrays, path) for part in description["tuple"])
    check_record(description, {"record": TEXT, "fields": OBJECT}, path, remedy=COPY)
    name = description["record"]
    if name not in _RECORDS:
        raise InputError(f"{path} holds a {name[:40]}, which this version of credax does not know")
    record = getattr(import_module(f"credax.calibration.{_RECORDS[name]}"), name)
    fields = {k: _decode(v, arrays, path) for k, v in description["fields"].items()}
    problem = _wrong_field(record, fields)
    if problem:
        raise DamagedFile(f"{path} does not hold a whole {name}: {problem}; {COPY}")
    return record(**fields)


_SCORES = {"ConformalSets": ("Threshold", "APS", "RAPS")}
_SCORES |= {"ConformalIntervals": ("Residual", "Normalised", "CQR")}
_POSITIVE = (1e-15, 1e15)  # whose squares are numbers in float32 too
_RANGES: dict[str, tuple[float, float]] = dict.fromkeys(
    ("temperature", "scale", "floor"), _POSITIVE
)
_RANGES |= dict.fromkeys(("values", "before", "after"), (0.0, 1.0))


def _wrong_field(record: type, fields: dict[str, Any]) -> str:
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
