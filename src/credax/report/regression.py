"""Figures of real-valued predictions: error bars, coverage, error against deviation."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from credax import metrics
from credax.prediction import RegressionPrediction
from credax.report.markup import Markup
from credax.report.numbers import fixed, short
from credax.report.parts import (
    charts,
    key,
    key_area,
    key_dot,
    key_line,
    legend,
    numbers,
    panel,
    panels,
    section,
)
from credax.report.result import Comparison, Result
from credax.report.svg import Axis, Frame, chart, chart_frame, drawing

LEVELS = tuple(np.arange(1, 20) / 20)
INTERVAL = 0.9
_DRAWN_ROWS = 160
_DEVIATION_BINS = 10
_TABLE_ROWS = 20
_coverage_curve = jax.jit(metrics.coverage_curve, static_argnames="levels")


class Rows(NamedTuple):
    """Some test rows of the first target: truth, mean, central interval, epistemic deviation."""

    y: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    epistemic: np.ndarray


def chosen_rows(result: Result, rows: np.ndarray) -> Rows:
    """The prediction of one result for some of its rows."""
    (prediction, y), *_ = _pairs([result])
    return Rows(y[rows, 0], *[np.asarray(a, float) for a in _first_target_of(prediction, rows)])


@jax.jit
def _first_target_of(prediction: RegressionPrediction, rows):
    some = prediction.select(rows)
    one = jax.tree.map(lambda leaf: leaf[:, :, :1], some)
    return one.mean, *one.interval(INTERVAL), jnp.sqrt(one.epistemic)


def scatter_section(comparison: Comparison) -> Markup | None:
    """Predicted against true value with error bars, one panel per method."""
    drawn = {m: r[0] for m in comparison.methods if (r := comparison.shown(m))}
    if not drawn:
        return None
    points = {m: chosen_rows(r, _spread_rows(_truth(r), _DRAWN_ROWS)) for m, r in drawn.items()}
    values = np.concatenate([np.r_[p.y, p.low, p.high] for p in points.values()])
    frame = Frame(
        Axis.around(values, "true value (unit of the target)"),
        Axis.around(values, "predicted value (same unit)"),
    )
    return section(
        "scatter",
        "How large are the errors, and were they predicted?",
        f"Predicted against true values of at most {_DRAWN_ROWS} test rows, "
        f"{_first_seed(drawn)}{_first_target(drawn)}. Bars are central 90 % intervals: nine of ten "
        "should cross the dashed line.",
        panels(
            panel(
                method,
                drawing(
                    f"Predicted against true value of {method} with 90 % intervals",
                    frame.axes(),
                    frame.whiskers(p.y, p.low, p.high, "whisker"),
                    frame.diagonal(),
                    frame.points(p.y, p.mean, "dot"),
                ),
            )
            for method, p in points.items()
        ),
        numbers(
            "Numbers: some of these rows",
            ["method", "true", "predicted", "5 % quantile", "95 % quantile"],
            [
                [m, *[short(float(v[k])) for v in p[:4]]]
                for m, p in points.items()
                for k in _evenly(len(p.y), _TABLE_ROWS // 2)
            ],
        ),
    )


def coverage_section(comparison: Comparison) -> Markup | None:
    """Coverage of central intervals against their level, one line per method."""
    curves = {
        index: mean_coverage(results)
        for index, method in enumerate(comparison.methods)
        if (results := comparison.shown(method))
    }
    if not curves:
        return None
    names = {index: comparison.methods[index] for index in curves}
    frame = chart_frame(
        Axis(0.0, 1.0, "level of the interval (nominal coverage)"),
        Axis(0.0, 1.0, "coverage (share of targets inside)"),
    )
    figure = chart(
        "Coverage against level, one line per method",
        frame.axes(),
        frame.diagonal(),
        [frame.line(LEVELS, c, index) for index, c in curves.items()],
    )
    return section(
        "coverage",
        "Do the intervals cover as often as they should?",
        "Coverage of central prediction intervals against their level. Below the dashed line "
        "intervals are too narrow (overconfident), above it too wide. Mean over seeds and targets.",
        charts([figure], legend(names, key_line("reference", "nominal"))),
        numbers(
            "Numbers: coverage at every level",
            ["level", *names.values()],
            [
                [f"{level:.0%}", *[fixed(c[k]) for c in curves.values()]]
                for k, level in enumerate(LEVELS)
            ],
        ),
    )


def mean_coverage(results: list[Result]) -> np.ndarray:
    """Coverage at every level of `LEVELS`, averaged over seeds."""
    each = [_coverage_curve(prediction, y, levels=LEVELS) for prediction, y in _pairs(results)]
    return np.mean(np.asarray(each, float), axis=0)


@jax.jit
def _moments(prediction: RegressionPrediction):
    return prediction.mean, prediction.var


class ErrorByDeviation(NamedTuple):
    """Rows in bins of equal size by predicted deviation: its size and that of the error."""

    predicted: np.ndarray
    error: np.ndarray
    counts: np.ndarray


def error_by_deviation(results: list[Result]) -> ErrorByDeviation:
    """Root mean squared error and predicted deviation in bins of rising predicted deviation."""
    moments = [(*_moments(prediction), y) for prediction, y in _pairs(results)]
    variance = np.concatenate([np.asarray(var, float).ravel() for _, var, _ in moments])
    error = np.concatenate([np.asarray(mean, float).ravel() - y.ravel() for mean, _, y in moments])
    parts = np.array_split(np.argsort(variance, kind="stable"), min(_DEVIATION_BINS, len(variance)))
    return ErrorByDeviation(
        np.array([np.sqrt(variance[rows].mean()) for rows in parts]),
        np.array([np.sqrt(np.square(error[rows]).mean()) for rows in parts]),
        np.array([len(rows) for rows in parts]),
    )


def deviation_section(comparison: Comparison) -> Markup | None:
    """Actual error against predicted standard deviation, one line per method."""
    curves = {
        index: error_by_deviation(results)
        for index, method in enumerate(comparison.methods)
        if (results := comparison.shown(method))
    }
    if not curves:
        return None
    names = {index: comparison.methods[index] for index in curves}
    predicted = np.concatenate([s.predicted for s in curves.values()])
    error = np.concatenate([s.error for s in curves.values()])
    frame = chart_frame(
        Axis.around(predicted, "predicted standard deviation (unit of the target)"),
        Axis.around(error, "actual error (RMSE, same unit)", zero=True),
    )
    figure = chart(
        "Actual error against predicted standard deviation, one line per method",
        frame.axes(),
        frame.diagonal(),
        [frame.line(s.predicted, s.error, index) for index, s in curves.items()],
    )
    return section(
        "spread",
        "Is the error large where it was predicted to be?",
        f"RMSE against predicted standard deviation in {_DEVIATION_BINS} bins of equal size. "
        "Above the dashed line the error is larger than predicted. Rows of all seeds together.",
        charts([figure], legend(names, key_line("reference", "as predicted"))),
        numbers(
            "Numbers: RMSE and predicted standard deviation in every bin",
            ["method", "rows", "predicted standard deviation", "RMSE"],
            [
                [names[index], int(n), short(float(predicted)), short(float(error))]
                for index, s in curves.items()
                for predicted, error, n in zip(*s, strict=True)
            ],
        ),
    )


def function_section(comparison: Comparison) -> Markup | None:
    """The predicted function with its bands, for inputs of one dimension."""
    drawn = {
        method: results[0]
        for method in comparison.methods
        if (results := comparison.shown(method)) and comparison.inputs_for(results[0]) is not None
    }
    inputs = comparison.inputs
    if not drawn or inputs is None or inputs.ndim > 2 or int(np.prod(inputs.shape[1:])) != 1:
        return None
    x = np.asarray(inputs, float).ravel()
    rows = _spread_rows(x, _DRAWN_ROWS)
    curves = {method: chosen_rows(result, rows) for method, result in drawn.items()}
    values = np.concatenate([np.r_[c.y, c.low, c.high] for c in curves.values()])
    frame = Frame(Axis.around(x[rows], "input", pad=0.02), Axis.around(values, "target"))
    entries = (
        key_dot("point", "test rows"),
        key_line("line s0", "mean"),
        key_area("band s0", "90 % interval"),
        key_area("band inner s0", "epistemic part alone"),
    )
    return section(
        "function",
        "What does the predictive distribution look like?",
        "Predictive mean, central 90 % interval and, darker, its epistemic part (the disagreement "
        f"of the members); {_first_seed(drawn)}{_first_target(drawn)}.",
        key(*entries),
        panels(
            panel(method, _function_drawing(frame, method, x[rows], c))
            for method, c in curves.items()
        ),
        numbers(
            "Numbers: the function at some inputs",
            ["method", "input", "true", "mean", "5 % quantile", "95 % quantile"],
            [
                [m, short(float(x[rows][k])), *[short(float(v[k])) for v in c[:4]]]
                for m, c in curves.items()
                for k in _evenly(len(rows), _TABLE_ROWS // 2)
            ],
        ),
    )


def _function_drawing(frame: Frame, method: str, x: np.ndarray, c: Rows) -> Markup:
    # Of a Gaussian, so that the inner band meets the outer one when there is no other noise.
    reach = 1.6448536269514722 * c.epistemic
    return drawing(
        f"Mean and 90 % interval of {method} against the input",
        frame.axes(),
        frame.band(x, c.low, c.high, "s0"),
        frame.band(x, c.mean - reach, c.mean + reach, "inner s0"),
        frame.points(x, c.y, "point", 1.5),
        frame.line(x, c.mean, 0, markers=False),
    )


def _pairs(results: list[Result]) -> list[tuple[RegressionPrediction, np.ndarray]]:
    return [
        (r.prediction, np.asarray(r.y, float).reshape(len(r.y), -1))
        for r in results
        if isinstance(r.prediction, RegressionPrediction) and r.y is not None
    ]


def _truth(result: Result) -> np.ndarray:
    return _pairs([result])[0][1][:, 0]


def _spread_rows(values: np.ndarray, count: int) -> np.ndarray:
    """Rows evenly through the order of the values, in that order."""
    return np.argsort(values, kind="stable")[_evenly(len(values), count)]


def _evenly(length: int, count: int) -> np.ndarray:
    return np.unique(np.linspace(0, length - 1, min(length, count)).round().astype(int))


def _first_seed(drawn: dict[str, Result]) -> str:
    seeds = sorted({result.seed for result in drawn.values()})
    return f"seed {seeds[0]}" if len(seeds) == 1 else "each method's first seed"


def _first_target(drawn: dict[str, Result]) -> str:
    targets = max(_pairs([result])[0][1].shape[1] for result in drawn.values())
    return f", first of {targets} targets" if targets > 1 else ""
