"""Errors of the mean of a real-valued prediction, over rows and targets."""

from functools import partial
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from credax.metrics.metric import ENTRIES, POSITIVE, REAL, metric
from credax.metrics.namespace import namespace, ratio
from credax.metrics.streaming import Statistic, Streaming, mean_of, root_mean_of
from credax.metrics.view import RegressionView
from credax.prediction import GaussianPrediction as GaussianPrediction

_metric = partial(metric, task="regression", unit="unit of y", range=POSITIVE)


@_metric(
    "RMSE", False, f"of the mixture's mean, {ENTRIES}", "root mean squared error", headline=True
)
def rmse() -> Streaming:
    """Root mean squared error of the mixture's mean, over rows and targets, in the unit of ``y``.

    >>> p = GaussianPrediction(jnp.array([[[1.0], [2.0]]]), jnp.ones((1, 2, 1)))
    >>> round(float(rmse(p, jnp.array([4.0, 6.0]))), 5)
    3.53553
    """
    return root_mean_of(squared_error)


@_metric(
    "MSE",
    False,
    f"of the mixture's mean, {ENTRIES}",
    "mean squared error",
    unit="squared unit of y",
)
def mse() -> Streaming:
    """Mean squared error of the mixture's mean, over rows and targets.

    >>> p = GaussianPrediction(jnp.array([[[1.0], [2.0]]]), jnp.ones((1, 2, 1)))
    >>> float(mse(p, jnp.array([4.0, 6.0])))
    12.5
    """
    return mean_of(squared_error)


@_metric("MAE", False, f"of the mixture's mean, {ENTRIES}", "mean absolute error")
def mae() -> Streaming:
    """Mean absolute error of the mixture's mean, over rows and targets, in the unit of ``y``.

    >>> p = GaussianPrediction(jnp.array([[[1.0], [2.0]]]), jnp.ones((1, 2, 1)))
    >>> float(mae(p, jnp.array([4.0, 6.0])))
    3.5
    """
    return mean_of(absolute_error)


@_metric(
    "R²",
    True,
    "of the mixture's mean, mean over targets; NaN for a constant target",
    "share of the targets' variance that the mean explains",
    unit="share",
    range=(REAL[0], 1.0),
)
def r2() -> Streaming:
    """Share of the targets' variance that the mean explains, ``1 - Σ(y - μ)² / Σ(y - ȳ)²``.

    Several targets: the mean of their own values, as in scikit-learn. NaN where a target is
    constant (scikit-learn returns 0 or 1 there).

    >>> p = GaussianPrediction(jnp.array([[[1.0], [2.0], [4.0]]]), jnp.ones((1, 3, 1)))
    >>> round(float(r2(p, jnp.array([1.0, 2.0, 3.0]))), 4)
    0.5
    """
    sentence = "a target has the same value in all rows, so there is no variance to explain"

    def rows(view, weight):
        return _Targets(view.y, squared_error(view), weight)

    def total(rows):
        kept = rows.weight > 0

        def add(values):
            return jnp.sum(jnp.where(kept, rows.weight * values, 0), axis=0)

        weight = add(jnp.ones_like(rows.y))
        mean = ratio(add(rows.y), weight)
        return _Moments(weight, mean, add(jnp.square(rows.y - mean)), add(rows.squared_error))

    return Streaming(Statistic(rows, total, merge=_merged), _explained, undefined=sentence)


def squared_error(view: RegressionView) -> Any:
    """``(y - μ)²`` of every row and target."""
    return jnp.square(view.error)


def absolute_error(view: RegressionView) -> Any:
    """``|y - μ|`` of every row and target."""
    return jnp.abs(view.error)


class _Moments(NamedTuple):
    weight: Any
    mean: Any
    squares: Any
    error: Any


class _Targets(NamedTuple):
    y: Any
    squared_error: Any
    weight: Any


def _merged(one: _Moments, other: _Moments) -> _Moments:
    # Centred sums: squares of large targets would lose the variance to rounding.
    weight = one.weight + other.weight
    share = ratio(other.weight, weight)
    apart = other.mean - one.mean
    squares = one.squares + other.squares + np.square(apart) * one.weight * share
    return _Moments(weight, one.mean + apart * share, squares, one.error + other.error)


def _explained(moments: _Moments) -> Any:
    xp = namespace(moments)
    each = xp.where(moments.squares > 0, 1 - ratio(moments.error, moments.squares), xp.nan)
    return xp.mean(each)
