"""The finite-sample quantile of split conformal prediction, of all rows or per group."""

import math
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
from jaxtyping import Float, Int

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


def group_quantiles(
    scores: Float[np.ndarray, "rows *targets"],
    alpha: Any,
    groups: Any,
    label: str = "group",
    names: np.ndarray | None = None,
) -> tuple[
    Float[np.ndarray, "groups *targets"], Int[np.ndarray, " groups"], Int[np.ndarray, " groups"]
]:
    """Quantile, number of rows and name of every group; groups None is one group of all rows."""
    if groups is None:
        warn_if_too_few({"all": len(scores)}, alpha)
        return conformal_quantile(scores, alpha)[None], np.array([len(scores)]), np.array([0])
    groups = _checked(groups, len(scores))
    names = np.unique(groups) if names is None else names
    members = [groups == name for name in names]
    counts = np.array([member.sum() for member in members])
    warn_if_too_few(
        {f"{label} {name}": int(n) for name, n in zip(names, counts, strict=True)}, alpha
    )
    quantiles = [conformal_quantile(scores[member], alpha) for member in members]
    return np.stack(quantiles), counts, names


def rows_of_groups(groups: Any, names: np.ndarray, rows: int) -> Int[np.ndarray, " rows"]:
    """Where each row's group stands among the calibrated ones."""
    if groups is None:
        raise InputError(
            "groups is missing; this calibrator has a quantile for each group: "
            "pass the group of every row"
        )
    groups = _checked(groups, rows)
    unknown = np.setdiff1d(groups, names)
    if unknown.size:
        raise InputError(
            f"group {unknown[0]} was not among the calibration rows; calibrate with rows of it, "
            "or without groups"
        )
    return np.searchsorted(names, groups)


def _checked(groups: Any, rows: int) -> np.ndarray:
    groups = np.asarray(groups)
    if groups.shape != (rows,) or not np.issubdtype(groups.dtype, np.integer):
        raise InputError(
            f"groups has shape {groups.shape} and type {groups.dtype}; give one whole number per "
            f"row, shape ({rows},), or 'class' for sets of classes"
        )
    return groups
