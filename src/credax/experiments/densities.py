"""Histograms and maps of density, as panels of a figure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from credax.experiments.figures import image
from credax.report.colours import rising_colours
from credax.report.markup import Markup, element
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
    series: Mapping[str, np.ndarray], bins: np.ndarray, label: str, top: float | None = None
) -> list[Any]:
    """Outlines of histograms, one per series, over common bins; ``top`` fixes the y axis."""
    heights = [np.asarray(values, float) for values in series.values()]
    top = top or 1.08 * max(float(height.max()) for height in heights)
    frame = Frame(Axis(float(bins[0]), float(bins[-1]), label), Axis(0, top, "density"))
    outlines = [
        frame.steps(bins, height, f"line s{number}") for number, height in enumerate(heights)
    ]
    return [frame.axes(), *outlines]


def map_panel(
    counts: np.ndarray, x: tuple[float, float, str], y: tuple[float, float, str]
) -> list[Any]:
    """A map of counts ``[x bins, y bins]``: colours by their square root, zero is paper."""
    frame = Frame(Axis(*x), Axis(*y), left=36, right=214, bottom=202, tick_counts=(3, 5))
    shade = np.sqrt(np.asarray(counts, float).T[::-1])
    pixels = rising_colours(shade, max(float(shade.max()), 1e-12))
    pixels = np.where(shade[..., None] > 0, pixels, 253).astype(np.uint8)
    size = frame.right - frame.left, frame.bottom - frame.top
    return [frame.axes(), image(pixels, frame.left, frame.top, *size)]


def bars_panel(counts: Sequence[int], expected: float, label: str, top: float) -> list[Any]:
    """Counts per index as bars, and the number expected as a broken line."""
    frame = Frame(Axis(-0.5, len(counts) - 0.5, label), Axis(0, top, "networks"))
    bins = np.arange(len(counts) + 1) - 0.5
    ends = [-0.5, len(counts) - 0.5]
    across, down = frame.at(ends, [expected, expected])
    line = element("path", class_="reference", d=f"M{across[0]:.1f} {down[0]:.1f}H{across[1]:.1f}")
    return [frame.axes(), frame.bars(bins, counts, "band s0"), line]


def words(text: str, x: float, y: float) -> Markup:
    """A remark inside a panel."""
    return element("text", text, x=f"{x:g}", y=f"{y:g}", class_="tick")
