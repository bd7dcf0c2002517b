"""What a panel shows, as data: the page draws it as SVG, `credax.plot` by matplotlib."""

import abc
from dataclasses import dataclass
from typing import Any

import numpy as np

from credax.report.colours import rising_colours
from credax.report.markup import Markup, element
from credax.report.png import data_uri
from credax.report.svg import COLOURS, Frame


@dataclass(frozen=True, eq=False)
class Layer(abc.ABC):
    """One thing drawn into a panel, in the units of its axes."""

    @abc.abstractmethod
    def svg(self, frame: Frame) -> Markup | list[Markup]:
        """The layer inside a frame."""


@dataclass(frozen=True, eq=False)
class Line(Layer):
    """A line in the colour, dash and marker of a series."""

    x: Any
    y: Any
    series: int = 0
    markers: bool = True

    def svg(self, frame: Frame) -> Markup:
        """A line, broken where a point is not finite."""
        return frame.line(self.x, self.y, self.series, markers=self.markers)


@dataclass(frozen=True, eq=False)
class MemberLine(Layer):
    """A thin line of one member."""

    x: Any
    y: Any

    def svg(self, frame: Frame) -> Markup:
        """The line where it is inside the frame."""
        y = np.asarray(self.y)
        across, down = frame.at(self.x, y)
        # Outside the frame a line would run along its edge: the pen is lifted there instead.
        inside = (y >= frame.y.low) & (y <= frame.y.high)
        before = np.r_[False, inside[:-1]]
        points = [
            f"{'L' if keep and joined else 'M'}{a:.1f} {b:.1f}"
            for a, b, keep, joined in zip(across, down, inside, before, strict=True)
            if keep
        ]
        return element("path", class_="member", d="".join(points))


@dataclass(frozen=True, eq=False)
class Reference(Layer):
    """A thin dashed line for what theory says or what is expected."""

    x: Any
    y: Any

    def svg(self, frame: Frame) -> Markup:
        """The line within the frame."""
        across, down = frame.at(np.asarray(self.x, float), np.asarray(self.y, float))
        steps = [
            f"{'L' if i else 'M'}{a:.1f} {b:.1f}"
            for i, (a, b) in enumerate(zip(across, down, strict=True))
        ]
        return element("path", class_="reference", d="".join(steps))


@dataclass(frozen=True, eq=False)
class Band(Layer):
    """The area between two lines, in the colour of a series."""

    x: Any
    low: Any
    high: Any
    series: int = 0

    def svg(self, frame: Frame) -> Markup:
        """The area where both lines are finite."""
        return frame.band(self.x, self.low, self.high, f"s{self.series % COLOURS}")


@dataclass(frozen=True, eq=False)
class Points(Layer):
    """Small discs: dark on paper, ``light`` on a map; ``radius`` in units of the drawing."""

    x: Any
    y: Any
    radius: float = 1.8
    light: bool = False

    def svg(self, frame: Frame) -> Markup:
        """The discs that are finite."""
        return frame.points(self.x, self.y, "light" if self.light else "point", self.radius)


@dataclass(frozen=True, eq=False)
class Bars(Layer):
    """Bars standing on zero between consecutive edges."""

    edges: Any
    heights: Any
    series: int = 0

    def svg(self, frame: Frame) -> Markup:
        """The bars that are not empty."""
        return frame.bars(self.edges, self.heights, f"band s{self.series % COLOURS}")


@dataclass(frozen=True, eq=False)
class Steps(Layer):
    """The outline of a histogram, in the colour of a series."""

    edges: Any
    heights: Any
    series: int = 0

    def svg(self, frame: Frame) -> Markup:
        """One line, from zero to zero."""
        return frame.steps(self.edges, self.heights, f"line s{self.series % COLOURS}")


@dataclass(frozen=True, eq=False)
class HeatMap(Layer):
    """Values ``[y, x]`` in equal cells that fill the panel, lowest y first, brighter is more.

    Colours go from zero to ``high``. ``blank_zero`` leaves cells of zero unpainted; ``bar`` adds
    the scale of the colours.
    """

    values: Any
    high: float
    blank_zero: bool = False
    bar: bool = False

    def svg(self, frame: Frame) -> list[Markup]:
        """An image of one pixel per cell, and the scale beside it."""
        values = np.asarray(self.values, float)[::-1]
        pixels = rising_colours(values, self.high)
        if self.blank_zero:
            pixels = np.where(values[..., None] > 0, pixels, 253).astype(np.uint8)
        size = frame.right - frame.left, frame.bottom - frame.top
        cells = image(pixels, frame.left, frame.top, *size)
        return [cells, *self._scale(frame)] if self.bar else [cells]

    def _scale(self, frame: Frame) -> list[Markup]:
        colours = rising_colours(np.linspace(self.high, 0, 64)[:, None], self.high)
        left = frame.right + 8
        return [
            image(colours, left, frame.top, 8, frame.bottom - frame.top),
            _number(f"{self.high:g}", left + 12, frame.top + 10),
            _number("0", left + 12, frame.bottom),
        ]


def image(pixels: np.ndarray, x: float, y: float, width: float, height: float) -> Markup:
    """An image ``[height, width, channels]`` of bytes inside a drawing, its pixels kept sharp."""
    return element(
        "image",
        href=data_uri(pixels),
        x=f"{x:g}",
        y=f"{y:g}",
        width=f"{width:g}",
        height=f"{height:g}",
        preserveAspectRatio="none",
        style="image-rendering:pixelated",
    )


def _number(text: str, x: float, y: float) -> Markup:
    return element("text", text, x=f"{x:g}", y=f"{y:g}", class_="tick")
