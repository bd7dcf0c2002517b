"""Errors of positive numbers such as depths, per pixel; entries with ``y <= 0`` do not count.

``prediction`` is a mixture, whose mean is scored, or an array like ``y``. A mean that is not
positive is an error unless ``clip=(low, high)`` brings it into a range first.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp

from credax.errors import InputError
from credax.metrics.metric import POSITIVE, metric, metrics, row
from credax.metrics.namespace import namespace
from credax.metrics.streaming import Statistic, Streaming, Weighted, add_up
from credax.metrics.view import RegressionView

Clip = tuple[float, float] | None
_UNDEFINED = (
    "a predicted depth is not positive, or no target is; pass clip=(low, high) with low above 0, "
    "and targets above 0 where they are valid"
)
_VALID = "over entries with y > 0"
_row = partial(row, task="depth", unit="unit of y", range=POSITIVE)
_metric = partial(metric, task="depth", unit="unit of y", range=POSITIVE)


@_metric(
    "SILog",
    False,
    f"λ = 1, {_VALID}",
    "variance of the log ratio of prediction and target",
    unit="squared log",
)
def silog(*, variance_share: float = 1.0, root: bool = False, clip: Clip = None) -> Streaming:
    """Scale-invariant logarithmic error, ``mean d² - λ (mean d)²`` with ``d = log ŷ - log y``.

    ``variance_share`` is ``λ`` (0.85 in some papers), ``root=True`` takes the square root.
    Reference: D. Eigen, C. Puhrsch and R. Fergus, NeurIPS 2014.

    >>> round(float(silog(jnp.array([1.0, 2.0, 4.0]), jnp.array([1.0, 1.0, 5.0]))), 6)
    0.152204
    """

    def powers(predicted, y):
        difference = jnp.log(predicted) - jnp.log(y)
        return jnp.stack([difference, jnp.square(difference)], axis=-1)

    def conclude(sums):
        xp = namespace(sums)
        first, second = sums.mean[0], sums.mean[1]
        value = second - variance_share * first**2
        return xp.sqrt(xp.maximum(value, 0)) if root else value

    return Streaming(_errors(powers, clip), conclude, undefined=_UNDEFINED, raises=True)


@_metric("log10", False, _VALID, "absolute error of the decimal logarithm", unit="decades")
def log10_error(*, clip: Clip = None) -> Streaming:
    """Mean ``|log₁₀ ŷ - log₁₀ y|``.

    >>> round(float(log10_error(jnp.array([1.0, 2.0, 4.0]), jnp.array([1.0, 1.0, 5.0]))), 6)
    0.132647
    """
    return _mean_error(lambda predicted, y: jnp.abs(jnp.log10(predicted) - jnp.log10(y)), clip)


@_metric("ARE", False, _VALID, "absolute error as a share of the target", unit="share of y")
def absolute_relative_error(*, clip: Clip = None) -> Streaming:
    """Mean ``|ŷ - y| / y``.

    >>> float(absolute_relative_error(jnp.array([1.0, 2.0, 4.0]), jnp.array([1.0, 1.0, 5.0])))
    0.4000000059604645
    """
    return _mean_error(lambda predicted, y: jnp.abs(predicted - y) / y, clip)


@metrics(
    _row("SRE", False, _VALID, "squared error divided by the target"),
    _row(
        "RSRE",
        False,
        _VALID,
        "root of the squared relative error",
        name="root_squared_relative_error",
        options={"root": True},
        unit="root of the unit of y",
    ),
)
def squared_relative_error(*, root: bool = False, clip: Clip = None) -> Streaming:
    """Mean ``(ŷ - y)² / y``, in the unit of ``y``; ``root=True`` takes the square root.

    >>> float(squared_relative_error(jnp.array([1.0, 2.0, 4.0]), jnp.array([1.0, 1.0, 5.0])))
    0.4000000059604645
    """
    return _mean_error(lambda predicted, y: jnp.square(predicted - y) / y, clip, root=root)


@_metric("RMSE of logs", False, _VALID, "root mean squared error of the logarithm", unit="log")
def rmse_log(*, clip: Clip = None) -> Streaming:
    """Root mean squared error of the logarithms.

    >>> round(float(rmse_log(jnp.array([1.0, 2.0, 4.0]), jnp.array([1.0, 1.0, 5.0]))), 6)
    0.420415
    """
    return _mean_error(
        lambda predicted, y: jnp.square(jnp.log(predicted) - jnp.log(y)), clip, root=True
    )


@_metric("iMAE", False, f"{_VALID} in metres", "absolute error of the inverse", unit="1/km")
def inverse_mae(*, clip: Clip = None) -> Streaming:
    """Mean ``|1/ŷ - 1/y|`` in 1/km for ``y`` in metres.

    >>> float(inverse_mae(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0])))
    250.0
    """
    return _mean_error(lambda predicted, y: 1000 * jnp.abs(1 / predicted - 1 / y), clip)


@_metric(
    "iRMSE", False, f"{_VALID} in metres", "root mean squared error of the inverse", unit="1/km"
)
def inverse_rmse(*, clip: Clip = None) -> Streaming:
    """Root mean squared error of ``1/ŷ`` in 1/km for ``y`` in metres.

    >>> round(float(inverse_rmse(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0]))), 3)
    353.553
    """
    return _mean_error(
        lambda predicted, y: jnp.square(1000 * jnp.abs(1 / predicted - 1 / y)), clip, root=True
    )


@metrics(
    *(
        _row(
            f"δ{power}",
            True,
            f"ratio below 1.25^{power}, {_VALID}",
            f"share of predictions within a factor of {1.25**power:g}",
            name=f"threshold_accuracy_{power}",
            options={"power": power},
            unit="share",
            range=(0.0, 1.0),
        )
        for power in (1, 2, 3)
    )
)
def threshold_accuracy(*, power: int = 1, clip: Clip = None) -> Streaming:
    """Share of entries with ``max(ŷ/y, y/ŷ) < 1.25^power``; a ratio of exactly that does not count.

    >>> round(float(threshold_accuracy(jnp.array([1.0, 2.0, 4.0]), jnp.array([1.0, 1.0, 5.0]))), 4)
    0.3333
    """
    if power < 1:
        raise InputError(f"power is {power}; give 1, 2 or 3")
    limit = 1.25**power

    def close(predicted, y):
        # NaN must stay NaN: a comparison would turn it into "not close".
        ratio = jnp.maximum(predicted / y, y / predicted)
        return jnp.where(jnp.isnan(ratio), ratio, ratio < limit)

    return _mean_error(close, clip)


def _errors(error: Callable[[Any, Any], Any], clip: Clip) -> Statistic:
    if clip is not None and not 0 < clip[0] < clip[1]:
        raise InputError(f"clip is {clip}; give (low, high) with low above 0 and below high")

    def rows(view, weight):
        predicted = view.mean if isinstance(view, RegressionView) else view.given
        if clip is not None:
            predicted = jnp.clip(predicted, *clip)
        valid = view.y > 0
        predicted = jnp.where(predicted > 0, predicted, jnp.nan)
        return Weighted(error(predicted, jnp.where(valid, view.y, 1)), jnp.where(valid, weight, 0))

    return Statistic(rows, add_up)


def _mean_error(error: Callable[[Any, Any], Any], clip: Clip, root: bool = False) -> Streaming:
    def conclude(sums):
        return namespace(sums).sqrt(sums.mean) if root else sums.mean

    return Streaming(_errors(error, clip), conclude, undefined=_UNDEFINED, raises=True)
