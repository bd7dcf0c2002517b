"""Drawings of an experiment: inside its page, and as SVG files that stand alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from credax.files import write_atomic
from credax.report.markup import Markup, element
from credax.report.png import data_uri
from credax.report.svg import COLOURS, Frame, dash, marks

PANEL_WIDTH, PANEL_HEIGHT, TITLE, GAP = 300, 234, 22, 14
# Room for a tick of six digits before the first panel's axis.
LEFT = 14

# A page has its own style sheet with these classes; a file that stands alone carries this one.
_STYLE = """
text { fill: #5c6166; font: 12px system-ui, "Segoe UI", Roboto, Arial, sans-serif; }
.label { fill: #1d1f21; } .title { fill: #1d1f21; font-weight: 600; font-size: 13px; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.grid { stroke: #d9dad6; stroke-width: 0.7; fill: none; }
.axis { stroke: #5c6166; stroke-width: 1; fill: none; }
.reference { stroke: #5c6166; stroke-width: 1.2; stroke-dasharray: 4 3; fill: none; }
.line { stroke-width: 1.7; stroke-linejoin: round; fill: none; }
.member { stroke: #0b5f95; stroke-width: 0.6; stroke-opacity: 0.55; fill: none; }
.band { fill: #0b5f95; fill-opacity: 0.16; stroke: none; }
.point { fill: #1d1f21; fill-opacity: 0.45; } .light { fill: #ffffff; fill-opacity: 0.8; }
.line.s0 { stroke: #0b5f95; } .line.s1 { stroke: #c4500a; } .line.s2 { stroke: #00795a; }
.line.s3 { stroke: #a8467f; } .line.s4 { stroke: #8a6500; } .line.s5 { stroke: #3a7fc2; }
.line.s6 { stroke: #55595e; } .line.s7 { stroke: #7a4fc0; }
.marker { stroke-width: 1.4; }
.marker.s0 { stroke: #0b5f95; fill: #0b5f95; } .marker.s1 { stroke: #c4500a; fill: #c4500a; }
.marker.s2 { stroke: #00795a; fill: #00795a; } .marker.s3 { stroke: #a8467f; fill: #a8467f; }
.marker.s4 { stroke: #8a6500; fill: #8a6500; } .marker.s5 { stroke: #3a7fc2; fill: #3a7fc2; }
.marker.s6 { stroke: #55595e; fill: #55595e; } .marker.s7 { stroke: #7a4fc0; fill: #7a4fc0; }
"""


@dataclass(frozen=True)
class Figure:
    """A drawing with the name of its file and what it shows."""

    name: str
    caption: str
    drawing: Markup
    width: float
    height: float

    def write(self, folder: Path) -> Path:
        """Write the drawing as an SVG file with its own style."""
        path = folder / f"{self.name}.svg"
        style = element("style", Markup(_STYLE))
        paper = element("rect", x="-8", width="100%", height="100%", fill="#fdfdfc")
        size = f"-8 0 {self.width + 8:g} {self.height:g}"
        text = element(
            "svg",
            style,
            paper,
            self.drawing,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=size,
            width=f"{self.width + 8:g}",
            height=f"{self.height:g}",
        )
        write_atomic(path, str(text))
        return path


def sheet(
    name: str,
    caption: str,
    panels: Sequence[tuple[str, Any]],
    columns: int,
    size: tuple[float, float] = (PANEL_WIDTH, PANEL_HEIGHT),
    series: Sequence[str] = (),
) -> Figure:
    """Titled panels of one size, each a list of layers, in rows of so many columns.

    ``series`` names the lines of the panels in a legend below.
    """
    width, height = size[0] + GAP, size[1] + TITLE + GAP
    parts = []
    for number, (title, layers) in enumerate(panels):
        across, down = LEFT + number % columns * width, number // columns * height
        heading = element("text", title, x="2", y="15", class_="title label")
        body = element("g", layers, transform=f"translate(0 {TITLE})")
        parts.append(element("g", heading, body, transform=f"translate({across:g} {down:g})"))
    across = LEFT + min(columns, len(panels)) * width
    down = -(-len(panels) // columns) * height
    legend, depth = _legend(series, across)
    parts.append(element("g", legend, transform=f"translate(0 {down:g})"))
    box = f"0 0 {across:g} {down + depth:g}"
    drawing = element("svg", parts, viewBox=box, role="img", aria_label=caption)
    return Figure(name, caption, drawing, across, down + depth)


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


def reference_line(frame: Frame, x: Any, y: Any) -> Markup:
    """A thin dashed line for what theory says, within the frame."""
    across, down = frame.at(np.asarray(x, float), np.asarray(y, float))
    steps = [
        f"{'L' if i else 'M'}{a:.1f} {b:.1f}"
        for i, (a, b) in enumerate(zip(across, down, strict=True))
    ]
    return element("path", class_="reference", d="".join(steps))


def member_line(frame: Frame, x: np.ndarray, y: np.ndarray) -> Markup:
    """A thin line of one member, only where it is inside the frame."""
    across, down = frame.at(x, y)
    # Outside the frame a line would run along its edge: the pen is lifted there instead.
    inside = (y >= frame.y.low) & (y <= frame.y.high)
    points = [
        f"{'L' if keep and before else 'M'}{a:.1f} {b:.1f}"
        for a, b, keep, before in zip(across, down, inside, np.r_[False, inside[:-1]], strict=True)
        if keep
    ]
    return element("path", class_="member", d="".join(points))


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
