"""Lines, bands, points and maps in one style: what all figures draw with."""

from typing import Any

import numpy as np

from credax.report.colours import SERIES
from credax.report.svg import MARKERS, dash, marked

_MARKERS = {
    "circle": "o",
    "square": "s",
    "triangle": "^",
    "diamond": "D",
    "cross": "x",
    "plus": "+",
    "inverted": "v",
    "bar": "|",
}
_LINE = 1.4
# The page's drawings count in pixels, 96 to the inch; matplotlib in points, 72 to the inch.
POINTS_PER_PIXEL = 0.75
BAND = 0.16
DARK, GREY = "#1d1f21", "#5c6166"


def series_style(series: int, *, markers: bool = True) -> dict[str, Any]:
    """Colour, dash and marker of a series, the same as on the page."""
    lengths = [float(part) / _LINE for part in dash(series).split()]
    return {
        "color": SERIES[series % len(SERIES)],
        "linestyle": (0, lengths) if lengths else "-",
        "linewidth": _LINE,
        "marker": _MARKERS[MARKERS[series % len(MARKERS)]] if markers else "",
        "markersize": 4,
    }


def series_line(ax: Any, x: Any, y: Any, series: int, *, markers: bool = True, **options) -> Any:
    """A line of a series; of many points only some are marked."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    shown = marked(x, y, series).tolist()
    (line,) = ax.plot(x, y, **series_style(series, markers=markers), markevery=shown, **options)
    return line


def member_line(ax: Any, x: Any, y: Any, colour: Any) -> Any:
    """A thin, faint line of one member."""
    (line,) = ax.plot(x, y, color=colour, alpha=0.45, linewidth=0.6)
    return line


def band(ax: Any, x: Any, low: Any, high: Any, colour: Any, alpha: float = BAND) -> Any:
    """The area between two lines."""
    return ax.fill_between(x, low, high, color=colour, alpha=alpha, linewidth=0)


def reference(ax: Any, x: Any, y: Any, *, name: str = "reference") -> Any:
    """A thin dashed line for what is expected; ``name`` is its gid."""
    (line,) = ax.plot(x, y, color=GREY, linestyle="--", linewidth=1, gid=name)
    return line


def points(ax: Any, x: Any, y: Any, *, radius: float = 1.8, light: bool = False) -> Any:
    """Small discs, ``light`` on a map."""
    colour, alpha = ("white", 0.8) if light else (DARK, 0.45)
    size = 2 * radius * POINTS_PER_PIXEL
    style = {"color": colour, "alpha": alpha, "markersize": size, "markeredgewidth": 0}
    (drawn,) = ax.plot(np.ravel(x), np.ravel(y), "o", **style)
    return drawn


def heat_map(ax: Any, x: Any, y: Any, values: Any, *, high: float | None = None) -> Any:
    """Values ``[y, x]`` over places or edges of cells; NaN is left unpainted.

    With ``high`` the colours go from zero to it, else over the range of the values. An image in a
    vector file, for thousands of cells would be as many shapes.
    """
    ends = {} if high is None else {"vmin": 0, "vmax": high}
    values = np.ma.masked_invalid(np.asarray(values, float))
    style = {"shading": "auto", "cmap": "viridis", "rasterized": True}
    return ax.pcolormesh(x, y, values, **style, **ends)
