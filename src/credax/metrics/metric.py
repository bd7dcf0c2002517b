"""What a table must say about a number beside the number itself."""

from dataclasses import dataclass
from typing import Any, Literal

from credax.metrics.streaming import Streaming
from credax.prediction import ClassPrediction, Prediction

Task = Literal["classification", "regression", "detection", "sets", "depth", "shift"]


@dataclass(frozen=True)
class Metric:
    """A pure function of ``(prediction, y)`` and the facts that its number needs beside it.

    ``task`` is None for a metric of classes and of numbers; metrics of ``"detection"`` take scores
    and which rows are out of distribution, those of ``"sets"`` prediction sets, those of
    ``"depth"`` positive numbers, and those of ``"shift"`` error rates by type and severity.
    ``higher_is_better`` is None where neither direction is better, and ``target`` is then the right
    value where there is one. ``estimator`` is the fine print without which two packages' numbers
    cannot be compared. ``headline`` marks the few that tables show unasked; ``members`` and
    ``classes`` are the fewest that it makes sense for.
    """

    name: str
    label: str
    function: Any
    task: Task | None
    higher_is_better: bool | None
    unit: str
    range: tuple[float, float]
    estimator: str
    description: str
    target: float | None = None
    headline: bool = False
    members: int = 1
    classes: int = 2

    def __call__(self, prediction: Any, y: Any = None, *, mask: Any = None, weight: Any = None):
        """The metric's value, a scalar array."""
        return self.function(prediction, y, mask=mask, weight=weight)

    def stream(self, **options: Any) -> Streaming:
        """The streaming form."""
        return self.function.stream(**options)

    def applies_to(self, prediction: Prediction) -> bool:
        """Whether the metric makes sense for this prediction."""
        if self.task not in (None, task_of(prediction)) or prediction.num_members < self.members:
            return False
        if not isinstance(prediction, ClassPrediction):
            return True
        return prediction.log_probs.shape[-1] >= self.classes


def task_of(prediction: Prediction) -> Literal["classification", "regression"]:
    """The task that a prediction belongs to."""
    return "classification" if isinstance(prediction, ClassPrediction) else "regression"
