"""Predictions as columns of a table: labels, uncertainty, sets and intervals, trust."""

import csv
import io
import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from credax.calibration import Intervals
from credax.calibration.trust import (
    FILE,
    load_evidence,
    trust_rule,
    typical_rule,
    uncertainty,
)
from credax.errors import InputError
from credax.prediction import ClassPrediction

_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")


class Trusted(NamedTuple):
    """Row by row, ``yes``, ``no`` or ``unknown`` and why; and the rule in words."""

    trust: np.ndarray
    reason: np.ndarray
    rule: str


def as_csv(columns: dict[str, np.ndarray]) -> str:
    """A table of columns, quoted where a name or a label needs it; harmless in a spreadsheet."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([harmless(name) for name in columns])
    cells = [
        [_cell(value) for value in (column.tolist() if column.dtype.kind in "iu" else column)]
        for column in columns.values()
    ]
    writer.writerows(zip(*cells, strict=True))
    return text.getvalue()


def harmless(text: str) -> str:
    """Text that a spreadsheet would run as a formula, with an apostrophe before it.

    >>> harmless("=1+1"), harmless("-3.5"), harmless("plain")
    ("'=1+1", '-3.5', 'plain')
    """
    formula = text[:1] in ("=", "+", "-", "@", "\t", "\r") and not _NUMBER.fullmatch(text)
    return f"'{text}" if formula else text


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return harmless(value)
    return str(value) if isinstance(value, int) else f"{value:.7g}"


def prediction_columns(
    prediction: Any, class_names: Sequence[str], targets: tuple[str, ...]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """What a prediction says of every row, and what its members say."""
    parts = {
        name: np.asarray(getattr(prediction, name)) for name in ("total", "aleatoric", "epistemic")
    }
    if not isinstance(prediction, ClassPrediction):
        low, high = prediction.interval(0.9)
        columns = {"mean": prediction.mean, "std": prediction.std, "low_90": low, "high_90": high}
        return _split({**columns, **parts}, targets), np.asarray(prediction.members)
    label = np.asarray(prediction.label)
    names = list(class_names) or [str(k) for k in range(prediction.probs.shape[1])]
    columns = {"label": np.array(names)[label], "confidence": np.asarray(prediction.confidence)}
    probs = {
        f"p_{name}": column
        for name, column in zip(names, np.asarray(prediction.probs).T, strict=True)
    }
    return {**columns, **parts, **probs}, np.asarray(prediction.members)


def calibrated(prediction: Any, folder: Path, name: str | None) -> tuple[Any, dict[str, Any]]:
    """The prediction after the named calibrator, and the sets or intervals of all that a run has.

    Sets and intervals are those of the prediction as it is: so they were fitted.
    """
    if name is None and not (folder / "calibration").is_dir():
        return prediction, {}
    from credax.cli.evaluation import applied, stored

    known = stored(folder)
    if name is not None and name not in known:
        kept = f"it has {', '.join(known)}" if known else "it has none"
        raise InputError(
            f"calibration is {name} and the run in {folder} does not hold it; {kept}: see "
            "credax calibrate --help"
        )
    after, sets = prediction, {}
    # The one that is named comes first: it decides about trust.
    for own in sorted(known, key=lambda each: (each != name, each)):
        try:
            found = applied(known[own], prediction)
        except InputError as error:
            if own == name:
                raise
            warnings.warn(f"the calibrator {own} of the run is left out: {error}", stacklevel=2)
            continue
        if isinstance(found, Intervals | np.ndarray):
            sets[own] = (found, 1 - float(known[own].score.alpha))
        elif own == name:
            after = found
    return after, sets


def set_columns(
    sets: dict[str, Any], class_names: Sequence[str], targets: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """Conformal intervals as two columns each, and sets as JSON arrays of class names."""
    columns = {}
    for name, (found, _) in sets.items():
        if isinstance(found, Intervals):
            columns |= _split({f"{name}_low": found.low, f"{name}_high": found.high}, targets)
            continue
        columns[f"{name}_set"] = np.array(
            # JSON arrays: class names may hold spaces, commas and quotes.
            [json.dumps(inside, ensure_ascii=False) for inside in _names(found, class_names)]
        )
    return columns


def trusted(
    prediction: Any,
    sets: dict[str, Any],
    folder: Path,
    class_names: Sequence[str],
    flags: Sequence[str] | None,
    error: float,
) -> Trusted:
    """Which rows to trust and why: by a conformal set if the run has one, else by validation rows.

    A row that is unlike all training rows is never trusted.
    """
    rows = len(np.asarray(prediction.mean))
    conformal = [name for name, (found, _) in sets.items() if isinstance(found, np.ndarray)]
    evidence = load_evidence(folder / FILE)
    if conformal:
        inside, level = sets[conformal[0]]
        label = np.asarray(prediction.label)
        found = _by_sets(conformal[0], inside, level, class_names, label)
    elif evidence is None:
        rule = "the run keeps no predictions of validation rows: credax fit with --validation 0.15"
        found = Trusted(np.full(rows, "unknown"), np.full(rows, rule), rule)
    elif sets:
        found = _by_limits(prediction, typical_rule(evidence, next(iter(sets)), error))
    else:
        found = _by_limits(prediction, trust_rule(evidence, error))
    if flags is None:
        return found
    odd = np.array([bool(flag) for flag in flags])
    trust = np.where(odd, "no", found.trust)
    return found._replace(trust=trust, reason=np.where(odd, np.array(flags), found.reason))


def _by_sets(
    name: str, found: np.ndarray, level: float, class_names: Sequence[str], label: np.ndarray
) -> Trusted:
    alone = (found.sum(axis=1) == 1) & found[np.arange(len(found)), label]
    words = {0: "no class", 1: "one class"}
    reasons = [
        f"the {level:.0%} set of {name} holds {words.get(len(names), f'{len(names)} classes')}"
        + (f": {', '.join(names[:4])}" if names and not yes else "")
        for names, yes in zip(_names(found, class_names), alone, strict=True)
    ]
    rule = f"the {level:.0%} prediction set of {name} holds exactly one class, the label"
    return Trusted(np.where(alone, "yes", "no"), np.array(reasons), rule)


def _by_limits(prediction: Any, rule: Any) -> Trusted:
    values = uncertainty(prediction)
    if rule.limits is None or rule.score not in values:
        rows = len(values["total"])
        return Trusted(np.full(rows, "no"), np.full(rows, rule.text), rule.text)
    score, limits = values[rule.score], np.array(rule.limits)
    if score.shape[1] != len(limits):
        raise InputError(f"{FILE} of the run is of {len(limits)} targets, not {score.shape[1]}")
    inside = score <= limits
    worst = np.argmax(score / np.where(limits > 0, limits, 1.0), axis=1)
    reasons = [
        f"{rule.score} {score[row, k]:.4g} is {'at most' if inside[row].all() else 'above'} "
        f"{limits[k]:.4g}"
        for row, k in enumerate(worst)
    ]
    return Trusted(np.where(inside.all(axis=1), "yes", "no"), np.array(reasons), rule.text)


def _names(found: np.ndarray, class_names: Sequence[str]) -> list[list[str]]:
    names = list(class_names) or [str(k) for k in range(found.shape[1])]
    return [[n for n, inside in zip(names, row, strict=True) if inside] for row in found]


def _split(columns: dict[str, Any], targets: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Several targets: a column each, by the target's name where it has one."""
    flat = {}
    for name, values in columns.items():
        values = np.asarray(values)
        if values.ndim == 1 or values.shape[1] == 1:
            flat[name] = values.reshape(-1)
            continue
        labels = targets if len(targets) == values.shape[1] else range(values.shape[1])
        flat |= {f"{name}_{label}": values[:, i] for i, label in enumerate(labels)}
    return flat
