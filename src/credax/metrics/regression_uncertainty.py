"""Uncertainty of real-valued predictions: its size, and how well it ranks and sizes errors."""

from functools import cache, partial
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp  # noqa: F401, for the examples

from credax.errors import InputError
from credax.metrics.curves import area_of_risk
from credax.metrics.equal_mass import range_sums, split_cuts
from credax.metrics.metric import ENTRIES, POSITIVE, metric, metrics, row
from credax.metrics.namespace import namespace, ratio
from credax.metrics.ranking import Blocks, Scored, blocks_of
from credax.metrics.regression import absolute_error, squared_error
from credax.metrics.streaming import Statistic, Streaming, mean_of
from credax.prediction import GaussianPrediction as GaussianPrediction

ENCE_BINS = 10
_row = partial(row, task="regression", range=POSITIVE)
_metric = partial(metric, task="regression", range=POSITIVE)


@_metric(
    "ENCE",
    False,
    f"{ENCE_BINS} bins of equal mass by predicted variance",
    "gap between the error and the predicted standard deviation, as a share of the latter",
)
def ence(*, bins: int = ENCE_BINS) -> Streaming:
    """Expected normalised calibration error: ``mean_b |RMSE_b - RMV_b| / RMV_b``.

    Entries are sorted by predicted variance and cut into bins of equal mass; ``RMV`` is the root
    mean variance of a bin. Reference: D. Levi et al., Sensors 22, 2022.

    >>> p = GaussianPrediction(jnp.zeros((1, 4, 1)), jnp.ones((1, 4, 1)))
    >>> float(ence(p, jnp.array([2.0, -2.0, 2.0, -2.0]), bins=2))
    1.0
    """
    if bins < 1:
        raise InputError(f"bins is {bins}; give at least one bin")
    return Streaming(_by_uncertainty(squared_error), partial(_normalised, bins=bins))


@metrics(
    _row(
        "AUSE",
        False,
        "absolute error, by the mixture's variance, trapezoids",
        "what the order of the predicted variances costs when the most uncertain are left out",
        unit="share of the mean error",
    ),
    _row(
        "AUSE (squared error)",
        False,
        "squared error, by the mixture's variance, trapezoids",
        "AUSE of the squared error",
        name="ause_squared",
        options={"error": "squared"},
        unit="share of the mean error",
    ),
)
def ause(*, error: Literal["absolute", "squared"] = "absolute") -> Streaming:
    """Area under the sparsification error curve.

    ``∫`` over the share of entries removed, the most uncertain first, of the mean error of the rest
    divided by the mean of all, minus the same when the largest errors are removed first. Shares are
    ``0, 1/n ... (n-1)/n``, joined by trapezoids; the uncertainty is the mixture's variance. NaN
    where there is no error at all. Reference: E. Ilg et al., ECCV 2018.

    >>> variance = jnp.array([[[1.0], [3.0], [2.0], [4.0]]])
    >>> p = GaussianPrediction(jnp.zeros((1, 4, 1)), variance)
    >>> round(float(ause(p, jnp.array([1.0, 2.0, 3.0, 4.0]))), 4)
    0.05
    """
    errors = {"absolute": absolute_error, "squared": squared_error}
    if error not in errors:
        raise InputError(f"error is {error!r}; choose from {', '.join(errors)}")
    sentence = "all errors are zero, so no order of removing them is better than another"
    return Streaming(_by_uncertainty(errors[error]), _area, undefined=sentence)


@metrics(
    *(
        _row(
            f"{part.capitalize()} variance",
            None,
            f"of the mixture, mean {ENTRIES}",
            words,
            name=f"{part}_variance",
            options={"part": part},
            unit="squared unit of y",
        )
        for part, words in (
            ("total", "total uncertainty"),
            ("aleatoric", "noise that the members see in the data"),
            ("epistemic", "variance of the members' means"),
        )
    )
)
def mean_variance(*, part: Literal["total", "aleatoric", "epistemic"] = "total") -> Streaming:
    """Mean variance of the mixture over rows and targets, or a part of it.

    ``total = aleatoric (mean σ²) + epistemic (variance of the means)``. ``y`` is not needed.

    >>> p = GaussianPrediction(jnp.array([[[1.0]], [[3.0]]]), jnp.array([[[0.5]], [[1.5]]]))
    >>> [float(mean_variance(p, part=s)) for s in ("total", "aleatoric", "epistemic")]
    [2.0, 1.0, 1.0]
    """
    parts = {
        "total": lambda view: view.variance,
        "aleatoric": lambda view: view.aleatoric,
        "epistemic": lambda view: view.epistemic,
    }
    if part not in parts:
        raise InputError(f"part is {part!r}; choose from {', '.join(parts)}")
    return mean_of(parts[part])


class _Ranked(NamedTuple):
    by_variance: Blocks
    by_error: Blocks


@cache
def _by_uncertainty(error: Any) -> Statistic:
    def rows(view, weight):
        return Scored(-view.variance, error(view), weight)

    def prepare(rows):
        return _Ranked(blocks_of(rows), blocks_of(rows._replace(score=-rows.hit)))

    return Statistic(rows, None, prepare)


def _area(ranked: _Ranked) -> Any:
    xp = namespace(ranked)
    mean = xp.sum(ranked.by_variance.hit) / xp.sum(ranked.by_variance.weight)
    excess = _integral(ranked.by_variance) - _integral(ranked.by_error)
    return xp.where(mean > 0, ratio(excess, mean), xp.nan)


def _integral(blocks: Blocks) -> Any:
    # The last entry is never removed, so the curve ends one entry short of everything.
    xp = namespace(blocks)
    return area_of_risk(blocks, rule="trapezoid") * (
        1 - blocks.mean_weight[0] / xp.sum(blocks.weight)
    )


def _normalised(ranked: _Ranked, *, bins: int) -> Any:
    xp = namespace(ranked)
    blocks = Blocks(*(xp.flip(part) for part in ranked.by_variance))
    variance = -blocks.weight * xp.where(blocks.weight > 0, blocks.score, 0)
    sums = range_sums(blocks, split_cuts(xp.sum(blocks.count), bins), variance)
    deviation = xp.sqrt(ratio(sums.score, sums.weight))
    error = xp.sqrt(ratio(sums.hit, sums.weight))
    return xp.sum(ratio(abs(error - deviation), deviation)) / xp.sum(sums.weight > 0)
