"""Predictions as functions of one or two inputs."""

from typing import Any

import numpy as np

from credax.errors import InputError
from credax.plot.axes import axes, require_numbers
from credax.plot.primitives import band, heat_map, member_line
from credax.plot.primitives import points as discs


def predictive_band(
    prediction: Any,
    x: Any,
    y: Any = None,
    *,
    level: float = 0.9,
    members: bool = True,
    ax: Any = None,
    label: str | None = None,
) -> Any:
    """A regression of one input: mean, central interval, members, and rows ``(x, y)`` if given.

    ``x`` are the inputs of the prediction. The inner band is epistemic (two standard deviations of
    the members' means), the outer one the interval of the predictive distribution. Rows to show are
    ``y`` at the same ``x``, or a pair of their own ``(x, y)``.
    """
    require_numbers(prediction, "a predictive band")
    ax = axes(ax)
    mean = np.asarray(prediction.mean)
    x = np.asarray(x).reshape(len(np.asarray(x)), -1)
    if x.shape[1] != 1 or mean.ndim != 1 or len(x) != len(mean):
        raise InputError(
            f"x has shape {x.shape} and the mean {mean.shape}; a band is drawn for one input and "
            "one target, a row each"
        )
    order = np.argsort(x[:, 0])
    line = x[order, 0]
    low, high = (np.asarray(end)[order] for end in prediction.interval(level))
    (curve,) = ax.plot(line, mean[order], label=label)
    colour = curve.get_color()
    band(ax, line, low, high, colour)
    inner = 2 * np.sqrt(np.asarray(prediction.epistemic))[order]
    band(ax, line, mean[order] - inner, mean[order] + inner, colour, 0.25)
    if members and prediction.num_members > 1:
        for own in np.asarray(prediction.members):
            member_line(ax, line, own[order], colour)
    if y is not None:
        rows = y if isinstance(y, tuple) else (x, y)
        discs(ax, *rows)
    ax.set(xlabel="input", ylabel="target")
    return ax


def uncertainty_map(
    posterior: Any,
    x: Any,
    y: Any = None,
    *,
    value: str = "epistemic",
    points: int = 80,
    margin: float = 0.25,
    ax: Any = None,
) -> Any:
    """A number of the prediction over the plane of two inputs, with the rows ``x`` on top.

    ``value`` is a property of the prediction: "epistemic", "total", "aleatoric", "confidence",
    "mean". ``x`` sets the range, widened by the share ``margin``; ``y`` colours its rows.
    """
    ax = axes(ax)
    x = np.asarray(x, np.float32)
    if x.ndim != 2 or x.shape[1] != 2:
        raise InputError(f"x has shape {x.shape}; a map is drawn for two inputs, [rows, 2]")
    low, high = x.min(axis=0), x.max(axis=0)
    room = margin * (high - low)
    sides = [np.linspace(a, b, points) for a, b in zip(low - room, high + room, strict=True)]
    grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2).astype(np.float32)
    values = np.asarray(getattr(posterior.predict(grid), value))
    if values.ndim != 1:
        raise InputError(
            f"value is {value!r}, which has shape {values.shape}; give one number per row, such as "
            "'epistemic'"
        )
    drawn = heat_map(ax, sides[0], sides[1], values.reshape(points, points))
    ax.figure.colorbar(drawn, ax=ax, label=value)
    colours = "white" if y is None else np.asarray(y)
    ax.scatter(*x.T, c=colours, s=8, cmap="coolwarm", edgecolors="black", linewidths=0.3)
    ax.set(xlabel="first input", ylabel="second input")
    return ax
