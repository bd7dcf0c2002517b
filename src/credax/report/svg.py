"""A small SVG writer: axes with round ticks, lines, bands, bars and points in CSS classes.

Colours live in the page's style sheet, so that one drawing serves light, dark and printed pages;
series differ in dash and marker too, so that it can be read in black and white.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from credax.report.markup import Markup, element
from credax.report.numbers import log_ticks, tick_labels, ticks

COLOURS = 8
DASHES = ("", "7 3", "2 3", "8 3 2 3")
MARKERS = ("circle", "square", "triangle", "diamond", "cross", "plus", "inverted", "bar")
_MARKED_ALL, _MARKED_SOME = 12, 8


@dataclass(frozen=True)
class Axis:
    """A range of values with its label; ``log`` spaces them by ratio."""

    low: float
    high: float
    label: str = ""
    log: bool = False

    @classmethod
    def around(
        cls, values, label: str = "", *, zero: bool = False, log: bool = False, pad: float = 0.05
    ) -> "Axis":
        """The axis that holds the finite ones of ``values``, and zero if asked, with some room."""
        values = np.asarray(values, float).ravel()
        values = values[np.isfinite(values) & ((values > 0) | (not log))]
        if values.size == 0:
            return cls(0.1 if log else 0.0, 1.0, label, log)
        low, high = values.min(), values.max()
        if log:
            room = max((high / low) ** pad, 1.1)
            return cls(float(low / room), float(high * room), label, log)
        low, high = (min(low, 0.0), max(high, 0.0)) if zero else (low, high)
        if low == high:
            low, high = low - max(abs(low), 1.0) / 2, high + max(abs(high), 1.0) / 2
        room = pad * (high - low)
        bottom = low if zero and low == 0 else low - room
        return cls(float(bottom), float(high if zero and high == 0 else high + room), label, log)

    def place(self, values) -> np.ndarray:
        """Where the values lie between the ends, 0 to 1; beyond an end, the end; NaN stays NaN."""
        values = np.asarray(values, float)
        low, high = self.low, self.high
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                values, low, high = np.log(values), np.log(low), np.log(high)
        return np.clip((values - low) / (high - low), 0.0, 1.0)

    def ticks(self, count: int = 5) -> tuple[float, ...]:
        """Round values along the axis; none if ``count`` is 0."""
        if count == 0:
            return ()
        return log_ticks(self.low, self.high) if self.log else ticks(self.low, self.high, count)


@dataclass(frozen=True)
class Frame:
    """A plot's rectangle in a drawing and the two axes that span it; methods return layers."""

    x: Axis
    y: Axis
    left: float = 42
    top: float = 24
    right: float = 290
    bottom: float = 190
    tick_counts: tuple[int, int] = (5, 5)

    def at(self, x, y) -> tuple[np.ndarray, np.ndarray]:
        """Values to drawing coordinates."""
        across = self.left + self.x.place(x) * (self.right - self.left)
        return across, self.bottom - self.y.place(y) * (self.bottom - self.top)

    def axes(self, *, x_ticks: bool = True) -> Markup:
        """Grid, ticks, their numbers and the labels; the y label stands above its axis."""
        horizontal, vertical = self.x.ticks(self.tick_counts[0]), self.y.ticks(self.tick_counts[1])
        parts = []
        for value, label in zip(vertical, tick_labels(vertical), strict=True):
            height = float(self.at(self.x.low, value)[1])
            parts.append(_segment(self.left, height, self.right, height, "grid"))
            parts.append(_text(self.left - 6, height + 4, label, "tick end"))
        for value, label in zip(horizontal, tick_labels(horizontal), strict=True):
            across = float(self.at(value, self.y.low)[0])
            parts.append(_segment(across, self.bottom, across, self.bottom + 4, "axis"))
            if x_ticks:
                parts.append(_text(across, self.bottom + 17, label, "tick middle"))
        parts.append(_segment(self.left, self.bottom, self.right, self.bottom, "axis"))
        parts.append(_text(2, self.top - 12, self.y.label, "label"))
        if x_ticks and self.x.label:
            middle = (self.left + self.right) / 2
            parts.append(_text(middle, self.bottom + 34, self.x.label, "label middle"))
        return element("g", parts)

    def line(self, x, y, series: int = 0, *, markers: bool = True) -> Markup:
        """A line through the finite points, broken where one is not; a few points are marked."""
        across, down = self.at(x, y)
        path = element(
            "path",
            class_=f"line s{series % COLOURS}",
            d=_path(across, down),
            stroke_dasharray=dash(series) or None,
        )
        return element("g", path, self._marks(across, down, series) if markers else None)

    def _marks(self, across, down, series: int) -> Markup:
        shown = marked(across, down, series)
        return marks(across[shown], down[shown], series)

    def points(self, x, y, class_: str, radius: float = 1.8) -> Markup:
        """Small discs, those that are finite."""
        across, down = self.at(x, y)
        return element(
            "path",
            class_=class_,
            d="".join(_disc(a, b, radius) for a, b in _finite_pairs(across, down)),
        )

    def band(self, x, low, high, class_: str) -> Markup:
        """The area between two lines."""
        across, lower = self.at(x, low)
        _, upper = self.at(x, high)
        keep = np.isfinite(across) & np.isfinite(lower) & np.isfinite(upper)
        across, lower, upper = across[keep], lower[keep], upper[keep]
        outline = _path(np.r_[across, across[::-1]], np.r_[lower, upper[::-1]])
        return element("path", class_=f"band {class_}", d=outline + ("Z" if outline else ""))

    def whiskers(self, x, low, high, class_: str) -> Markup:
        """Vertical bars from ``low`` to ``high``."""
        across, lower = self.at(x, low)
        _, upper = self.at(x, high)
        keep = np.isfinite(across) & np.isfinite(lower) & np.isfinite(upper)
        strokes = zip(across[keep], lower[keep], upper[keep], strict=True)
        outline = "".join(f"M{_n(a)} {_n(b)}V{_n(c)}" for a, b, c in strokes)
        return element("path", class_=class_, d=outline)

    def bars(self, edges, heights, class_: str) -> Markup:
        """Bars standing on zero between consecutive edges; empty and NaN ones are left out."""
        outline = []
        for low, high, height in zip(edges[:-1], edges[1:], heights, strict=True):
            if np.isfinite(height) and height != 0:
                (left, right), (foot, top) = self.at([low, high], [0, height])
                outline.append(
                    f"M{_n(left + 0.5)} {_n(foot)}V{_n(top)}H{_n(right - 0.5)}V{_n(foot)}Z"
                )
        return element("path", class_=class_, d="".join(outline))

    def steps(self, edges, heights, class_: str) -> Markup:
        """The outline of a histogram as one line, from zero to zero."""
        x = np.repeat(np.asarray(edges, float), 2)
        y = np.r_[0.0, np.repeat(np.asarray(heights, float), 2), 0.0]
        return element("path", class_=class_, d=_path(*self.at(x, y)))

    def diagonal(self) -> Markup:
        """The line on which both axes agree, within the frame."""
        ends = max(self.x.low, self.y.low), min(self.x.high, self.y.high)
        return element("path", class_="reference", d=_path(*self.at(ends, ends)))

    def note(self, text: str) -> Markup:
        """A remark in the middle of an otherwise empty frame."""
        return _text(
            (self.left + self.right) / 2, (self.top + self.bottom) / 2, text, "tick middle"
        )


