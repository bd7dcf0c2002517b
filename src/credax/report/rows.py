"""A class prediction reduced to what the figures need: a few numbers per test row."""

from typing import NamedTuple

import jax
import numpy as np

from credax import metrics
from credax.prediction import ClassPrediction
from credax.report.result import Result

_clipped = jax.jit(metrics.clipped)


class ClassRows(NamedTuple):
    """Row by row: the label, what was predicted, and how sure it was (nats)."""

    y: np.ndarray
    label: np.ndarray
    confidence: np.ndarray
    epistemic: np.ndarray
    total: np.ndarray
    members: int
    clipped: int

    @property
    def right(self) -> np.ndarray:
        """Whether the predicted class is the label."""
        return self.label == self.y


def class_rows(results: list[Result]) -> list[ClassRows]:
    """The rows of every result that holds a class prediction."""
    out = []
    for result in results:
        prediction = result.prediction
        if isinstance(prediction, ClassPrediction) and result.y is not None:
            y = np.asarray(result.y)
            label, confidence, epistemic, total = map(np.asarray, _reduce(prediction))
            members, clipped = prediction.num_members, int(_clipped(prediction, y))
            out.append(ClassRows(y, label, confidence, epistemic, total, members, clipped))
    return out


@jax.jit
def _reduce(prediction: ClassPrediction):
    return prediction.label, prediction.confidence, prediction.epistemic, prediction.total
