"""Which predictions to trust: a rule learned on validation rows, kept in a run, told per row.

A row is trusted if its uncertainty is at most a limit. Limits are tried at 10 %, 20 %, ... of the
validation rows, most certain first, and the largest is taken that keeps the allowed ``error``:

- classification: ``(wrong + 1) / (rows + 1) <= error`` for the rows up to the limit, which is the
  rule of succession, so that few rows cannot show a small error;
- regression: the 90 % intervals of the rows up to the limit missed no more than ``error``, by a
  one-sided binomial test at 10 %.

A run with conformal intervals trusts the rows that are as certain as most of its validation rows,
for which these intervals hold (`typical_rule`).

Epistemic and total uncertainty are both tried, and the one that trusts more rows is used. No limit
exceeds the largest uncertainty among the validation rows. Where these rows also chose when to stop
training, the rule is slightly optimistic. See Geifman and El-Yaniv, Selective
classification for deep neural networks, NeurIPS 2017.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import bdtrc

from credax.errors import DamagedFile, InputError
from credax.files import load_arrays, save_tree
from credax.prediction import ClassPrediction
from credax.reading import check_record
from credax.reading.records import TEXT, one_of
from credax.regression_prediction import RegressionPrediction

FILE = "trust.safetensors"
SIGNIFICANCE = 0.1
LEVEL = 0.9
"""Of the predicted intervals whose misses are counted."""
STEPS = 10
MOST_ROWS = 2**16
FEWEST = 10
"""Validation rows below a limit of a regression."""


@dataclass(frozen=True)
class Evidence:
    """Validation rows: by score, how uncertain each is, and whether its prediction is wrong."""

    task: str
    scores: dict[str, Float[np.ndarray, "rows targets"]]
    wrong: Bool[np.ndarray, "rows targets"]


class Rule(NamedTuple):
    """Rows whose ``score`` is at most the limit of every target are trusted; none without limits.

    ``text`` says so in words.
    """

    score: str
    limits: tuple[float, ...] | None
    text: str


def uncertainty(prediction: Any) -> dict[str, Float[np.ndarray, "rows targets"]]:
    """Epistemic and total uncertainty of each row: entropies, or standard deviations per target.

    One member has no epistemic uncertainty, and so no such entry.
    """
    names = ("epistemic", "total") if prediction.num_members > 1 else ("total",)
    found = {name: np.asarray(getattr(prediction, name), np.float64) for name in names}
    rows = len(found["total"])
    found = {name: values.reshape(rows, -1) for name, values in found.items()}
    if isinstance(prediction, ClassPrediction):
        return found
    return {name: np.sqrt(values) for name, values in found.items()}


def evidence(prediction: Any, y: Any) -> Evidence | None:
    """What a prediction of validation rows says about when to trust; ``y`` are their targets.

    None for predictions of numbers without 90 % intervals. A prediction that is not finite is
    wrong, and as uncertain as can be.
    """
    y = np.asarray(y)
    if isinstance(prediction, ClassPrediction):
        wrong = (np.asarray(prediction.label) != y)[:, None]
    elif isinstance(prediction, RegressionPrediction) and prediction.widest >= LEVEL - 1e-9:
        low, high = (np.asarray(end).reshape(len(y), -1) for end in prediction.interval(LEVEL))
        wrong = ~((low <= y.reshape(low.shape)) & (y.reshape(low.shape) <= high))
    else:
        return None
    scores = uncertainty(prediction)
    for name, values in scores.items():
        wrong = wrong | ~np.isfinite(values)
        scores[name] = np.where(np.isfinite(values), values, np.finfo(np.float64).max)
    task = "classification" if isinstance(prediction, ClassPrediction) else "regression"
    return Evidence(task, scores, wrong)


def save_evidence(path: Path, found: Evidence) -> None:
    """Keep the evidence in a run; of very many rows, a fixed random sample."""
    rows = np.arange(len(found.wrong))
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:MOST_ROWS])
    arrays = {name: values[rows] for name, values in found.scores.items()}
    arrays["wrong"] = found.wrong[rows].astype(np.uint8)
    save_tree(path, arrays, {"kind": "trust", "task": found.task})


def load_evidence(path: Path) -> Evidence | None:
    """What `save_evidence` kept; None where a run has none."""
    if not path.exists():
        return None
    arrays, metadata = load_arrays(path)
    task = one_of("classification", "regression")
    check_record(metadata, {"kind": TEXT, "task": task}, path)
    wrong = arrays.pop("wrong", None)
    shapes = {array.shape for array in arrays.values()}
    if wrong is None or wrong.ndim != 2 or shapes != {wrong.shape} or "total" not in arrays:
        raise DamagedFile(f"{path} does not hold the evidence of a run; restore it from a copy")
    scores = {
        name: np.asarray(arrays[name], np.float64)
        for name in ("epistemic", "total")
        if name in arrays
    }
    return Evidence(metadata["task"], scores, wrong.astype(bool))


def trust_rule(found: Evidence, error: float = 0.1) -> Rule:
    """The rule that keeps the allowed share of errors, by the validation rows of a run.

    >>> scores = {"total": np.arange(100.0)[:, None]}
    >>> wrong = np.arange(100)[:, None] >= 70
    >>> trust_rule(Evidence("classification", scores, wrong), 0.1).limits
    (69.0,)
    """
    if not 0 < error < 1:
        raise InputError(f"error is {error}; give the allowed share of errors between 0 and 1")
    classes = found.task == "classification"
    best: tuple[int, str, tuple[float, ...]] | None = None
    for name, values in found.scores.items():
        search = risk_limit if classes else coverage_limit
        limits = [search(values[:, k], found.wrong[:, k], error) for k in range(values.shape[1])]
        if None in limits:
            continue
        kept: Any = tuple(limits)
        trusted = int((values <= np.array(kept)).all(axis=1).sum())
        if best is None or trusted > best[0]:
            best = (trusted, name, kept)
    rows, what = len(found.wrong), "wrong" if classes else f"outside their {LEVEL:.0%} interval"
    if best is None:
        return Rule("total", None, f"no limit keeps the error at most {error:g} on {rows} rows")
    trusted, name, limits = best
    most = ", ".join(f"{limit:.4g}" for limit in limits)
    inside = (found.scores[name] <= np.array(limits)).all(axis=1)
    bad = int(found.wrong[inside].any(axis=1).sum())
    unit = "uncertainty" if classes else "standard deviation"
    seen = f"of {rows} validation rows {trusted} are below, and {bad} of these are {what}"
    return Rule(name, limits, f"{name} {unit} at most {most} ({seen}; allowed: {error:g})")


def typical_rule(found: Evidence, name: str, error: float = 0.1) -> Rule:
    """For a run with conformal intervals (``name``): rows as certain as most validation rows.

    The intervals have their nominal coverage for rows like those they were fitted on, so a row is
    trusted if its uncertainty is at most that of a share ``1 - error`` of the validation rows.

    >>> scores = {"total": np.arange(1.0, 101.0)[:, None]}
    >>> typical_rule(Evidence("regression", scores, np.zeros((100, 1), bool)), "cqr").limits
    (90.0,)
    """
    if not 0 < error < 1:
        raise InputError(f"error is {error}; give the allowed share of errors between 0 and 1")
    score = next(iter(found.scores))  # epistemic, where there is any
    limits = np.quantile(found.scores[score], 1 - error, axis=0, method="lower")
    most = ", ".join(f"{limit:.4g}" for limit in limits)
    text = (
        f"{score} standard deviation at most {most}, as in {1 - error:.0%} of the validation rows"
    )
    return Rule(score, tuple(limits.tolist()), f"{text}, for which the interval of {name} holds")


def risk_limit(
    score: Float[np.ndarray, " rows"], wrong: Bool[np.ndarray, " rows"], error: float
) -> float | None:
    """The largest tried limit with ``(wrong + 1) / (rows + 1) <= error`` up to it."""
    tried = _steps(score, wrong)
    found = [value for value, errors, rows in tried if errors + 1 <= error * (rows + 1)]
    return found[-1] if found else None


def coverage_limit(
    score: Float[np.ndarray, " rows"], wrong: Bool[np.ndarray, " rows"], error: float
) -> float | None:
    """The largest tried limit below which misses are not significantly more than ``error``."""
    found = [
        value
        for value, misses, rows in _steps(score, wrong)
        if rows >= FEWEST and (misses == 0 or bdtrc(misses - 1, rows, error) >= SIGNIFICANCE)
    ]
    return found[-1] if found else None


def _steps(score: np.ndarray, wrong: np.ndarray):
    """Limits at tenths of the rows, with the number of errors and rows up to each."""
    ordered = np.sort(score)
    places = np.ceil(np.arange(1, STEPS + 1) / STEPS * len(score)).astype(int) - 1
    for value in dict.fromkeys(ordered[places].tolist()):
        below = score <= value
        yield value, int(wrong[below].sum()), int(below.sum())
