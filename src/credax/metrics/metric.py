"""A metric: a plain function of ``(prediction, y)`` with what tables say about its number.

`metric` and `metrics` decorate a function from options to a `Streaming`, the form that reads
batches; the decorated name is called with a prediction.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from inspect import Parameter, Signature, signature
from math import inf
from typing import Any, Literal, Protocol

import jax

from credax.errors import InputError
from credax.metrics.streaming import Streaming
from credax.prediction import ClassPrediction, GaussianPrediction, Prediction

Task = Literal["classification", "regression", "detection", "sets", "depth", "shift"]
Factory = Callable[..., Streaming]
SHARE, POSITIVE, REAL = (0.0, 1.0), (0.0, inf), (-inf, inf)
NATS: dict[str, Any] = {"unit": "nats", "range": POSITIVE}
ENTRIES = "over rows and targets"
TABLE: dict[str, list["Metric"]] = {}
"""The metrics of every module, in the order in which they are defined there."""


@dataclass(frozen=True)
class Metric:
    """A pure function of ``(prediction, y)`` and the facts that its number needs beside it.

    ``task`` is None for a metric of classification and of regression; metrics of ``"detection"``
    take scores and which rows are out of distribution, those of ``"sets"`` prediction sets, those
    of ``"depth"`` positive numbers, and those of ``"shift"`` error rates by type and severity.
    ``higher_is_better`` is None where neither direction is better, and ``target`` is then the ideal
    value where there is one. ``estimator`` is the detail without which two packages' numbers cannot
    be compared. ``headline`` marks the few that tables show by default; ``members`` and ``classes``
    are the fewest that it makes sense for.
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
    needs: Literal["", "gaussian", "density", "continuous"] = ""
    """What a prediction of numbers must have: Gaussians, any `log_prob`, a continuous one."""
    interval: float = 0.0
    """The level of the widest central interval that it asks a prediction for."""

    def __call__(self, prediction: Any, y: Any = None, *, mask: Any = None, weight: Any = None):
        """The metric's value, a scalar array."""
        return self.function(prediction, y, mask=mask, weight=weight)

    def stream(self, **options: Any) -> Streaming:
        """The streaming form."""
        return self.function.stream(**options)

    def applies_to(self, prediction: Prediction) -> bool:
        """Whether the metric makes sense for this prediction."""
        return self.task in (None, task_of(prediction)) and self.missing(prediction) is None

    def missing(self, prediction: Prediction) -> str | None:
        """What the metric needs and this prediction does not have; None if it has everything."""
        if prediction.num_members < self.members:
            return f"at least {self.members} members, and the prediction has fewer"
        if isinstance(prediction, ClassPrediction):
            few = prediction.log_probs.shape[-1] < self.classes
            return f"at least {self.classes} classes, and the prediction has fewer" if few else None
        kind = type(prediction).__name__
        if self.needs == "gaussian" and not isinstance(prediction, GaussianPrediction):
            return f"a mixture of Gaussians, and the prediction is a {kind}"
        if self.needs == "density" and prediction.density == "none":
            return f"a density, and a {kind} has none"
        if self.needs == "continuous" and prediction.density != "continuous":
            return f"a continuous density, and the {kind} has none"
        if self.interval > prediction.widest + 1e-9:
            return f"a {self.interval:.0%} interval, and the {kind} is known up to " + (
                f"{prediction.widest:.0%}"
            )
        return None


def task_of(prediction: Prediction) -> Literal["classification", "regression"]:
    """The task that a prediction belongs to."""
    return "classification" if isinstance(prediction, ClassPrediction) else "regression"


class MetricFunction(Protocol):
    """A metric as a function ``(prediction, y, *, mask, weight, ...)`` with its streaming form."""

    __name__: str

    def __call__(
        self, prediction: Any, y: Any = None, *, mask: Any = None, weight: Any = None, **options
    ) -> jax.Array:
        """The metric of a prediction, a scalar array."""
        ...

    def stream(self, **options: Any) -> Streaming:
        """The streaming form with these options."""
        ...

    def having(self, **options: Any) -> "MetricFunction":
        """The same metric with other defaults."""
        ...


def row(
    label: str,
    higher_is_better: bool | None,
    estimator: str,
    description: str,
    *,
    name: str = "",
    options: Mapping[str, Any] | None = None,
    task: Task | None = "classification",
    unit: str = "share",
    range: tuple[float, float] = SHARE,
    **more: Any,
) -> Callable[[MetricFunction], Metric]:
    """A row of the table of metrics: the decorated function, with ``options`` as its defaults."""

    def entry(function: MetricFunction) -> Metric:
        return Metric(
            name or function.__name__,
            label,
            function.having(**options) if options else function,
            task,
            higher_is_better,
            unit,
            range,
            estimator,
            description,
            **more,
        )

    return entry


def metric(*row_fields: Any, **more: Any) -> Callable[[Factory], MetricFunction]:
    """Decorate a function from options to a `Streaming`; the arguments are those of `row`."""
    return metrics(row(*row_fields, **more))


def metrics(*rows: Callable[[MetricFunction], Metric]) -> Callable[[Factory], MetricFunction]:
    """`metric` with any number of rows, one for each choice of options that tables show."""

    def decorate(factory: Factory) -> MetricFunction:
        function = _with_defaults(cache(factory), {})
        TABLE.setdefault(factory.__module__, []).extend(entry(function) for entry in rows)
        return function

    return decorate


def _with_defaults(factory: Factory, defaults: dict[str, Any]) -> Any:
    given = signature(factory).parameters
    for name in defaults:
        if name not in given:
            raise InputError(f"{factory.__name__} has no option {name!r}; it has {list(given)}")

    def stream(**options):
        return factory(**(defaults | options))

    @wraps(factory)
    def function(prediction, y=None, *, mask=None, weight=None, **options):
        return stream(**options)(prediction, y, mask=mask, weight=weight)

    attributes: dict[str, Any] = {
        "stream": stream,
        "having": lambda **options: _with_defaults(factory, defaults | options),
        "__signature__": _signature(given, defaults),
        "__annotations__": {},
    }
    for name, attribute in attributes.items():
        setattr(function, name, attribute)
    return function


def _signature(given: Mapping[str, Parameter], defaults: dict[str, Any]) -> Signature:
    by_keyword = Parameter.KEYWORD_ONLY
    parameters = [
        Parameter("prediction", Parameter.POSITIONAL_OR_KEYWORD),
        Parameter("y", Parameter.POSITIONAL_OR_KEYWORD, default=None),
        *(p.replace(default=defaults.get(n, p.default)) for n, p in given.items()),
        Parameter("mask", by_keyword, default=None),
        Parameter("weight", by_keyword, default=None),
    ]
    return Signature(parameters)
