"""Fitted calibrators as files: arrays in safetensors, settings in its header, never pickle."""

import dataclasses
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from credax.calibration.stored_fields import wrong_field
from credax.errors import DamagedFile, InputError
from credax.files import load_arrays, save_tree
from credax.reading import check_record
from credax.reading.records import LIST, OBJECT, TEXT
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
    "ConformalSets": "fitted_sets",
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
    problem = wrong_field(record, fields)
    if problem:
        raise DamagedFile(f"{path} does not hold a whole {name}: {problem}; {COPY}")
    return record(**fields)
