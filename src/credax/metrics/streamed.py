"""Metrics as plain functions, written as what they keep and what they conclude."""

from collections.abc import Callable, Mapping
from functools import cache, wraps
from inspect import Parameter, Signature, signature
from typing import Any, Protocol

import jax

from credax.errors import InputError
from credax.metrics.streaming import Streaming


class StreamedMetric(Protocol):
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

    def having(self, **options: Any) -> "StreamedMetric":
        """The same metric with other defaults."""
        ...


def streamed(factory: Callable[..., Streaming]) -> StreamedMetric:
    """Turn a function from options to a `Streaming` into a metric of ``(prediction, y)``.

    The metric takes the options by keyword, and has ``metric.stream(**options)``.
    """
    return _bound(cache(factory), {})


def _bound(factory: Callable[..., Streaming], defaults: dict[str, Any]) -> Any:
    given = signature(factory).parameters
    for name in defaults:
        if name not in given:
            raise InputError(f"{factory.__name__} has no option {name!r}; it has {list(given)}")

    def stream(**options):
        return factory(**(defaults | options))

    @wraps(factory)
    def metric(prediction, y=None, *, mask=None, weight=None, **options):
        return stream(**options)(prediction, y, mask=mask, weight=weight)

    attributes: dict[str, Any] = {
        "stream": stream,
        "having": lambda **options: _bound(factory, defaults | options),
        "__signature__": _signature(given, defaults),
        "__annotations__": {},
    }
    for name, attribute in attributes.items():
        setattr(metric, name, attribute)
    return metric


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
