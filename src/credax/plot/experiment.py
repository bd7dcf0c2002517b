"""The figures of an experiment, drawn by matplotlib from the data that the page draws as SVG."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from credax.errors import InputError
from credax.plot.axes import matplotlib
from credax.plot.primitives import (
    POINTS_PER_PIXEL,
    band,
    heat_map,
    member_line,
    points,
    reference,
    series_line,
    series_style,
)
from credax.plot.saliency import member_saliency
from credax.plot.saving import check_format, save
from credax.report.colours import SERIES
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import (
    Band,
    Bars,
    HeatMap,
    Layer,
    Line,
    MemberLine,
    Points,
    Reference,
    Steps,
)
from credax.report.named_points import NamedPoints, Place
from credax.report.numbers import tick_labels
from credax.report.saliency_sheet import SaliencySheet
from credax.report.svg import Axis, Frame

_STYLE = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 8,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
}
_PIXELS_PER_INCH = 96
_TILE = 0.6
"""Inches of an image of saliency."""


def experiment_figure(figure: Figure) -> Any:
    """A figure of an experiment (``Outcome.figures``) as a matplotlib Figure.

    Panels, axes, limits, ticks, colours and names are those of the page. What a function of
    `credax.plot` draws, the same code draws here. The caption is left to the document.

    >>> from credax.report.figure import Panel, Sheet
    >>> from credax.report.layers import Line
    >>> from credax.report.svg import Axis, Frame
    >>> frame = Frame(Axis(0, 2, "epoch"), Axis(0, 1, "nats"))
    >>> panel = Panel("Loss", frame, [Line([0, 2], [1, 0])])
    >>> drawn = experiment_figure(Sheet("loss", "Loss by epoch.", [panel], 1))
    >>> drawn.axes[0].get_title(loc="left"), drawn.axes[0].get_xlabel()
    ('Loss', 'epoch')
    """
    with matplotlib().rc_context(_STYLE):
        match figure:
            case Sheet():
                return _sheet(figure)
            case SaliencySheet():
                return _saliency(figure)
    raise InputError(
        f"figure is a {type(figure).__name__}; give a Sheet or a SaliencySheet, such as one of the "
        "figures of an experiment's outcome"
    )


def save_experiment_figures(
    figures: Iterable[Figure], folder: str | Path, kind: str = "pdf"
) -> list[Path]:
    """Write the figures of an experiment as ``folder/NAME.kind``; returns the paths."""
    check_format(kind)
    return [
        save(experiment_figure(own), Path(folder) / f"{own.name}.{kind}", own.caption)
        for own in figures
    ]


def _sheet(sheet: Sheet) -> Any:
    columns = max(min(sheet.columns, len(sheet.panels)), 1)
    rows = max(-(-len(sheet.panels) // columns), 1)
    width, height = (side / _PIXELS_PER_INCH for side in sheet.size)
    entries = max(int(columns * width / _legend_width(sheet)), 1)
    deep = 0.22 * -(-len(sheet.series) // entries)
    drawn = matplotlib().figure.Figure(
        figsize=(columns * width, rows * (height + 0.25) + deep), layout="compressed"
    )
    drawn.get_layout_engine().set(w_pad=0.08, h_pad=0.06)
    for number, panel in enumerate(sheet.panels, 1):
        _panel(drawn.add_subplot(rows, columns, number), panel)
    if sheet.series:
        Line2D = matplotlib().lines.Line2D
        marks = any(
            isinstance(own, Line) and own.markers for panel in sheet.panels for own in panel.layers
        )
        handles = [
            Line2D([], [], label=name, **series_style(number, markers=marks))
            for number, name in enumerate(sheet.series)
        ]
        options = {"ncols": min(entries, len(handles)), "frameon": False, "handlelength": 3}
        drawn.legend(handles=handles, loc="outside lower center", **options)
    return drawn


def _legend_width(sheet: Sheet) -> float:
    """Inches of the longest entry: the line, and about 0.065 for every letter."""
    return 0.65 + 0.065 * max((len(name) for name in sheet.series), default=0)


def _panel(ax: Any, panel: Panel) -> None:
    frame = panel.frame
    for layer in panel.layers:
        _draw(ax, layer, frame)
    ax.set_title(panel.title)
    ax.set(xscale="log" if frame.x.log else "linear", yscale="log" if frame.y.log else "linear")
    _ticks(ax.xaxis, frame.x.ticks(frame.tick_counts[0]))
    _ticks(ax.yaxis, frame.y.ticks(frame.tick_counts[1]))
    ax.set(xlabel=frame.x.label, ylabel=frame.y.label)
    ax.set(xlim=(frame.x.low, frame.x.high), ylim=(frame.y.low, frame.y.high))
    ax.set_box_aspect((frame.bottom - frame.top) / (frame.right - frame.left))
    if not any(isinstance(layer, HeatMap) for layer in panel.layers):
        ax.grid(axis="y", color="#d9dad6", linewidth=0.6)


def _ticks(axis: Any, places: tuple[float, ...]) -> None:
    """The ticks of the page, and no others."""
    axis.set_ticks(places, labels=tick_labels(places))
    axis.set_ticks([], minor=True)


def _draw(ax: Any, layer: Layer, frame: Frame) -> None:
    match layer:
        case Line(x, y, series, markers):
            clip = not (_inside(x, frame.x) and _inside(y, frame.y))
            series_line(ax, x, y, series, markers=markers, clip_on=clip)
        case MemberLine(x, y):
            member_line(ax, x, y, SERIES[0])
        case Reference(x, y):
            reference(ax, x, y)
        case Band(x, low, high, series):
            band(ax, x, low, high, SERIES[series % len(SERIES)])
        case Points(x, y, radius, light):
            points(ax, x, y, radius=radius, light=light)
        case Bars(edges, heights, series):
            width = np.diff(edges)
            style = {"color": SERIES[series % len(SERIES)], "alpha": 0.35}
            ax.bar(np.asarray(edges)[:-1] + width / 2, heights, 0.94 * width, **style)
        case Steps(edges, heights, series):
            style = series_style(series)
            ax.stairs(heights, edges, color=style["color"], linestyle=style["linestyle"], lw=1.2)
        case HeatMap():
            _map(ax, layer, frame)
        case NamedPoints(x, y, names):
            points(ax, x, y, radius=3.2)
            for *at, name, place in zip(x, y, names, layer.places(frame), strict=True):
                _name(ax, at, name, place)
        case _:
            raise InputError(f"layer is a {type(layer).__name__}; see credax.report.layers")


def _name(ax: Any, at: Any, name: str, place: Place) -> None:
    """A name beside a point, where the page has it."""
    offset = place.across * POINTS_PER_PIXEL, -place.down * POINTS_PER_PIXEL
    side = {"start": "left", "middle": "center", "end": "right"}[place.anchor]
    ax.annotate(name, at, offset, textcoords="offset points", ha=side, fontsize=7)


def _map(ax: Any, layer: HeatMap, frame: Frame) -> None:
    values = np.asarray(layer.values, float)
    if layer.blank_zero:
        values = np.where(values > 0, values, np.nan)
    x = np.linspace(frame.x.low, frame.x.high, values.shape[1] + 1)
    y = np.linspace(frame.y.low, frame.y.high, values.shape[0] + 1)
    mesh = heat_map(ax, x, y, values, high=layer.high)
    if layer.bar:
        scale = ax.figure.colorbar(mesh, cax=ax.inset_axes((1.04, 0, 0.05, 1)))
        scale.set_ticks([0, layer.high], labels=["0", f"{layer.high:g}"])
        low, high = scale.ax.get_yticklabels()
        low.set_verticalalignment("bottom")
        high.set_verticalalignment("top")


def _inside(values: Any, axis: Axis) -> bool:
    """Whether nothing lies beyond the axis: then markers on its edge are drawn whole."""
    values = np.asarray(values, float)
    values = values[np.isfinite(values)]
    return bool(((values >= axis.low) & (values <= axis.high)).all())


def _saliency(sheet: SaliencySheet) -> Any:
    # The images stand once, before the first method; a method's name needs its room too.
    widths = [
        max(_TILE * (len(own) + (number == 0)), 0.09 * len(label))
        for number, (label, own) in enumerate(sheet.gradients.items())
    ]
    size = (sum(widths) + 0.2 * len(widths), _TILE * len(sheet.inputs) + 0.6)
    drawn = matplotlib().figure.Figure(figsize=size, layout="constrained")
    drawn.get_layout_engine().set(w_pad=0.1)
    grid = drawn.add_gridspec(1, len(widths), width_ratios=widths)
    for number, (label, own) in enumerate(sheet.gradients.items()):
        ax = drawn.add_subplot(grid[number])
        member_saliency(own, sheet.inputs, members=len(own), show_inputs=number == 0, ax=ax)
        ax.set_title(label)
        ax.set_anchor("NW")
    return drawn
