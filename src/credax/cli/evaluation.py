"""A posterior evaluated on more than clean rows: corrupted images, OOD data, calibration."""

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from credax import calibration, data, metrics
from credax.calibration import RecalibratedPrediction
from credax.cli.config import EvaluationOptions
from credax.cli.pixel_rows import all_pixels, sampled_pixels
from credax.data import Dataset, Split
from credax.data.columns import Columns
from credax.data.corruptions import corrupted
from credax.data.folder import pictures_below
from credax.data.pictures import Pictures
from credax.data.pixel_form import PixelForm
from credax.data.rows import fingerprint
from credax.data.shifted import load_shifted, shifted_names
from credax.data.table import read_inputs
from credax.data.tabular import TABLES, read_frame
from credax.errors import InputError
from credax.files import read_json, write_json
from credax.metrics.shift import Cell, values_of_cells
from credax.posterior import Posterior
from credax.prediction import Prediction
from credax.quality import against_reference
from credax.reading import check_record
from credax.reading.records import ANY_NUMBER, OBJECT, TEXT, kind, list_of, map_of
from credax.report.result import EvaluationResult
from credax.training.progress import reporter_for

_CACHED_BYTES = 2**30
_SCORES = map_of(ANY_NUMBER)
_CELL = kind(
    "a kind, a severity and scores",
    lambda v: (
        isinstance(v, list)
        and [type(part) for part in v] == [str, int, dict]
        and _SCORES(v[2], "") is None
    ),
)
_SHIFT = {
    "settings": OBJECT,
    "note": TEXT,
    "values": _SCORES,
    "severities": kind(
        "scores by severity",
        lambda v: (
            isinstance(v, dict)
            and set(v) <= set("012345")
            and not any(_SCORES(scores, "") for scores in v.values())
        ),
    ),
    "cells": list_of(_CELL),
}
_OF_SETS = ("set_coverage", "set_coverage_worst", "set_size", "singleton_share")


