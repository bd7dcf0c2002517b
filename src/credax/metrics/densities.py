"""Proper scores of a predictive distribution: NLL of one Gaussian, CRPS and energy score."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.metrics.metric import ENTRIES, POSITIVE, REAL, metric
from credax.metrics.streaming import Statistic, Streaming, Weighted, add_up, mean_of
from credax.metrics.view import RegressionView
from credax.mixing import member_mean
from credax.prediction import GaussianPrediction as GaussianPrediction

_metric = partial(metric, task="regression", unit="unit of y", range=POSITIVE)
QUANTILES = 200


@_metric(
    "Moment-matched NLL",
    False,
    "one Gaussian with the mixture's mean and variance, mean over rows",
    "negative log-likelihood after replacing the mixture by one Gaussian",
    unit="nats",
    range=REAL,
    headline=True,
    needs="gaussian",
)
def moment_matched_nll() -> Streaming:
    """Negative log-likelihood of one Gaussian with the mixture's mean and variance, nats per row.

    This is what many papers on ensembles report; `nll` is that of the mixture itself.

    >>> p = GaussianPrediction(jnp.array([[[1.0]], [[3.0]]]), jnp.array([[[0.5]], [[1.5]]]))
    >>> round(float(moment_matched_nll(p, jnp.array([2.0]))), 5)
    1.26551
    """

    def rows(view, weight):
        variance = view.variance
        each = 0.5 * (jnp.log(2 * jnp.pi * variance) + jnp.square(view.error) / variance)
        joint = jnp.sum(jnp.where(weight > 0, each, 0), axis=-1)
        return Weighted(joint, jnp.max(weight, axis=-1))

    return Streaming(Statistic(rows, add_up), lambda sums: sums.mean)


@_metric(
    "CRPS",
    False,
    f"exact mixture of Gaussians, others by 200 quantiles, {ENTRIES}",
    "distance between the predicted distribution and the target",
    headline=True,
    interval=1.0,
)
def crps() -> Streaming:
    """Continuous ranked probability score of the mixture, ``∫ (F(t) - 1[t ≥ y])² dt``, exactly.

    ``mean_m A(y - μ_m, σ_m) - ½ mean_{m,m'} A(μ_m - μ_m', √(σ_m² + σ_m'²))`` with
    ``A(μ, σ) = 2 σ φ(μ/σ) + μ (2 Φ(μ/σ) - 1)``, mean over rows and targets, in the unit of ``y``;
    the absolute error where the prediction is certain. Costs ``M²`` per target. Mixtures of other
    distributions: twice the mean pinball loss of 200 quantiles. Reference:
    E. P. Grimit et al., Quarterly Journal of the Royal Meteorological Society 132, 2006.

    >>> p = GaussianPrediction(jnp.zeros((1, 2, 1)), jnp.ones((1, 2, 1)))
    >>> round(float(crps(p, jnp.array([0.0, 1.0]))), 5)
    0.41807
    """
    return mean_of(_mixture_crps)


def crps_of_samples(
    samples: Float[Array, "samples *batch"], y: Float[Array, " *batch"], *, fair: bool = False
) -> Float[Array, " *batch"]:
    """The score of samples, entry by entry: ``mean |x - y| - Σ |x - x'| / (2 n²)``.

    ``fair=True`` divides the pairs by ``2 n (n - 1)``, which is unbiased for the distribution that
    the samples are from. Sorts, so no pair is formed.

    >>> x = jnp.array([1.0, 2.0, 4.0])
    >>> [round(float(crps_of_samples(x, jnp.array(3.0), fair=f)), 4) for f in (False, True)]
    [0.6667, 0.3333]
    """
    samples = jnp.asarray(samples)
    n = samples.shape[0]
    _check_samples(n, fair)
    rank = jnp.arange(1, n + 1, dtype=samples.dtype).reshape(-1, *(1,) * (samples.ndim - 1))
    pairs = 2 * jnp.sum((2 * rank - n - 1) * jnp.sort(samples, axis=0), axis=0)
    return jnp.mean(jnp.abs(samples - y), axis=0) - pairs / (2 * _pairs(n, fair))


def energy_score(
    samples: Float[Array, "samples batch targets"],
    y: Float[Array, "batch targets"],
    *,
    fair: bool = False,
) -> Float[Array, " batch"]:
    """The score for several targets at once, ``mean ‖x - y‖ - Σ ‖x - x'‖ / (2 n²)``, row by row.

    For one target it is `crps_of_samples`. Samples come from ``prediction.sample(key, n)``.
    Reference: T. Gneiting and A. E. Raftery, 2007.

    >>> x = jnp.array([[[1.0, 0.0]], [[2.0, 0.0]], [[4.0, 0.0]]])
    >>> round(float(energy_score(x, jnp.array([[3.0, 0.0]]))[0]), 4)
    0.6667
    """
    samples, y = jnp.asarray(samples), jnp.asarray(y)
    n = samples.shape[0]
    _check_samples(n, fair)

    def add(total, sample):
        return total + jnp.sum(jnp.linalg.norm(samples - sample, axis=-1), axis=0), None

    pairs, _ = jax.lax.scan(add, jnp.zeros(samples.shape[1], samples.dtype), samples)
    away = jnp.mean(jnp.linalg.norm(samples - y, axis=-1), axis=0)
    return away - pairs / (2 * _pairs(n, fair))


def _check_samples(n: int, fair: bool) -> None:
    if n < 1 + fair:
        raise InputError(f"samples has {n} along its first axis; give at least {1 + fair}")


def _pairs(n: int, fair: bool) -> int:
    return n * (n - 1) if fair else n * n


def _mean_distance(mean: Any, deviation: Any) -> Any:
    z = mean / deviation
    density = jnp.exp(-0.5 * z * z) / jnp.sqrt(2 * jnp.pi)
    return 2 * deviation * density + mean * (2 * ndtr(z) - 1)


def _mixture_crps(view: RegressionView) -> Any:
    if not view.is_gaussian:
        return _quantile_crps(view)
    weights = view.prediction.weights
    away = member_mean(_mean_distance(view.y - view.means, jnp.sqrt(view.variances)), weights)

    def add(total, member):
        mean, variance, weight = member
        deviation = jnp.sqrt(variance + view.variances)
        each = member_mean(_mean_distance(mean - view.means, deviation), weights)
        return total + (each if weight is None else weight * each), None

    own = None if weights is None else jnp.asarray(weights, away.dtype)
    pairs, _ = jax.lax.scan(add, jnp.zeros_like(away), (view.means, view.variances, own))
    return away - pairs / (2 * view.means.shape[0] if weights is None else 2)


def _quantile_crps(view: RegressionView) -> Any:
    """``2 ∫ pinball_τ dτ`` by the midpoint rule over `QUANTILES` levels."""
    levels = tuple((k + 0.5) / QUANTILES for k in range(QUANTILES))
    above = view.y - view.prediction.quantiles(levels)
    wide = jnp.asarray(levels, above.dtype)[:, None, None]
    return 2 * jnp.mean(jnp.maximum(wide * above, (wide - 1) * above), axis=0)
