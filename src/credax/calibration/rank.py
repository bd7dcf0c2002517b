"""The finite-sample quantile of split conformal prediction: a rank, by exact arithmetic."""

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Float

from credax.calibration.protocol import CalibrationWarning
from credax.errors import InputError

_LARGEST_DENOMINATOR = 10**6


def exact(alpha: Any) -> Fraction:
    """The fraction that was meant by ``alpha``: 0.1 is 1/10 and 1/3 is 1/3, not their roundings.

    >>> exact(0.1), exact(1 / 3)
    (Fraction(1, 10), Fraction(1, 3))
    """
    try:
        value = alpha if isinstance(alpha, Fraction) else Fraction(str(alpha))
    except ValueError:
        value = Fraction(0)
    if not 0 < value < 1:
        raise InputError(
            f"alpha is {alpha!r}; give the share of misses that is allowed, between 0 and 1: "
            "0.1 asks for a coverage of 90 percent"
        )
    simple = value.limit_denominator(_LARGEST_DENOMINATOR)
    return simple if float(simple) == float(value) else value


def as_alpha(alpha: Any) -> float:
    """``alpha`` checked, as the float nearest to the fraction that was meant."""
    return float(exact(alpha))


def conformal_rank(rows: int, alpha: Any) -> int:
    """``k = ceil((n + 1)(1 - alpha))``: the ``k``-th smallest score covers a new row.

    A rank of ``n + 1`` means that ``n`` rows are too few: only infinity covers.

    >>> conformal_rank(100, 0.1), conformal_rank(9, 0.1), conformal_rank(8, 0.1)
    (91, 9, 9)
    """
    return math.ceil((rows + 1) * (1 - exact(alpha)))


def rows_needed(alpha: Any) -> int:
    """The fewest calibration rows with a finite quantile, ``ceil(1/alpha) - 1``.

    >>> rows_needed(0.1), rows_needed(0.05)
    (9, 19)
    """
    return math.ceil(1 / exact(alpha)) - 1


def conformal_quantile(
    scores: Float[np.ndarray, "rows *targets"], alpha: Any
) -> Float[np.ndarray, "*targets"]:
    """The ``k``-th smallest score of each column, infinite where ``k`` exceeds the rows.

    Reference: V. Vovk, A. Gammerman and G. Shafer, Algorithmic Learning in a Random World, 2005.

    >>> float(conformal_quantile(np.array([3.0, 1.0, 2.0]), 0.5))
    2.0
    """
    scores = np.asarray(scores, np.float64)
    rank = conformal_rank(len(scores), alpha)
    if rank > len(scores):
        return np.full(scores.shape[1:], np.inf)
    return np.partition(scores, rank - 1, axis=0)[rank - 1]


def warn_if_too_few(counts: dict[str, int], alpha: Any) -> None:
    """Warn about groups (or the whole) whose sets are full because they have too few rows."""
    needed = rows_needed(alpha)
    few = [f"{name} {count}" for name, count in counts.items() if count < needed]
    if few:
        shown = ", ".join(few[:5]) + (f" and {len(few) - 5} more" if len(few) > 5 else "")
        warnings.warn(
            f"alpha = {float(alpha):g} needs at least {needed} calibration rows and there are too "
            f"few ({shown}): those sets hold everything; give more rows or a larger alpha",
            CalibrationWarning,
            stacklevel=4,
        )