@dataclass(frozen=True)
class Evaluator:
    """The rows that every run of one command is evaluated on: checked first, made once."""

    evaluation: EvaluationOptions
    dataset: Dataset
    data_dir: str | None = None
    download: bool = True

    def __post_init__(self):
        options = {n: getattr(self.evaluation, n) for n in ("shift", "ood", "calibrate")}
        given = [name for name, value in options.items() if value]
        if self.dataset.test.tasks is not None and given:
            raise InputError(
                f"{given[0]} is given and {self.dataset.name} holds tasks; it is for a table or "
                "pictures: leave it out"
            )
        if self.evaluation.shift:
            self._check_shift()
        for name in self.evaluation.calibrate:
            self._check_calibrator(name)
        # Other data sets and the reference are loaded before anything is trained.
        _ = self.ood_inputs, self.reference

    @cached_property
    def ood_inputs(self) -> dict[str, np.ndarray]:
        """Inputs of the other data sets by name."""
        return {name: self._ood_inputs(name) for name in dict.fromkeys(self.evaluation.ood)}

    @cached_property
    def reference(self) -> Any:
        """The zoo that weights are compared with, in memory, or None."""
        if self.evaluation.reference is None:
            return None
        from credax.zoo import Zoo

        return Zoo.open(self.evaluation.reference, verify=True).population()

    @cached_property
    def rows(self) -> Split:
        """The test rows that are corrupted."""
        count = self.evaluation.shift_rows
        return self.dataset.test if count == 0 else self.dataset.test[slice(0, count)]

    def evaluate(
        self,
        posterior: Posterior,
        prediction: Prediction,
        y: np.ndarray,
        folder: Path | None,
        progress: Any,
        runs: int | None = None,
    ) -> EvaluationResult:
        """Everything that was asked for, about one posterior; shifted scores are kept on disk.

        ``runs`` is how many independent runs its networks come from, for intervals of the distance
        from a reference; a posterior of one network has none and its cell is empty. ``prediction``
        and ``y`` are of the test rows, or of a sample of their pixels.
        """
        pixels = self.dataset.test.pixels is not None
        predict = (lambda x: all_pixels(posterior, x)) if pixels else posterior.predict
        ood = {name: _host(predict(x)) for name, x in self.ood_inputs.items()}
        values = dict(metrics.evaluate(prediction, y, ood=ood)) if ood else {}
        found = {name: value for name, value in values.items() if name.startswith("ood/")}
        shift = self._shifted(posterior, folder, progress) if self.evaluation.shift else {}
        found |= shift.get("values", {})
        if self.reference is not None and prediction.num_members > 1:
            distance = against_reference(posterior, self.reference, runs=runs)
            found |= {f"weights/{name}": value for name, value in distance.items()}
        calibrated, sets, levels, notes = self._calibrated(posterior, prediction, folder)
        for name, after in calibrated.items():
            scores = metrics.evaluate(after, y)
            found |= {f"calibrated/{name}/{metric}": v for metric, v in scores.items()}
        for name, own in sets.items():
            found |= {f"calibrated/{name}/{metric}": v for metric, v in set_values(own, y).items()}
        return EvaluationResult(
            found,
            ood,
            {int(severity): scores for severity, scores in shift.get("severities", {}).items()},
            {(kind, int(s)): scores for kind, s, scores in shift.get("cells", [])},
            calibrated,
            sets,
            shift.get("note", ""),
            notes,
            levels,
        )

    def cells(self) -> Iterator[tuple[Cell, Split]]:
        """The corrupted test rows by kind and severity; kept where they fit in a gigabyte."""
        if self._published:
            return load_shifted(self._published, self.data_dir).cells()
        fits = self.rows.x.nbytes * 100 <= _CACHED_BYTES
        return iter(self._kept.items()) if fits else corrupted(self.rows, self._kinds)

    @cached_property
    def _kept(self) -> dict[Cell, Split]:
        return dict(corrupted(self.rows, self._kinds))

    @property
    def _published(self) -> str | None:
        (first, *others) = self.evaluation.corruptions or ("auto",)
        return first if not others and first in shifted_names() else None

    @property
    def _kinds(self) -> Any:
        (first, *others) = self.evaluation.corruptions or ("auto",)
        if first == "auto" and not others:
            return "digits" if min(self.dataset.input_shape[:2]) < 16 else "standard"
        return self.evaluation.corruptions if others else first

    def _check_shift(self) -> None:
        shape = self.dataset.input_shape
        if len(shape) != 3 or self.dataset.kind != "classification":
            raise InputError(
                f"shift was asked for and the data set {self.dataset.name} does not hold images "
                "with classes; leave --shift out"
            )
        if self.evaluation.shift_rows < 0:
            raise InputError(f"shift_rows is {self.evaluation.shift_rows}; give 0 (all) or more")
        if self._published:
            load_shifted(self._published, self.data_dir)
        else:
            corrupted(self.rows, self._kinds)

    def _shifted(self, posterior: Posterior, folder: Path | None, progress: Any) -> dict[str, Any]:
        rows = 0 if self._published else len(self.rows)
        kinds = json.loads(json.dumps(self._published or self._kinds))
        settings = {"data": self.dataset.name, "corruptions": kinds, "rows": rows}
        digest = fingerprint(self.dataset.test)["digest"]
        file = None if folder is None else folder / "shift.json"
        if file is not None and file.exists():
            found = read_shift(file)
            kept = dict(found["settings"])
            # Scores of older runs do not say of which rows they are.
            if kept.pop("digest", digest) == digest and kept == settings:
                return found
        collection = metrics.collect(None, "classification")
        reporter = reporter_for(progress, "sets")
        states, clean = {}, self.rows
        reporter.start("corrupted images", None, 0)
        try:
            for done, (cell, split) in enumerate(self.cells(), 1):
                prediction = posterior.predict(split.x)
                states[cell] = collection.update(collection.init(), prediction, split.y)
                reporter.update(done, f"{cell[0]}, severity {cell[1]}")
        finally:
            reporter.stop()
        values = values_of_cells(collection, states)
        severities = {
            str(s): {m: values[f"severity {s}/{m}"] for m in collection.streams}
            for s in sorted({severity for _, severity in states})
        }
        own = collection.update(collection.init(), posterior.predict(clean.x), clean.y)
        found = {
            "settings": {**settings, "digest": digest},
            "note": self._note(len(states)),
            "values": {f"shift/{name}": value for name, value in values.items()},
            "severities": {"0": collection.finish(own), **severities},
            "cells": [[*cell, collection.finish(state)] for cell, state in states.items()],
        }
        if file is not None:
            write_json(file, found)
        return found

    def _note(self, cells: int) -> str:
        if self._published:
            return f"{cells} sets of images of {self._published}"
        return f"{cells} sets of generated corruptions of {len(self.rows)} test rows"

    def _ood_inputs(self, name: str) -> np.ndarray:
        test = self.dataset.test.x
        if name == "noise":
            return _noise(test)
        prepared = self.dataset.preparation
        if isinstance(prepared, Columns) and Path(name).suffix.lower() in TABLES:
            return prepared.encode(read_frame(name, prepared.names)).x[: len(test)]
        prepared = prepared.pictures if isinstance(prepared, PixelForm) else prepared
        if isinstance(prepared, Pictures) and Path(name).is_dir():
            return prepared.read(list(pictures_below(Path(name)))[: len(test)]).x
        if Path(name).suffix.lower() in (".csv", ".tsv") and self.dataset.feature_names:
            names = self.dataset.feature_names
            return read_inputs(name, names, len(names))[0][: len(test)]
        other = data.load(name, root=self.data_dir, download=self.download).test.x
        if other.shape[1:] != test.shape[1:]:
            raise InputError(
                f"ood has {name}, whose inputs have shape {other.shape[1:]}; those of "
                f"{self.dataset.name} have {test.shape[1:]}: name a data set of the same shape"
            )
        return other[: len(test)]

    def _check_calibrator(self, name: str) -> None:
        entry = calibration.entry(name)
        if entry.task not in (None, self.dataset.task):
            fitting = ", ".join(calibration.names(self.dataset.task))
            raise InputError(f"calibrate has {name}, for {entry.task}; choose from {fitting}")
        if self.dataset.validation is None:
            raise InputError(
                f"calibrate has {name}, which needs rows of its own, and no validation rows are "
                "held out; add --validation 0.1"
            )

    def _calibrated(
        self, posterior: Posterior, prediction: Prediction, folder: Path | None
    ) -> tuple[dict, dict, dict[str, float], tuple[str, ...]]:
        """Predictions, sets and their nominal coverage by calibrator, and the warnings."""
        fitted = {} if folder is None else stored(folder)
        wanted = [name for name in dict.fromkeys(self.evaluation.calibrate) if name not in fitted]
        caught = []
        if wanted:
            rows = calibration.calibration_rows(self.dataset)
            if rows.pixels is None:
                own = posterior.predict(rows.x)
            else:
                own, rows = sampled_pixels(posterior, rows)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", calibration.CalibrationWarning)
                fitted |= {name: calibration.calibrate(name, own, rows) for name in wanted}
            for warning in caught:
                warnings.warn_explicit(warning.message, warning.category, warning.filename, 0)
        after = {name: applied(map_, prediction) for name, map_ in fitted.items()}
        calibrated = {n: p for n, p in after.items() if isinstance(p, type(prediction))}
        sets = {n: p for n, p in after.items() if n not in calibrated}
        levels = {n: 1 - float(fitted[n].score.alpha) for n in sets}
        return calibrated, sets, levels, tuple(str(warning.message) for warning in caught)


