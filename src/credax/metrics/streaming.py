"""Metrics from batches: sums on the device, totals in float64 on the host, the same number.

A metric has two steps. Its `Statistic` says what is kept of the rows: sums of fixed size, or, where
rows must be sorted, one or two numbers per row. ``conclude`` computes the value from it. Metrics
with the same statistic share it, so a `Collection` reads every batch once.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from credax.errors import InputError
from credax.metrics.checks import Facts, check_shapes, facts_of, raise_if_invalid
from credax.metrics.namespace import namespace
from credax.metrics.view import weighted_view


def _as_it_is(state: Any) -> Any:
    return state


def _added(one: Any, other: Any) -> Any:
    return jax.tree.map(np.add, one, other)


class UndefinedMetric(UserWarning):
    """A metric has no value for this data and is NaN; the message says why."""


@dataclass(frozen=True)
class Statistic:
    """What a metric keeps of a batch.

    ``rows(view, weight)`` gives arrays with the batch as leading axis; ``total(rows)`` adds them
    up, and None keeps them as they are (a *gather*; the arrays then include ``weight``).
    ``prepare`` is work that all metrics of the statistic share before they conclude, such as a
    sort; ``merge`` joins the sums of two batches where they cannot be added.
    """

    rows: Callable[[Any, Any], Any]
    total: Callable[[Any], Any] | None
    prepare: Callable[[Any], Any] = _as_it_is
    merge: Callable[[Any, Any], Any] = _added

    def chunk(self, view: Any, weight: Any) -> Any:
        """The state of one batch, on the device."""
        rows = self.rows(view, weight)
        return rows if self.total is None else self.total(rows)


class State(NamedTuple):
    """What has been seen: kept entries, and for each statistic its sums or its gathered chunks."""

    entries: int
    totals: tuple[Any, ...]


@dataclass(frozen=True)
class Streaming:
    """One metric in its streaming form: ``init``, ``update``, ``merge``, ``finish``.

    Calling it scores a whole prediction at once, inside a compiled program if need be.
    ``bound(prepared)``, where there is one, says how far a sketch may be from the exact value.
    ``undefined`` is the sentence for a value of NaN, which is a warning, or with ``raises`` an
    error (inside a compiled program neither can be raised, and NaN is what comes out).
    """

    statistic: Statistic
    conclude: Callable[[Any], Any]
    bound: Callable[[Any], Any] | None = None
    undefined: str = "the metric is not defined for this data"
    raises: bool = False

    def __call__(self, prediction: Any, y: Any = None, *, mask: Any = None, weight: Any = None):
        """The metric of one prediction, a scalar array."""
        return Collection({"": self})(prediction, y, mask=mask, weight=weight)[""]

    def init(self) -> State:
        """The state before the first batch."""
        return State(0, ())

    def update(self, state: State, prediction: Any, y: Any = None, **options: Any) -> State:
        """The state after one more batch; options are ``mask`` and ``weight``."""
        return Collection({"": self}).update(state, prediction, y, **options)

    def merge(self, one: State, other: State) -> State:
        """The state after the batches of both."""
        return Collection({"": self}).merge(one, other)

    def finish(self, state: State) -> float:
        """The metric of all batches, computed in float64."""
        value = Collection({"": self}).finish(state)[""]
        self.warn_if_undefined(value)
        return value

    def error_bound(self, state: State) -> float:
        """How far `finish` may be from the exact value; 0 where the form is exact."""
        return Collection({"": self}).error_bounds(state)[""]

    def warn_if_undefined(self, value: Any) -> None:
        """Warn of a value that is NaN, or raise."""
        if not np.isnan(value):
            return
        if self.raises:
            raise InputError(self.undefined)
        warnings.warn(self.undefined, UndefinedMetric, stacklevel=5)


@dataclass(frozen=True, eq=False)
class Collection:
    """Several metrics that read each batch once; values come by name.

    >>> from credax import metrics
    >>> both = Collection({"accuracy": metrics.accuracy.stream(), "ece": metrics.ece.stream()})
    >>> from credax.prediction import ClassPrediction
    >>> p = ClassPrediction.from_probs(np.array([[[0.8, 0.2], [0.8, 0.2]]]))
    >>> state = both.update(both.init(), p, np.array([0, 1]))
    >>> {name: round(value, 6) for name, value in both.finish(state).items()}
    {'accuracy': 0.5, 'ece': 0.3}
    """

    streams: Mapping[str, Streaming]

    def __call__(
        self, prediction: Any, y: Any = None, *, mask: Any = None, weight: Any = None
    ) -> dict[str, jax.Array]:
        """The metrics of one prediction as scalar arrays, inside a compiled program if need be.

        Inside one, all of it is done on the device in the prediction's own precision, and nothing
        is checked. Outside, it is a stream of one batch, with its checks and its float64.
        """
        given = prediction, y, mask, weight
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(given)):
            return _traced(self.streams, *given)
        state = self.update(self.init(), prediction, y, mask=mask, weight=weight)
        if not state.entries:
            raise InputError("mask and weight keep no row; keep at least one")
        values = self.finish(state)
        for name, stream in self.streams.items():
            stream.warn_if_undefined(values[name])
        return {name: jnp.asarray(value) for name, value in values.items()}

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The different statistics of the metrics."""
        return tuple(dict.fromkeys(stream.statistic for stream in self.streams.values()))

    def init(self) -> State:
        """The state before the first batch."""
        return State(0, ())

    def update(
        self, state: State, prediction: Any, y: Any = None, *, mask: Any = None, weight: Any = None
    ) -> State:
        """The state after one more batch."""
        y, mask, weight = _array(y), _array(mask), _array(weight)
        check_shapes(prediction, y)
        facts, chunks = _chunks(self.statistics, prediction, y, mask, weight)
        raise_if_invalid(facts)
        pairs = zip(self.statistics, chunks, strict=True)
        new = State(int(facts.entries), tuple(_host(s, chunk) for s, chunk in pairs))
        return self.merge(state, new)

    def merge(self, one: State, other: State) -> State:
        """The state after the batches of both."""
        if not one.totals or not other.totals:
            return one if one.totals else other
        zipped = zip(self.statistics, one.totals, other.totals, strict=True)
        totals = tuple(a + b if s.total is None else s.merge(a, b) for s, a, b in zipped)
        return State(one.entries + other.entries, totals)

    def finish(self, state: State) -> dict[str, float]:
        """The metrics of all batches, computed in float64; `notes` explains those that are NaN."""
        prepared = self.prepare(state)
        return {n: float(s.conclude(prepared[s.statistic])) for n, s in self.streams.items()}

    def notes(self, values: Mapping[str, float]) -> dict[str, str]:
        """Why values that are NaN are so, by name."""
        return {n: self.streams[n].undefined for n, value in values.items() if np.isnan(value)}

    def error_bounds(self, state: State) -> dict[str, float]:
        """How far each value may be from the exact one; 0 for the exact forms."""
        prepared = self.prepare(state)
        return {
            n: 0.0 if s.bound is None else float(s.bound(prepared[s.statistic]))
            for n, s in self.streams.items()
        }

    def prepare(self, state: State) -> dict[Statistic, Any]:
        """What the metrics of each statistic conclude from: gathered rows joined and sorted."""
        if not state.entries:
            raise InputError(
                "no row has been seen, or the mask drops all; update the state with data first"
            )
        return {
            s: s.prepare(total if s.total is not None else _joined(total))
            for s, total in zip(self.statistics, state.totals, strict=True)
        }


