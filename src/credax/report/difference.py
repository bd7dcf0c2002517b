"""Do two means over seeds differ? One rule for the bold print and for the verdict."""

import math
from collections.abc import Sequence
from typing import Protocol

from scipy.special import stdtrit

CONFIDENCE = 0.95


class Summary(Protocol):
    """Values of some seeds with their mean and its standard error, None with one seed."""

    @property
    def values(self) -> Sequence[float]:
        """The value of every seed."""
        ...

    @property
    def mean(self) -> float:
        """Their mean."""
        ...

    @property
    def standard_error(self) -> float | None:
        """Its standard error."""
        ...


def differ(one: Summary, other: Summary) -> bool:
    """Whether two means differ by a two-sided t test at 95 %.

    The standard error of the difference is ``√(se₁² + se₂²)``, with ``n₁ + n₂ - 2`` degrees of
    freedom; with a single seed nothing differs, for no standard error is known.
    """
    if one.standard_error is None or other.standard_error is None:
        return False
    error = math.hypot(one.standard_error, other.standard_error)
    return abs(one.mean - other.mean) > errors_needed(one, other) * error


def errors_needed(one: Summary, other: Summary) -> float:
    """How many standard errors a difference must have: 4.3 with two seeds each, 2.8 with three."""
    freedom = len(one.values) + len(other.values) - 2
    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2)) if freedom > 0 else math.inf
