"""Widths of hidden layers times a factor."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

from credax.errors import InputError


class WidthRounded(UserWarning):
    """A width times a factor was no whole multiple of the groups and was rounded up."""


def scaled_widths(widths: Sequence[int], factor: float, groups: int = 1) -> tuple[int, ...]:
    """Widths times a factor, rounded up to a multiple of ``groups`` (with a warning).

    >>> scaled_widths((64, 128), 0.5)
    (32, 64)
    """
    if not (factor > 0 and math.isfinite(factor)):
        raise InputError(f"factor is {factor}; give a positive number")
    exact = [width * factor for width in widths]
    rounded = tuple(max(groups, groups * math.ceil(w / groups - 1e-9)) for w in exact)
    if any(abs(a - b) > 1e-6 for a, b in zip(exact, rounded, strict=True)):
        warnings.warn(
            f"hidden widths {tuple(widths)} times {factor:g} are rounded up to {rounded}",
            WidthRounded,
            stacklevel=3,
        )
    return rounded


def no_groups(network: Any, groups: int) -> None:
    """Raise an error if convolution groups are asked of a network that has none."""
    if groups != 1:
        raise InputError(
            f"groups is {groups} and {type(network).__name__} has no grouped convolutions; use "
            "groups=1, or CNN or ResNet"
        )