def read_shift(file: Path) -> dict[str, Any]:
    """Scores on corrupted rows that an earlier command left in a run."""
    return check_record(read_json(file), _SHIFT, file, remedy="remove it to measure again")


def stored(folder: Path) -> dict[str, Any]:
    """The calibrators that ``credax calibrate`` left in a run, by name."""
    files = sorted((folder / "calibration").glob("*.safetensors"))
    return {file.stem: calibration.load(file) for file in files}


def stored_calibrator(folder: Path, name: str) -> Any:
    """One of a run's calibrators by name, or an error that lists those that are there."""
    known = stored(folder)
    if name not in known:
        kept = f"it has {', '.join(known)}" if known else "it has none"
        raise InputError(
            f"calibration is {name} and the run in {folder} does not hold it; {kept}: see "
            "credax calibrate --help"
        )
    return known[name]


def applied(fitted: Any, prediction: Prediction) -> Any:
    """What a calibrator makes of a prediction; a recalibrated one as the nearest mixture."""
    after = fitted(prediction)
    return _host(after.as_mixture() if isinstance(after, RecalibratedPrediction) else after)


def set_values(sets: Any, y: Any) -> dict[str, float]:
    """Coverage and size of prediction sets, or of intervals."""
    if isinstance(sets, calibration.Intervals):
        return {
            "interval_coverage": float(np.mean(sets.contains(y))),
            "interval_width": float(np.mean(sets.width)),
        }
    return {name: float(metrics.get(name).function(sets, y)) for name in _OF_SETS}


def _host(prediction: Any) -> Any:
    return jax.tree.map(np.asarray, prediction)


def _noise(test: np.ndarray) -> np.ndarray:
    """Every number of every row drawn evenly between its least and greatest test value."""
    generator = np.random.default_rng(0)
    axes = tuple(range(test.ndim - 1)) if test.ndim == 4 else 0
    low, high = test.min(axis=axes), test.max(axis=axes)
    values = low + generator.random(test.shape) * (high.astype(float) - low)
    return (
        np.rint(values).astype(test.dtype) if test.dtype.kind in "iu" else values.astype(test.dtype)
    )
