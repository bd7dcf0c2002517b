"""Scores of real-valued predictions: the error of the mean, and the size of the spread.

Errors are taken over rows and targets; densities are summed over targets and averaged over rows.
Those of the distribution are in `credax.metrics.quantiles` and
`credax.metrics.ranked_probability`.
"""

from functools import cache
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from credax.errors import InputError
from credax.metrics.means import Weighted, add_up, mean_of, root_mean_of
from credax.metrics.namespace import namespace, ratio
from credax.metrics.streamed import streamed
from credax.metrics.streaming import Statistic, Streaming
from credax.metrics.view import GaussianView
from credax.prediction import GaussianPrediction as GaussianPrediction


@streamed
def rmse() -> Streaming:
    """Root mean squared error of the mixture's mean, over rows and targets, in the unit of ``y``.

    >>> p = GaussianPrediction(jnp.array([[[1.0], [2.0]]]), jnp.ones((1, 2, 1)))
    >>> round(float(rmse(p, jnp.array([4.0, 6.0]))), 5)
    3.53553
    """
    return root_mean_of(squared_error)


@streamed
def mse() -> Streaming:
    """Mean squared error of the mixture's mean, over rows and targets.

    >>> p = GaussianPrediction(jnp.array([[[1.0], [2.0]]]), jnp.ones((1, 2, 1)))
    >>> float(mse(p, jnp.array([4.0, 6.0])))
    12.5
    """
    return mean_of(squared_error)


@streamed
def mae() -> Streaming:
    """Mean absolute error of the mixture's mean, over rows and targets, in the unit of ``y``.

    >>> p = GaussianPrediction(jnp.array([[[1.0], [2.0]]]), jnp.ones((1, 2, 1)))
    >>> float(mae(p, jnp.array([4.0, 6.0])))
    3.5
    """
    return mean_of(absolute_error)


@streamed
def r2() -> Streaming:
    """Share of the targets' variance that the mean explains, ``1 - Σ(y - μ)² / Σ(y - ȳ)²``.

    Several targets: the mean of their own values, as in scikit-learn. NaN where a target is
    constant (scikit-learn returns 0 or 1 there).

    >>> p = GaussianPrediction(jnp.array([[[1.0], [2.0], [4.0]]]), jnp.ones((1, 3, 1)))
    >>> round(float(r2(p, jnp.array([1.0, 2.0, 3.0]))), 4)
    0.5
    """
    sentence = "a target has the same value in all rows, so there is no variance to explain"
    return Streaming(_moments(), _explained, undefined=sentence)


@streamed
def moment_matched_nll() -> Streaming:
    """Negative log-likelihood of one Gaussian with the mixture's mean and variance, nats a row.

    This is what many papers on ensembles report; `nll` is that of the mixture itself.

    >>> p = GaussianPrediction(jnp.array([[[1.0]], [[3.0]]]), jnp.array([[[0.5]], [[1.5]]]))
    >>> round(float(moment_matched_nll(p, jnp.array([2.0]))), 5)
    1.26551
    """
    return Streaming(_matched(), _mean)


@streamed
def mean_variance(*, part: Literal["total", "aleatoric", "epistemic"] = "total") -> Streaming:
    """Mean variance of the mixture over rows and targets, or a part of it.

    ``total = aleatoric (mean σ²) + epistemic (variance of the means)``. ``y`` is not needed.

    >>> p = GaussianPrediction(jnp.array([[[1.0]], [[3.0]]]), jnp.array([[[0.5]], [[1.5]]]))
    >>> [float(mean_variance(p, part=s)) for s in ("total", "aleatoric", "epistemic")]
    [2.0, 1.0, 1.0]
    """
    parts = {"total": _variance, "aleatoric": _aleatoric, "epistemic": _epistemic}
    if part not in parts:
        raise InputError(f"part is {part!r}; choose from {', '.join(parts)}")
    return mean_of(parts[part])


def squared_error(view: GaussianView) -> Any:
    """``(y - μ)²`` of every row and target."""
    return jnp.square(view.error)


def absolute_error(view: GaussianView) -> Any:
    """``|y - μ|`` of every row and target."""
    return jnp.abs(view.error)


def _variance(view: GaussianView) -> Any:
    return view.variance


def _aleatoric(view: GaussianView) -> Any:
    return view.aleatoric


def _epistemic(view: GaussianView) -> Any:
    return view.epistemic


@cache
def _matched() -> Statistic:
    def rows(view, weight):
        variance = view.variance
        each = 0.5 * (jnp.log(2 * jnp.pi * variance) + jnp.square(view.error) / variance)
        joint = jnp.sum(jnp.where(weight > 0, each, 0), axis=-1)
        return Weighted(joint, jnp.max(weight, axis=-1))

    return Statistic(rows, add_up)


def _mean(sums: Any) -> Any:
    return sums.mean


class _Moments(NamedTuple):
    weight: Any
    mean: Any
    spread: Any
    error: Any


class _Targets(NamedTuple):
    y: Any
    squared_error: Any
    weight: Any


@cache
def _moments() -> Statistic:
    def rows(view, weight):
        return _Targets(view.y, squared_error(view), weight)

    def total(rows):
        kept = rows.weight > 0

        def add(values):
            return jnp.sum(jnp.where(kept, rows.weight * values, 0), axis=0)

        weight = add(jnp.ones_like(rows.y))
        mean = ratio(add(rows.y), weight)
        return _Moments(weight, mean, add(jnp.square(rows.y - mean)), add(rows.squared_error))

    return Statistic(rows, total, merge=_joined)


def _joined(one: _Moments, other: _Moments) -> _Moments:
    # Centred sums: squares of large targets would lose the variance to rounding.
    weight = one.weight + other.weight
    share = ratio(other.weight, weight)
    apart = other.mean - one.mean
    spread = one.spread + other.spread + np.square(apart) * one.weight * share
    return _Moments(weight, one.mean + apart * share, spread, one.error + other.error)


def _explained(moments: _Moments) -> Any:
    xp = namespace(moments)
    each = xp.where(moments.spread > 0, 1 - ratio(moments.error, moments.spread), xp.nan)
    return xp.mean(each)
