"""Training curves: loss by epoch, one line per method, the members' range as a band."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from credax.report.markup import Markup
from credax.report.numbers import short
from credax.report.parts import charts, legend, numbers, section
from credax.report.result import Comparison, Result
from credax.report.svg import COLOURS, Axis, chart, chart_frame

# From this ratio of the largest to the smallest loss on, equal steps would hide the end.
_LOG_RATIO = 30.0
_TABLE_ROWS = 12


class Curve(NamedTuple):
    """A quantity by epoch: mean over seeds, and the range over members and seeds."""

    epochs: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def curve(results: list[Result], name: str, member_name: str = "") -> Curve | None:
    """The mean over seeds of ``name`` at every epoch that any history records."""
    means: dict[float, list[float]] = {}
    ranges: dict[float, list[float]] = {}
    for entry in (entry for result in results for entry in result.history):
        if entry.get(name) is not None and "epoch" in entry:
            epoch = float(entry["epoch"])
            means.setdefault(epoch, []).append(float(entry[name]))
            members = [float(v) for v in entry.get(member_name) or ()]
            ranges.setdefault(epoch, []).extend(v for v in members if math.isfinite(v))
    if not means:
        return None
    epochs = sorted(means)
    return Curve(
        np.array(epochs),
        np.array([np.mean(means[e]) for e in epochs]),
        np.array([min(ranges[e], default=math.nan) for e in epochs]),
        np.array([max(ranges[e], default=math.nan) for e in epochs]),
    )


def training_section(comparison: Comparison) -> Markup | None:
    """Training loss, and validation NLL where the histories have it."""
    losses = curves_of(comparison, "loss", "member_loss")
    if not losses:
        return None
    checks = curves_of(comparison, "validation_nll")
    figures = [figure_of("training loss (nats per row)", losses)]
    figures += [figure_of("validation NLL (nats per row)", checks)] if checks else []
    names = {index: comparison.methods[index] for index in losses}
    return section(
        "training",
        "Did training converge?",
        "Training loss and, where there are validation rows, validation NLL per epoch. Mean over "
        "members and seeds; the band is the range over members. Losses of different methods may "
        "contain different terms, so compare their shapes and not their values.",
        charts(figures, legend(names)),
        numbers(
            "Numbers: training loss per epoch",
            ["epoch", *names.values()],
            _rows(losses.values()),
        ),
        numbers("Numbers: validation NLL per epoch", *_checks_table(comparison, checks))
        if checks
        else None,
    )


def curves_of(comparison: Comparison, name: str, member_name: str = "") -> dict[int, Curve]:
    """The curve of every method whose history records ``name``, by the method's number."""
    found = {
        index: curve(comparison.of(method), name, member_name)
        for index, method in enumerate(comparison.methods)
    }
    return {index: c for index, c in found.items() if c is not None}


def figure_of(label: str, curves: dict[int, Curve]) -> Markup:
    """One line per method against the epoch, logarithmic where the values span much."""
    values = np.concatenate([np.r_[c.mean, c.low, c.high] for c in curves.values()])
    values = values[np.isfinite(values)]
    log = values.size > 0 and values.min() > 0 and values.max() / values.min() > _LOG_RATIO
    epochs = np.concatenate([c.epochs for c in curves.values()])
    frame = chart_frame(
        Axis.around(epochs, "epoch", pad=0.02),
        Axis.around(values, f"{label}, logarithmic" if log else label, log=bool(log)),
    )
    bands = [
        frame.band(c.epochs, c.low, c.high, f"s{index % COLOURS}") for index, c in curves.items()
    ]
    lines = [frame.line(c.epochs, c.mean, index) for index, c in curves.items()]
    return chart(f"{label} per epoch, one line per method", frame.axes(), bands, lines)


def _checks_table(comparison: Comparison, checks: dict[int, Curve]):
    return ["epoch", *[comparison.methods[i] for i in checks]], _rows(checks.values())


def _rows(curves: Iterable[Curve]) -> list[list[str]]:
    curves = list(curves)
    epochs = np.unique(np.concatenate([c.epochs for c in curves]))
    picked = np.unique(np.linspace(0, len(epochs) - 1, _TABLE_ROWS).round().astype(int))
    by_epoch = [dict(zip(c.epochs.tolist(), c.mean.tolist(), strict=True)) for c in curves]
    return [
        [f"{e:g}", *[short(means.get(e)) for means in by_epoch]] for e in epochs[picked].tolist()
    ]
