"""The figure of member saliency as data, and its SVG."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from credax.report.colours import signed_colours
from credax.report.figure import Drawing, Figure
from credax.report.layers import image
from credax.report.markup import Markup, element
from credax.report.png import to_pixels, value_range

_CELL, _GAP, _HEAD = 52, 6, 36


@dataclass(frozen=True, eq=False)
class SaliencySheet(Figure):
    """A row for each input: the image, then the members' input gradients of every method.

    ``inputs`` are images ``[rows, height, width, channels]``; ``gradients`` by method
    ``[members, rows, ...]`` at them.
    """

    inputs: np.ndarray
    gradients: Mapping[str, Float[np.ndarray, "members rows inputs"]]

    def drawn(self) -> Drawing:
        """Red raises the output and blue lowers it, each map scaled by its own largest entry."""
        low, high = value_range(self.inputs)
        parts, left = [_heading("input", 0)], _CELL + 3 * _GAP
        for row, picture in enumerate(self.inputs):
            parts.append(_tile(to_pixels(picture, low, high), 0, row))
        for label, values in self.gradients.items():
            parts.append(_heading(label, left))
            for member, own in enumerate(values):
                for row, picture in enumerate(self.inputs):
                    map_ = own[row].reshape(picture.shape).sum(-1)
                    colours = signed_colours(map_, float(np.abs(map_).max()))
                    parts.append(_tile(colours, left + member * (_CELL + _GAP), row))
            left += len(values) * (_CELL + _GAP) + 2 * _GAP
        width, height = left, _HEAD + len(self.inputs) * (_CELL + _GAP)
        box = f"0 0 {width} {height}"
        markup = element("svg", parts, viewBox=box, role="img", aria_label=self.caption)
        return Drawing(markup, width, height)


def _heading(text: str, left: float) -> Markup:
    return element("text", text, x=f"{left:g}", y="20", class_="title label")


def _tile(pixels: np.ndarray, left: float, row: int) -> Markup:
    return image(pixels, left, _HEAD + row * (_CELL + _GAP), _CELL, _CELL)
