"""Calibration: confidence against accuracy, and the coverage of intervals."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from credax import metrics
from credax.metrics.calibration import BINS
from credax.plot.axes import axes, require_classes, require_numbers
from credax.plot.primitives import reference

LEVELS = tuple(np.linspace(0.05, 0.95, 19).tolist())


def reliability(
    prediction: Any, y: Any, *, bins: int = BINS, ax: Any = None, label: str | None = None
) -> Any:
    """A reliability diagram: accuracy of the rows in each bin of the confidence.

    The diagonal is perfect calibration; points below it are overconfident. The area of a point is
    the share of the rows in its bin. Equal-width bins, empty ones left out.
    """
    require_classes(prediction, "a reliability diagram")
    ax = axes(ax)
    found = metrics.reliability(prediction, jnp.asarray(y), bins=bins)
    filled = np.asarray(found.counts) > 0
    counts = np.asarray(found.counts)[filled]
    x, height = np.asarray(found.confidence)[filled], np.asarray(found.accuracy)[filled]
    _diagonal(ax)
    (line,) = ax.plot(x, height, marker="", label=label)
    ax.scatter(x, height, s=10 + 250 * counts / counts.sum(), color=line.get_color(), alpha=0.8)
    ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    return ax


def interval_calibration(
    prediction: Any,
    y: Any,
    *,
    levels: tuple[float, ...] = LEVELS,
    ax: Any = None,
    label: str | None = None,
) -> Any:
    """Observed coverage of central intervals against their level; the diagonal is calibrated."""
    require_numbers(prediction, "the calibration of intervals")
    ax = axes(ax)
    coverage = metrics.coverage_curve(prediction, jnp.asarray(y), levels=levels)
    _diagonal(ax)
    ax.plot(levels, np.asarray(coverage), marker="o", markersize=3, label=label)
    ax.set(xlabel="level of the interval", ylabel="coverage", xlim=(0, 1), ylim=(0, 1))
    ax.set_aspect("equal")
    return ax


def _diagonal(ax: Any) -> None:
    # Once for several curves in one Axes.
    if not any(line.get_gid() == "diagonal" for line in ax.get_lines()):
        reference(ax, [0, 1], [0, 1], name="diagonal")
