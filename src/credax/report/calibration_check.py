"""Is the calibration acceptable: the ECE, or the coverage, against what chance alone gives."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from credax import metrics
from credax.metrics.calibration import BINS, edges_of
from credax.report.numbers import fixed, percent
from credax.report.regression import INTERVAL, LEVELS, mean_coverage
from credax.report.result import Comparison, Result
from credax.report.rows import ClassRows, class_rows

_reliability = jax.jit(metrics.reliability_of)
# An error of calibration up to this is acceptable even where it is sure to be there.
TOLERANCE = 0.02
# Where chance alone may give so much, the rows are too few to decide.
TOO_FEW = 0.05
CLASS_RULE = (
    f"Calibration is acceptable when the ECE ({BINS} bins) exceeds that of a perfectly calibrated "
    f"network with the same confidences by at most two of its standard deviations, or by at most "
    f"{TOLERANCE}; where two standard deviations are above {TOO_FEW} the rows are too few to "
    "decide."
)
NUMBER_RULE = (
    f"Calibration is acceptable when the coverage of the {percent(INTERVAL)} interval is within "
    f"two binomial standard errors of {INTERVAL:.2f}, or within {TOLERANCE}; where two standard "
    f"errors are above {TOO_FEW} the rows are too few to decide."
)


@dataclass(frozen=True)
class Calibrated:
    """What was measured, what chance gives, and the evaluation of both.

    ``value`` is the ECE or the coverage, mean over seeds; ``expected`` what perfect calibration
    gives on as many rows, ``deviation`` its standard deviation; ``bias`` is the sign of the error,
    +1 for overconfidence.
    """

    name: str
    value: float
    expected: float
    deviation: float
    bias: float
    rows: int

    @property
    def excess(self) -> float:
        """How far the value is from what perfect calibration gives."""
        gap = self.value - self.expected
        return abs(gap) if self.name == "coverage" else gap

    @property
    def state(self) -> str:
        """The evaluation: acceptable, not acceptable, or too few rows to decide."""
        if self.excess > max(2 * self.deviation, TOLERANCE):
            return "is not acceptable"
        if 2 * self.deviation > TOO_FEW:
            return "cannot be evaluated"
        return "is acceptable"

    @property
    def sentence(self) -> str:
        """The evaluation with its numbers."""
        if self.name == "coverage":
            numbers = (
                f"{percent(INTERVAL)} intervals cover {fixed(self.value, 3)} of {self.rows} test "
                f"rows, ± {fixed(self.deviation, 3)} by chance"
            )
        else:
            numbers = (
                f"ECE {fixed(self.value, 3)}, where perfect calibration gives "
                f"{fixed(self.expected, 3)} ± {fixed(self.deviation, 3)} on {self.rows} test rows"
            )
        if self.state == "cannot be evaluated":
            return f"cannot be evaluated from {self.rows} test rows ({numbers})"
        if self.state == "is acceptable":
            return f"is acceptable ({numbers})"
        return f"is not acceptable: {'over' if self.bias > 0 else 'under'}confident ({numbers})"


def calibration_check(comparison: Comparison, method: str) -> Calibrated | None:
    """The check of one method over its seeds, or None without finite predictions."""
    results = comparison.shown(method)
    if not results:
        return None
    if comparison.task == "classification":
        each = [_of_classes(rows) for rows in class_rows(results)]
        if not np.isfinite(each).all():
            return None
        # The seeds share the test rows, so their deviations do not average out.
        value, expected, deviation, bias = np.mean(each, axis=0).tolist()
        return Calibrated("ECE", value, expected, deviation, bias, _rows(results))
    if any(not np.isfinite(getattr(r.prediction, "means", np.nan)).all() for r in results):
        return None
    rows, value = _rows(results), float(mean_coverage(results)[LEVELS.index(INTERVAL)])
    error = math.sqrt(INTERVAL * (1 - INTERVAL) / rows)
    return Calibrated("coverage", value, INTERVAL, error, INTERVAL - value, rows)


def perfect_ece(confidence: np.ndarray, bins: int = BINS) -> tuple[float, float]:
    """Mean and standard deviation of the ECE if every row were correct with its own confidence.

    A bin's gap is then a mean of independent errors with variance ``σ_b² = Σ c (1 - c) / n_b²``,
    so nearly Gaussian: ``Σ_b n_b/N σ_b √(2/π)`` and ``(Σ_b (n_b/N)² σ_b² (1 - 2/π))^½``.

    >>> mean, deviation = perfect_ece(np.full(100, 0.8))
    >>> round(mean, 4), round(deviation, 4)
    (0.0319, 0.0241)
    """
    confidence = np.asarray(confidence)
    index = np.asarray(metrics.bin_index(jnp.asarray(confidence), edges_of(bins)))
    variance = np.clip(confidence.astype(float) * (1 - confidence), 0, None)
    scatter = np.sqrt(np.bincount(index, variance, bins)) / len(confidence)
    mean = float(np.sum(scatter) * math.sqrt(2 / math.pi))
    return mean, float(np.sqrt(np.sum(scatter**2) * (1 - 2 / math.pi)))


def _of_classes(rows: ClassRows) -> tuple[float, float, float, float]:
    table = _reliability(rows.confidence, rows.right)
    share = np.asarray(table.counts) / len(rows.y)
    gaps = np.where(share > 0, share * np.asarray(table.confidence - table.accuracy), 0.0)
    return float(np.abs(gaps).sum()), *perfect_ece(rows.confidence), float(gaps.sum())


def _rows(results: list[Result]) -> int:
    return max(len(r.y) for r in results if r.y is not None)
