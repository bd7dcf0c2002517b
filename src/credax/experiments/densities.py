"""Histograms and maps of density, as panels of a figure."""

from collections.abc import Mapping, Sequence

import numpy as np

from credax.report.figure import Panel
from credax.report.layers import Bars, HeatMap, Reference, Steps
from credax.report.svg import Axis, Frame


def edges(*samples: np.ndarray, bins: int = 40) -> np.ndarray:
    """Equal bins over the central 99.8 % of all samples."""
    values = np.concatenate([np.ravel(np.asarray(sample, float)) for sample in samples])
    low, high = np.quantile(values, [0.001, 0.999])
    room = 0.02 * (high - low) or 0.5
    return np.linspace(low - room, high + room, bins + 1)


def density(values: np.ndarray, bins: np.ndarray) -> np.ndarray:
    """Heights of a histogram whose whole area, what lies outside included, is one.

    >>> density(np.array([0.5, 0.5, 5.0, 1.5]), np.array([0.0, 1.0, 2.0])).tolist()
    [0.5, 0.25]
    """
    values = np.ravel(np.asarray(values, float))
    return np.histogram(values, bins)[0] / (len(values) * np.diff(bins))


def histogram_panel(
    title: str,
    series: Mapping[str, np.ndarray],
    bins: np.ndarray,
    label: str,
    top: float | None = None,
) -> Panel:
    """Outlines of histograms, one per series, over common bins; ``top`` fixes the y axis."""
    heights = [np.asarray(values, float) for values in series.values()]
    top = top or 1.08 * max(float(height.max()) for height in heights)
    frame = Frame(Axis(float(bins[0]), float(bins[-1]), label), Axis(0, top, "density"))
    return Panel(title, frame, [Steps(bins, own, number) for number, own in enumerate(heights)])


def map_panel(
    title: str, counts: np.ndarray, x: tuple[float, float, str], y: tuple[float, float, str]
) -> Panel:
    """A map of counts ``[x bins, y bins]``: colours by their square root, zero is paper."""
    frame = Frame(Axis(*x), Axis(*y), left=36, right=214, bottom=202, tick_counts=(3, 5))
    shade = np.sqrt(np.asarray(counts, float).T)
    return Panel(title, frame, [HeatMap(shade, max(float(shade.max()), 1e-12), blank_zero=True)])


def bars_panel(title: str, counts: Sequence[int], expected: float, label: str, top: float) -> Panel:
    """Counts per index as bars, and the number expected as a broken line."""
    ends = -0.5, len(counts) - 0.5
    frame = Frame(Axis(*ends, label), Axis(0, top, "networks"))
    bars = Bars(np.arange(len(counts) + 1) - 0.5, counts)
    return Panel(title, frame, [bars, Reference(ends, (expected, expected))])
