"""Prediction sets: coverage and size.

``prediction`` is ``[batch, classes]`` booleans, True for the classes in a row's set; ``y`` are the
labels. Intervals of numbers are scored by `coverage`, `width` and `interval_score`, which take a
pair ``(lower, upper)`` as well as a prediction.
"""

from functools import cache, partial
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Integer

from credax.errors import InputError
from credax.metrics.metric import POSITIVE, metric, metrics, row
from credax.metrics.namespace import namespace, ratio, segment_sum
from credax.metrics.streaming import Statistic, Streaming, mean_of
from credax.metrics.view import Pair

STRATUM = 50
_row = partial(row, task="sets")
_metric = partial(metric, task="sets")


@metrics(
    _row(
        "Set coverage",
        None,
        "over rows; the target is the level that the sets were made for",
        "share of sets that hold the label",
        headline=True,
    ),
    _row(
        "Set coverage (classes)",
        None,
        "mean over the classes present",
        "share of sets that hold the label, every class counting the same",
        name="set_coverage_macro",
        options={"average": "macro"},
    ),
    _row(
        "Set coverage (worst class)",
        True,
        "least over the classes present",
        "share of sets that hold the label in the class where it is lowest",
        name="set_coverage_worst",
        options={"average": "worst"},
    ),
)
def set_coverage(*, average: Literal["micro", "macro", "worst"] = "micro") -> Streaming:
    """Share of rows whose set holds the label; ideally equal to the level it was made for.

    ``average="macro"`` is the mean over the classes present of their own coverage, and ``"worst"``
    the smallest of them.

    >>> sets = jnp.array([[True, False], [True, True], [True, False], [True, False]])
    >>> y = jnp.array([0, 1, 1, 0])
    >>> [float(set_coverage(sets, y, average=a)) for a in ("micro", "macro", "worst")]
    [0.75, 0.75, 0.5]
    """
    if average not in ("micro", "macro", "worst"):
        raise InputError(f'average is {average!r}; choose "micro", "macro" or "worst"')
    return Streaming(_by_class(), partial(_coverage, average=average))


def coverage_by_class(
    sets: Bool[Array, "batch classes"], y: Integer[Array, " batch"]
) -> Float[Array, " classes"]:
    """`set_coverage` of each class; NaN for classes without rows.

    >>> sets = jnp.array([[True, False, True], [True, True, False], [True, False, True]])
    >>> coverage_by_class(sets, jnp.array([0, 1, 1])).tolist()
    [1.0, 0.5, nan]
    """
    counts = _by_class().chunk(Pair(jnp.asarray(sets), jnp.asarray(y)), jnp.ones(len(sets)))
    return jnp.where(counts.weight > 0, ratio(counts.covered, counts.weight), jnp.nan)


@_metric(
    "Set size",
    False,
    "mean over rows",
    "number of classes in a set",
    unit="classes",
    range=POSITIVE,
    headline=True,
)
def set_size() -> Streaming:
    """Mean number of classes in a set.

    >>> float(set_size(jnp.array([[True, False], [True, True]]), jnp.array([0, 1])))
    1.5
    """
    return mean_of(_size)


@_metric("Singletons", True, "over rows", "share of sets with one class")
def singleton_share() -> Streaming:
    """Share of sets with exactly one class: rows with a single answer.

    >>> float(singleton_share(jnp.array([[True, False], [True, True]]), jnp.array([0, 1])))
    0.5
    """
    return mean_of(lambda view: _size(view) == 1)


@_metric("Empty sets", False, "over rows", "share of empty sets")
def empty_share() -> Streaming:
    """Share of sets without any class.

    >>> float(empty_share(jnp.array([[True, False], [False, False]]), jnp.array([0, 1])))
    0.5
    """
    return mean_of(lambda view: _size(view) == 0)


@_metric(
    "Coverage (worst size)",
    True,
    f"least over set sizes with at least {STRATUM} rows; NaN where there is none",
    "share of sets that hold the label among sets of the worst size",
)
def size_stratified_coverage(*, minimum: int = STRATUM) -> Streaming:
    """Least `set_coverage` among sets of equal size; sizes with fewer rows than ``minimum`` are
    left out, and NaN where none is left.

    >>> sets = jnp.array([[True, False], [True, False], [True, True]])
    >>> float(size_stratified_coverage(sets, jnp.array([0, 1, 1]), minimum=1))
    0.5
    """
    sentence = f"no size of set occurs in at least {minimum} rows"
    return Streaming(_by_size(), partial(_worst, minimum=minimum), undefined=sentence)


def _size(view: Pair) -> Any:
    return jnp.sum(view.given, axis=-1)


class _Counts(NamedTuple):
    count: Any
    weight: Any
    covered: Any


class _SetRows(NamedTuple):
    sets: Any
    y: Any
    weight: Any


def _rows(view: Pair, weight: Any) -> _SetRows:
    return _SetRows(view.given, view.y, weight)


def _add_up(rows: _SetRows, index: Any, size: int) -> _Counts:
    covered = jnp.take_along_axis(rows.sets, rows.y[:, None], axis=-1)[:, 0]
    kept = (rows.weight > 0).astype(rows.weight.dtype)
    parts = kept, rows.weight, jnp.where(covered, rows.weight, 0)
    return _Counts(*(segment_sum(part, index, size) for part in parts))


@cache
def _by_class() -> Statistic:
    return Statistic(_rows, lambda rows: _add_up(rows, rows.y, rows.sets.shape[-1]))


@cache
def _by_size() -> Statistic:
    def total(rows):
        return _add_up(rows, jnp.sum(rows.sets, axis=-1), rows.sets.shape[-1] + 1)

    return Statistic(_rows, total)


def _coverage(counts: _Counts, *, average: str) -> Any:
    xp = namespace(counts)
    if average == "micro":
        return xp.sum(counts.covered) / xp.sum(counts.weight)
    present = counts.weight > 0
    each = ratio(counts.covered, counts.weight)
    if average == "macro":
        return xp.sum(each) / xp.sum(present)
    return xp.min(xp.where(present, each, xp.inf))


def _worst(counts: _Counts, *, minimum: int) -> Any:
    xp = namespace(counts)
    enough = (counts.count >= minimum) & (counts.weight > 0)
    least = xp.min(xp.where(enough, ratio(counts.covered, counts.weight), xp.inf))
    return xp.where(xp.any(enough), least, xp.nan)
