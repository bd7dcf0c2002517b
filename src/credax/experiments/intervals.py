"""Named values with intervals, one below the other, as a panel of a figure."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from credax.report.figure import Panel
from credax.report.layers import Layer, Reference
from credax.report.named_points import NamedPoints
from credax.report.svg import Axis, Frame

WIDTH, ROW = 390, 28


def intervals_panel(
    title: str,
    labels: Sequence[str],
    values: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    label: str,
    zero: bool = False,
) -> Panel:
    """A point with its name per row, dashed from ``low`` to ``high``; and a line at zero."""
    places = np.arange(len(labels), 0, -1)
    ends = 0.4, len(labels) + 0.6
    low, high = np.asarray(low, float), np.asarray(high, float)
    every = np.concatenate([low, high, [0.0] if zero else []])
    frame = Frame(
        Axis.around(every, label, pad=0.25),
        Axis(*ends, ""),
        left=10,
        right=WIDTH - 10,
        bottom=panel_size(len(labels))[1] - 40,
        tick_counts=(5, 0),
    )
    layers: list[Layer] = [Reference([0.0, 0.0], ends)] if zero else []
    layers += [
        # Below the point, where its name does not stand.
        Reference([one, other], [place - 0.3, place - 0.3])
        for one, other, place in zip(low, high, places, strict=True)
    ]
    return Panel(title, frame, [*layers, NamedPoints(values, places, labels)])


def panel_size(rows: int) -> tuple[float, float]:
    """Width and height of a panel with so many rows."""
    return WIDTH, 64 + ROW * rows
