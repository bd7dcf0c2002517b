"""Errors of positive numbers such as depths, pixel by pixel; entries with ``y <= 0`` do not count.

``prediction`` is a mixture, whose mean is scored, or an array like ``y``. A mean that is not
positive is an error unless ``clip=(low, high)`` brings it into a range first.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax.numpy as jnp

from credax.errors import InputError
from credax.metrics.means import Sums, Weighted, add_up
from credax.metrics.namespace import namespace
from credax.metrics.streamed import streamed
from credax.metrics.streaming import Statistic, Streaming
from credax.metrics.view import GaussianView

Clip = tuple[float, float] | None
_REFUSED = (
    "a predicted depth is not positive, or no target is; pass clip=(low, high) with low above 0, "
    "and targets above 0 where they are valid"
)


@streamed
def silog(*, variance_share: float = 1.0, root: bool = False, clip: Clip = None) -> Streaming:
    """Scale-invariant logarithmic error, ``mean d² - λ (mean d)²`` with ``d = log ŷ - log y``.

    ``variance_share`` is ``λ`` (0.85 in some papers), ``root=True`` takes the square root.
    Reference: D. Eigen, C. Puhrsch and R. Fergus, NeurIPS 2014.

    >>> round(float(silog(jnp.array([1.0, 2.0, 4.0]), jnp.array([1.0, 1.0, 5.0]))), 6)
    0.152204
    """

    def conclude(sums):
        xp = namespace(sums)
        first, second = sums.mean[0], sums.mean[1]
        value = second - variance_share * first**2
        return xp.sqrt(xp.maximum(value, 0)) if root else value

    return Streaming(_errors(_log_powers, clip), conclude, undefined=_REFUSED, refuses=True)


@streamed
def log10_error(*, clip: Clip = None) -> Streaming:
    """Mean ``|log₁₀ ŷ - log₁₀ y|``.

    >>> round(float(log10_error(jnp.array([1.0, 2.0, 4.0]), jnp.array([1.0, 1.0, 5.0]))), 6)
    0.132647
    """
    return _mean_error(_log10, clip)


@streamed
def absolute_relative_error(*, clip: Clip = None) -> Streaming:
    """Mean ``|ŷ - y| / y``.

    >>> float(absolute_relative_error(jnp.array([1.0, 2.0, 4.0]), jnp.array([1.0, 1.0, 5.0])))
    0.4000000059604645
    """
    return _mean_error(_relative, clip)


@streamed
def squared_relative_error(*, root: bool = False, clip: Clip = None) -> Streaming:
    """Mean ``(ŷ - y)² / y``, in the unit of ``y``; ``root=True`` takes the square root.

    >>> float(squared_relative_error(jnp.array([1.0, 2.0, 4.0]), jnp.array([1.0, 1.0, 5.0])))
    0.4000000059604645
    """
    return _mean_error(_squared_relative, clip, root=root)


@streamed
def rmse_log(*, clip: Clip = None) -> Streaming:
    """Root mean squared error of the logarithms.

    >>> round(float(rmse_log(jnp.array([1.0, 2.0, 4.0]), jnp.array([1.0, 1.0, 5.0]))), 6)
    0.420415
    """
    return _mean_error(_log_squared, clip, root=True)


@streamed
def inverse_mae(*, clip: Clip = None) -> Streaming:
    """Mean ``|1/ŷ - 1/y|`` in 1/km for ``y`` in metres.

    >>> float(inverse_mae(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0])))
    250.0
    """
    return _mean_error(_inverse, clip)


@streamed
def inverse_rmse(*, clip: Clip = None) -> Streaming:
    """Root mean squared error of ``1/ŷ`` in 1/km for ``y`` in metres.

    >>> round(float(inverse_rmse(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0]))), 3)
    353.553
    """
    return _mean_error(_inverse_squared, clip, root=True)


@streamed
def threshold_accuracy(*, power: int = 1, clip: Clip = None) -> Streaming:
    """Share of entries with ``max(ŷ/y, y/ŷ) < 1.25^power``; a ratio of exactly that does not count.

    >>> round(float(threshold_accuracy(jnp.array([1.0, 2.0, 4.0]), jnp.array([1.0, 1.0, 5.0]))), 4)
    0.3333
    """
    if power < 1:
        raise InputError(f"power is {power}; give 1, 2 or 3")
    return _mean_error(_close(power), clip)


@cache
def _errors(error: Callable[[Any, Any], Any], clip: Clip) -> Statistic:
    if clip is not None and not 0 < clip[0] < clip[1]:
        raise InputError(f"clip is {clip}; give (low, high) with low above 0 and below high")

    def rows(view, weight):
        guess = view.mean if isinstance(view, GaussianView) else view.given
        if clip is not None:
            guess = jnp.clip(guess, *clip)
        valid = view.y > 0
        guess = jnp.where(guess > 0, guess, jnp.nan)
        return Weighted(error(guess, jnp.where(valid, view.y, 1)), jnp.where(valid, weight, 0))

    return Statistic(rows, add_up)


def _mean_error(error: Callable[[Any, Any], Any], clip: Clip, root: bool = False) -> Streaming:
    return Streaming(
        _errors(error, clip), partial(_mean, root=root), undefined=_REFUSED, refuses=True
    )


def _mean(sums: Sums, *, root: bool) -> Any:
    return namespace(sums).sqrt(sums.mean) if root else sums.mean


def _log_powers(guess: Any, y: Any) -> Any:
    difference = jnp.log(guess) - jnp.log(y)
    return jnp.stack([difference, jnp.square(difference)], axis=-1)


def _log10(guess: Any, y: Any) -> Any:
    return jnp.abs(jnp.log10(guess) - jnp.log10(y))


def _relative(guess: Any, y: Any) -> Any:
    return jnp.abs(guess - y) / y


def _squared_relative(guess: Any, y: Any) -> Any:
    return jnp.square(guess - y) / y


def _log_squared(guess: Any, y: Any) -> Any:
    return jnp.square(jnp.log(guess) - jnp.log(y))


def _inverse(guess: Any, y: Any) -> Any:
    return 1000 * jnp.abs(1 / guess - 1 / y)


def _inverse_squared(guess: Any, y: Any) -> Any:
    return jnp.square(_inverse(guess, y))


@cache
def _close(power: int):
    limit = 1.25**power

    def close(guess, y):
        # NaN must stay NaN: a comparison would turn it into "not close".
        ratio = jnp.maximum(guess / y, y / guess)
        return jnp.where(jnp.isnan(ratio), ratio, ratio < limit)

    return close
