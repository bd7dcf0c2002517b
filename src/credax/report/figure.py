"""Figures of an experiment as data: panels with layers, and their SVG for a page or a file."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from credax.files import write_atomic
from credax.report.colours import SERIES
from credax.report.layers import Layer
from credax.report.markup import Markup, element
from credax.report.svg import COLOURS, Frame, dash, marks

PANEL_WIDTH, PANEL_HEIGHT, TITLE, GAP = 300, 234, 22, 14
# Room for a tick of six digits before the first panel's axis.
LEFT = 14

# A page has its own style sheet with these classes; a file that stands alone carries this one.
_STYLE = f"""
text {{ fill: #5c6166; font: 12px system-ui, "Segoe UI", Roboto, Arial, sans-serif; }}
.label {{ fill: #1d1f21; }} .title {{ fill: #1d1f21; font-weight: 600; font-size: 13px; }}
.end {{ text-anchor: end; }} .middle {{ text-anchor: middle; }}
.grid {{ stroke: #d9dad6; stroke-width: 0.7; fill: none; }}
.axis {{ stroke: #5c6166; stroke-width: 1; fill: none; }}
.reference {{ stroke: #5c6166; stroke-width: 1.2; stroke-dasharray: 4 3; fill: none; }}
.line {{ stroke-width: 1.7; stroke-linejoin: round; fill: none; }}
.member {{ stroke: {SERIES[0]}; stroke-width: 0.6; stroke-opacity: 0.55; fill: none; }}
.band {{ fill: {SERIES[0]}; fill-opacity: 0.16; stroke: none; }}
.point {{ fill: #1d1f21; fill-opacity: 0.45; }} .light {{ fill: #ffffff; fill-opacity: 0.8; }}
.marker {{ stroke-width: 1.4; }}
""" + "".join(
    f".line.s{number} {{ stroke: {colour}; }}\n"
    f".marker.s{number} {{ stroke: {colour}; fill: {colour}; }}\n"
    f".band.s{number} {{ fill: {colour}; }}\n"
    for number, colour in enumerate(SERIES)
)


class Drawing(NamedTuple):
    """An SVG drawing and its size."""

    markup: Markup
    width: float
    height: float


@dataclass(frozen=True, eq=False)
class Figure(abc.ABC):
    """A figure with the name of its file and what it shows."""

    name: str
    caption: str

    @abc.abstractmethod
    def drawn(self) -> Drawing:
        """The figure as SVG, in the classes of the page's style sheet."""

    def write(self, folder: Path) -> Path:
        """Write the drawing as an SVG file with its own style."""
        path = folder / f"{self.name}.svg"
        markup, width, height = self.drawn()
        text = element(
            "svg",
            element("style", Markup(_STYLE)),
            element("rect", x="-8", width="100%", height="100%", fill="#fdfdfc"),
            markup,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"-8 0 {width + 8:g} {height:g}",
            width=f"{width + 8:g}",
            height=f"{height:g}",
        )
        write_atomic(path, str(text))
        return path


@dataclass(frozen=True, eq=False)
class Panel:
    """A title, two axes and the layers between them, the first at the back."""

    title: str
    frame: Frame
    layers: Sequence[Layer]

    def svg(self) -> list:
        """The axes, then every layer."""
        return [self.frame.axes(), *(layer.svg(self.frame) for layer in self.layers)]


@dataclass(frozen=True, eq=False)
class Sheet(Figure):
    """Titled panels of one size in rows of so many columns.

    ``series`` names the lines of the panels in a legend below; ``size`` is a panel's width and
    height without its title.
    """

    panels: Sequence[Panel]
    columns: int
    size: tuple[float, float] = (PANEL_WIDTH, PANEL_HEIGHT)
    series: Sequence[str] = ()

    def drawn(self) -> Drawing:
        """The panels and the legend."""
        panels, columns = self.panels, self.columns
        width, height = self.size[0] + GAP, self.size[1] + TITLE + GAP
        parts = []
        for number, panel in enumerate(panels):
            across, down = LEFT + number % columns * width, number // columns * height
            heading = element("text", panel.title, x="2", y="15", class_="title label")
            body = element("g", panel.svg(), transform=f"translate(0 {TITLE})")
            parts.append(element("g", heading, body, transform=f"translate({across:g} {down:g})"))
        across = LEFT + min(columns, len(panels)) * width
        down = -(-len(panels) // columns) * height
        legend, depth = _legend(self.series, across)
        parts.append(element("g", legend, transform=f"translate(0 {down:g})"))
        box = f"0 0 {across:g} {down + depth:g}"
        markup = element("svg", parts, viewBox=box, role="img", aria_label=self.caption)
        return Drawing(markup, across, down + depth)


def _legend(series: Sequence[str], width: float) -> tuple[list[Markup], float]:
    """A short line and a name for every series, in rows; and how deep they are."""
    entries, across, down = [], 0.0, 0.0
    for number, name in enumerate(series):
        length = 58 + 7.2 * len(name)
        if across and across + length > width:
            across, down = 0.0, down + 20
        line = element(
            "path",
            class_=f"line s{number % COLOURS}",
            d="M2 10H40",
            stroke_dasharray=dash(number) or None,
        )
        text = element("text", name, x="46", y="14")
        mark = marks([21.0], [10.0], number)
        entries.append(element("g", line, mark, text, transform=f"translate({across:g} {down:g})"))
        across += length
    return entries, down + 24 if series else 0.0
