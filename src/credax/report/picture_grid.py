"""A grid of small pictures with names of its rows and columns, and its SVG."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from credax.report.figure import Drawing, Figure
from credax.report.layers import image
from credax.report.markup import element

_CELL, _GAP, _HEAD, _LEFT = 64, 6, 30, 150


@dataclass(frozen=True, eq=False)
class PictureGrid(Figure):
    """Pictures of bytes ``[height, width, 3]`` in rows and columns with names."""

    rows: Sequence[tuple[str, Sequence[np.ndarray]]]
    columns: Sequence[str]

    def drawn(self) -> Drawing:
        """Names above and to the left, pictures of one size."""
        step, parts = _CELL + _GAP, []
        for number, name in enumerate(self.columns):
            place = _LEFT + number * step + _CELL / 2
            parts.append(element("text", name, x=f"{place:g}", y="18", class_="middle label"))
        for number, (name, pictures) in enumerate(self.rows):
            down = _HEAD + number * step
            middle = down + _CELL / 2 + 4
            parts.append(element("text", name, x="2", y=f"{middle:g}", class_="label"))
            for across, pixels in enumerate(pictures):
                parts.append(image(pixels, _LEFT + across * step, down, _CELL, _CELL))
        width, height = _LEFT + len(self.columns) * step, _HEAD + len(self.rows) * step
        box = f"0 0 {width} {height}"
        markup = element("svg", parts, viewBox=box, role="img", aria_label=self.caption)
        return Drawing(markup, width, height)


def grey(values: np.ndarray, high: float = 1.0) -> np.ndarray:
    """Numbers from 0 to ``high`` as grey pixels.

    >>> grey(np.array([[0.0, 1.0]])).tolist()
    [[[0, 0, 0], [255, 255, 255]]]
    """
    level = np.clip(np.asarray(values, float) / high, 0, 1)
    return np.repeat(np.rint(255 * level).astype(np.uint8)[..., None], 3, axis=-1)


def partly_known(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """A grey picture whose unknown pixels are blue."""
    return np.where(known[..., None], grey(values), np.array([40, 70, 140], np.uint8))
