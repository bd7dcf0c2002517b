"""Every metric by name, with what a table must say about it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Any, Literal

from credax.errors import unknown
from credax.metrics import calibration, diversity, regression, scoring
from credax.prediction import ClassPrediction, Prediction

Task = Literal["classification", "regression"]


@dataclass(frozen=True)
class Metric:
    """A pure function of ``(prediction, y)`` and the facts that its number needs beside it.

    ``task`` is None for a metric of both; ``higher_is_better`` is None where neither direction
    is better, and ``target`` is then the right value where there is one. ``estimator`` is the fine
    print without which two packages' numbers cannot be compared.
    """

    name: str
    label: str
    function: Callable[[Any, Any], Any]
    task: Task | None
    higher_is_better: bool | None
    unit: str
    range: tuple[float, float]
    estimator: str
    description: str
    target: float | None = None

    def __call__(self, prediction: Prediction, y):
        """The metric's value, a scalar array."""
        return self.function(prediction, y)


_ALL = (
    Metric(
        "accuracy",
        "Accuracy",
        scoring.accuracy,
        "classification",
        True,
        "share",
        (0.0, 1.0),
        "argmax of the mean probability, ties to the lowest class",
        "share of rows whose most probable class is the label",
    ),
    Metric(
        "rmse",
        "RMSE",
        regression.rmse,
        "regression",
        False,
        "unit of y",
        (0.0, inf),
        "of the mixture's mean, over rows and targets",
        "root mean squared error",
    ),
    Metric(
        "nll",
        "NLL",
        scoring.nll,
        None,
        False,
        "nats",
        (-inf, inf),
        "exact mixture, mean over rows; class probabilities clipped at the smallest float",
        "negative log-likelihood of the labels or targets",
    ),
    Metric(
        "moment_matched_nll",
        "Moment-matched NLL",
        regression.moment_matched_nll,
        "regression",
        False,
        "nats",
        (-inf, inf),
        "one Gaussian with the mixture's mean and variance, mean over rows",
        "negative log-likelihood after replacing the mixture by one Gaussian",
    ),
    Metric(
        "brier",
        "Brier",
        scoring.brier,
        "classification",
        False,
        "squared probability",
        (0.0, 2.0),
        "sum over classes, mean over rows, of the mixture",
        "squared distance between probabilities and the one-hot label",
    ),
    Metric(
        "ece",
        "ECE",
        calibration.ece,
        "classification",
        False,
        "share",
        (0.0, 1.0),
        f"top label, {calibration.BINS} equal-width bins",
        "expected gap between confidence and accuracy",
    ),
    Metric(
        "entropy",
        "Entropy",
        diversity.entropy,
        "classification",
        None,
        "nats",
        (0.0, inf),
        "of the mean probability, mean over rows",
        "total uncertainty",
    ),
    Metric(
        "mutual_information",
        "Mutual information",
        diversity.mutual_information,
        "classification",
        None,
        "nats",
        (0.0, inf),
        "entropy of the mixture less the members' mean entropy, mean over rows",
        "epistemic uncertainty: how much the members disagree",
    ),
    Metric(
        "coverage_90",
        "90 % coverage",
        regression.coverage,
        "regression",
        None,
        "share",
        (0.0, 1.0),
        "central 90 % interval of the mixture, over rows and targets",
        "share of targets inside the interval that should hold 90 % of them",
        target=0.9,
    ),
)

METRICS: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _ALL})


def names(task: Task | None = None) -> tuple[str, ...]:
    """Names of all metrics, or of those for a task, in the order of tables.

    >>> names("regression")
    ('rmse', 'nll', 'moment_matched_nll', 'coverage_90')
    """
    return tuple(m.name for m in METRICS.values() if task is None or m.task in (None, task))


def get(name: str) -> Metric:
    """The metric of that name.

    >>> get("ece").estimator
    'top label, 15 equal-width bins'
    """
    if name not in METRICS:
        raise unknown("metric", name, METRICS)
    return METRICS[name]


def task_of(prediction: Prediction) -> Task:
    """The task that a prediction belongs to."""
    return "classification" if isinstance(prediction, ClassPrediction) else "regression"