def drawing(description: str, *layers: Any, width: float = 300, height: float = 234) -> Markup:
    """The layers as one drawing that fills the width it is given; screen readers get a sentence."""
    return element(
        "svg", layers, viewBox=f"0 0 {_n(width)} {_n(height)}", role="img", aria_label=description
    )


def chart_frame(x: Axis, y: Axis) -> Frame:
    """The frame of a `chart`."""
    return Frame(x, y, left=48, right=430, bottom=232)


def chart(description: str, *layers: Any) -> Markup:
    """A drawing for one large figure in place of a row of small ones."""
    return drawing(description, *layers, width=440, height=276)


def swatch(series: int) -> Markup:
    """A short piece of a series' line with its marker, for legends."""
    path = element(
        "path",
        class_=f"line s{series % COLOURS}",
        d="M1 8H39",
        stroke_dasharray=dash(series) or None,
    )
    marker = marks([20.0], [8.0], series)
    return element("svg", path, marker, viewBox="0 0 40 16", class_="swatch", aria_hidden="true")


def dash(series: int) -> str:
    """The dash of a series; colours and dashes repeat at different lengths, pairs much later."""
    return DASHES[(series + series // COLOURS) % len(DASHES)]


def marked(x, y, series: int) -> np.ndarray:
    """Which points of a line get a marker: all of a few finite ones, some of many."""
    shown = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if shown.size <= _MARKED_ALL:
        return shown
    # Series start at different points, so that lines that coincide still show who is there.
    stride = shown.size / _MARKED_SOME
    start = stride * ((series * 0.38) % 1)
    return shown[(start + stride * np.arange(_MARKED_SOME)).astype(int)]


def marks(across: Iterable[float], down: Iterable[float], series: int) -> Markup:
    """The markers of a series at drawing coordinates."""
    shape = MARKERS[series % len(MARKERS)]
    outline = "".join(_marker(shape, a, b) for a, b in zip(across, down, strict=True))
    return element("path", class_=f"marker s{series % COLOURS}", d=outline)


def _marker(shape: str, x: float, y: float) -> str:
    corners = {
        "square": "m-3 -3h6v6h-6z",
        "triangle": "m0 -4l3.7 6.5h-7.4z",
        "inverted": "m0 4l3.7 -6.5h-7.4z",
        "diamond": "m0 -4.2l4.2 4.2l-4.2 4.2l-4.2 -4.2z",
        "cross": "m-3 -3l6 6m0 -6l-6 6",
        "plus": "m-3.6 0h7.2m-3.6 -3.6v7.2",
        "bar": "m-1 -4h2v8h-2z",
    }
    return _disc(x, y, 3.2) if shape == "circle" else f"M{_n(x)} {_n(y)}{corners[shape]}"


def _disc(x: float, y: float, radius: float) -> str:
    arc = f"a{_n(radius)} {_n(radius)} 0 1 0 "
    return f"M{_n(x - radius)} {_n(y)}{arc}{_n(2 * radius)} 0{arc}{_n(-2 * radius)} 0Z"


def _path(across, down) -> str:
    """Straight lines through the points; a point that is not finite lifts the pen."""
    out, lifted = [], True
    for x, y in zip(across, down, strict=True):
        finite = np.isfinite(x) and np.isfinite(y)
        if finite:
            out.append(f"{'M' if lifted else 'L'}{_n(x)} {_n(y)}")
        lifted = not finite
    return "".join(out)


def _finite_pairs(across, down):
    keep = np.isfinite(across) & np.isfinite(down)
    return zip(across[keep], down[keep], strict=True)


def _segment(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return element("path", class_=class_, d=f"M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}")


def _text(x: float, y: float, text: str, class_: str) -> Markup:
    return element("text", text, x=_n(x), y=_n(y), class_=class_)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
