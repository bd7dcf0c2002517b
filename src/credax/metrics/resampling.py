"""Standard errors and intervals of metrics: bootstrap over test points, or several seeds."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from statistics import fmean, stdev
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from credax.errors import InputError
from credax.metrics.checks import check
from credax.metrics.registry import Metric, chosen
from credax.metrics.streaming import Statistic, Streaming
from credax.metrics.view import weighted_view
from credax.prediction import Prediction

REPLICATES = 1000
_AT_ONCE = 2**21


class Interval(NamedTuple):
    """A value, its standard error, and the ends of a central interval of the given level."""

    value: float
    standard_error: float
    low: float
    high: float


def bootstrap(
    metric: str | Metric | Streaming | Callable[[Any, Any], Any],
    prediction: Prediction,
    y: Any,
    *,
    key: Key[Array, ""] | int,
    replicates: int = REPLICATES,
    level: float = 0.95,
) -> Interval:
    """Value of a metric with its standard error over test points.

    The rows are drawn anew with replacement ``replicates`` times; the standard error is the
    deviation of the values, the interval lies between their quantiles. Ties that drawing a row
    twice creates are ties as any other. ``metric`` is a name, a metric of the registry, a
    streaming form, or any function of ``(prediction, y)``. Replicates for which it is not defined
    are left out. Reference: B. Efron, Annals of Statistics 7, 1979.

    >>> p = jnp.tile(jnp.array([0.75, 0.25]), (1, 100, 1))
    >>> from credax.prediction import ClassPrediction
    >>> y = jnp.arange(100) % 4 == 0
    >>> found = bootstrap("accuracy", ClassPrediction.from_probs(p), y.astype(int), key=0)
    >>> found.value, round(found.standard_error, 2)
    (0.75, 0.04)
    """
    y = _checked(prediction, y, replicates, level)
    keys = _keys(key, replicates)
    if isinstance(metric, str):
        metric = chosen([metric], prediction)[metric]
    elif isinstance(metric, Metric):
        metric = metric.stream()
    value = float(metric(prediction, y))
    if isinstance(metric, Streaming):
        values = _replicates(metric, prediction, y, keys)
    else:
        values = [float(metric(*_drawn(k, prediction, y))) for k in keys]
    return _interval(value, np.asarray(values, float), level)


def bootstrap_all(
    prediction: Prediction,
    y: Any,
    metrics: Iterable[str] | str | None = None,
    *,
    key: Key[Array, ""] | int,
    replicates: int = REPLICATES,
    level: float = 0.95,
) -> dict[str, Interval]:
    """`bootstrap` of several metrics by name, all on the same drawings; default: the headline."""
    y = _checked(prediction, y, replicates, level)
    keys = _keys(key, replicates)
    out = {}
    for name, stream in chosen(metrics, prediction).items():
        value = float(stream(prediction, y))
        values = np.asarray(_replicates(stream, prediction, y, keys), float)
        out[name] = _interval(value, values, level)
    return out


def over_seeds(runs: Iterable[Mapping[str, float]], *, level: float = 0.95) -> dict[str, Interval]:
    """Mean over seeds of every metric that all runs have, with its standard error.

    The interval is Student's for ``level``; with one run error and interval are NaN.

    >>> [round(x, 3) for x in over_seeds([{"nll": 1.0}, {"nll": 3.0}])["nll"]]
    [2.0, 1.0, -10.706, 14.706]
    """
    from scipy.stats import t

    runs = list(runs)
    if not runs:
        raise InputError("runs is empty; give the metrics of at least one seed")
    _check_level(level)
    out = {}
    for name in [n for n in runs[0] if all(n in run for run in runs)]:
        values = [float(run[name]) for run in runs]
        error = stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
        reach = float(t.ppf((1 + level) / 2, len(values) - 1)) * error if len(values) > 1 else error
        mean = fmean(values)
        out[name] = Interval(mean, error, mean - reach, mean + reach)
    return out


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InputError(f"level is {level}; an interval's level lies strictly between 0 and 1")


def _checked(prediction: Prediction, y: Any, replicates: int, level: float) -> np.ndarray:
    if replicates < 2:
        raise InputError(f"replicates is {replicates}; give at least 2")
    _check_level(level)
    y = np.asarray(y)
    check(prediction, y)
    return y


def _keys(key: Key[Array, ""] | int, replicates: int) -> Key[Array, " replicates"]:
    key = jax.random.key(key) if isinstance(key, int) else key
    return jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(replicates))


def _drawn(key: Any, prediction: Prediction, y: np.ndarray) -> tuple[Prediction, np.ndarray]:
    rows = np.asarray(jax.random.randint(key, (len(y),), 0, len(y)))
    return prediction.select(rows), y[rows]


@partial(jax.jit, static_argnums=0)
def _rows(statistic: Statistic, prediction, y):
    return statistic.rows(*weighted_view(prediction, y, None, None))


@partial(jax.jit, static_argnums=(0, 3))
def _redrawn(streaming: Streaming, rows, keys, batch_size: int):
    count = jax.tree.leaves(rows)[0].shape[0]
    statistic = streaming.statistic

    def value(key):
        index = jax.random.randint(key, (count,), 0, count)
        drawn = jax.tree.map(lambda a: a[index], rows)
        state = drawn if statistic.total is None else statistic.total(drawn)
        return streaming.conclude(statistic.prepare(state))

    return jax.lax.map(value, keys, batch_size=batch_size)


def _replicates(streaming: Streaming, prediction, y, keys) -> Array:
    rows = _rows(streaming.statistic, prediction, y)
    size = sum(leaf.size for leaf in jax.tree.leaves(rows))
    return _redrawn(streaming, rows, keys, max(1, min(len(keys), _AT_ONCE // size)))


def _interval(value: float, values: np.ndarray, level: float) -> Interval:
    values = values[np.isfinite(values)]
    if values.size < 2:
        return Interval(value, np.nan, np.nan, np.nan)
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, float(values.std(ddof=1)), float(low), float(high))
