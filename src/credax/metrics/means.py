"""Statistics that are weighted sums over entries, and the means made of them."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp

from credax.metrics.namespace import namespace
from credax.metrics.streaming import Statistic, Streaming


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
    return Streaming(sums_of(value), _root_mean)


def _mean(sums: Sums) -> Any:
    return sums.mean


def _root_mean(sums: Sums) -> Any:
    return namespace(sums).sqrt(sums.mean)