def _array(given: Any) -> Any:
    return given if given is None or hasattr(given, "shape") else np.asarray(given)


def _traced(streams: Mapping[str, Streaming], prediction, y, mask, weight) -> dict[str, jax.Array]:
    view, weight = weighted_view(prediction, y, mask, weight)
    statistics = dict.fromkeys(stream.statistic for stream in streams.values())
    prepared = {s: s.prepare(s.chunk(view, weight)) for s in statistics}
    return {name: stream.conclude(prepared[stream.statistic]) for name, stream in streams.items()}


@partial(jax.jit, static_argnums=0)
def _chunks(statistics: tuple[Statistic, ...], prediction, y, mask, weight) -> tuple[Facts, Any]:
    view, weight = weighted_view(prediction, y, mask, weight)
    return facts_of(view, weight), tuple(s.chunk(view, weight) for s in statistics)


def _host(statistic: Statistic, chunk: Any) -> Any:
    if statistic.total is not None:
        return jax.tree.map(lambda a: np.asarray(a, np.float64), chunk)
    axes = chunk.weight.ndim
    arrays = jax.tree.map(lambda a: np.asarray(a).reshape(-1, *a.shape[axes:]), chunk)
    kept = arrays.weight > 0
    if not kept.all():
        arrays = jax.tree.map(lambda a: a[kept], arrays)
    if (arrays.weight == 1).all():
        # Rows that all count once need no memory for saying so.
        arrays = arrays._replace(weight=np.broadcast_to(np.float32(1), arrays.weight.shape))
    return (arrays,)


def _joined(chunks: tuple[Any, ...]) -> Any:
    def join(*parts):
        joined = np.concatenate(parts)
        return joined.astype(np.float64) if joined.dtype.kind == "f" else joined

    return jax.tree.map(join, *chunks)


class Weighted(NamedTuple):
    """Values of the entries, ``[batch, ...]``, and their weights."""

    value: Any
    weight: Any


class Sums(NamedTuple):
    """``Σ w value`` and ``Σ w``."""

    total: Any
    weight: Any

    @property
    def mean(self) -> Any:
        """``total / weight``."""
        return self.total / self.weight


def weighted_sum(value: Any, weight: Any) -> Any:
    """``Σ w value`` over the axes of the weights; what a dropped entry holds does not matter."""
    wide = weight.reshape(weight.shape + (1,) * (value.ndim - weight.ndim))
    return jnp.sum(jnp.where(wide > 0, wide * value, 0), axis=tuple(range(weight.ndim)))


def add_up(rows: Weighted) -> Sums:
    """The sums of weighted values."""
    return Sums(weighted_sum(rows.value, rows.weight), jnp.sum(rows.weight))


@cache
def sums_of(value: Callable[[Any], Any]) -> Statistic:
    """The statistic ``Σ w value(view)``, ``Σ w``.

    A value with fewer axes than the weights is one of whole rows: a row weighs as much as the
    heaviest of its kept targets.
    """

    def rows(view, weight):
        each = jnp.asarray(value(view), weight.dtype)
        if each.ndim < weight.ndim:
            weight = jnp.max(weight, axis=tuple(range(each.ndim, weight.ndim)))
        return Weighted(each, weight)

    return Statistic(rows, add_up)


def mean_of(value: Callable[[Any], Any]) -> Streaming:
    """The metric ``Σ w value(view) / Σ w``."""
    return Streaming(sums_of(value), _mean)


def root_mean_of(value: Callable[[Any], Any]) -> Streaming:
    """The metric ``√(Σ w value(view) / Σ w)``."""
    return Streaming(sums_of(value), lambda sums: namespace(sums).sqrt(sums.mean))


def _mean(sums: Sums) -> Any:
    return sums.mean
