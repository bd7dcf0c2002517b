"""Before and after calibration, and how large prediction sets must be."""

from collections.abc import Callable

import numpy as np

from credax import metrics
from credax.report.classification import smooth_curve
from credax.report.markup import Markup
from credax.report.numbers import fixed, short
from credax.report.parts import key, key_line, numbers, panel, panels, plain_table, section
from credax.report.result import Comparison, Result
from credax.report.svg import Axis, Frame, drawing

_PROMISED = ("set_coverage", "interval_coverage")


def calibrated_section(comparison: Comparison) -> Markup | None:
    """Scores before and after every calibrator, with smooth reliability curves of both."""
    found = [
        (m, name, _with(comparison.of(m), lambda r, n=name: n in r.evaluation.calibrated))
        for m in comparison.methods
        for name in _names(comparison.of(m), lambda r: r.evaluation.calibrated)
    ]
    if not found:
        return None
    shown = [
        n for n in metrics.names(comparison.task, headline=True) if n in found[0][2][0].metrics
    ]
    classes = comparison.task == "classification"
    return section(
        "calibrated",
        "What does post-hoc calibration change?",
        "Post-hoc calibration: a calibrator was fitted on validation rows and applied to the test "
        "rows. Lower NLL and ECE are better; the accuracy should hardly change. Mean over seeds.",
        plain_table(
            ["method and calibrator", *[metrics.get(n).label for n in shown]],
            [row for m, name, results in found for row in _rows(m, name, results, shown)],
            "scores before and after calibration",
        ),
        _curves(found) if classes else None,
    )


def sets_section(comparison: Comparison) -> Markup | None:
    """How many classes a set holds so that the true one is inside with the nominal probability."""
    found = [
        (m, name, _with(comparison.of(m), lambda r, n=name: n in r.evaluation.sets))
        for m in comparison.methods
        for name in _names(comparison.of(m), lambda r: r.evaluation.sets)
    ]
    if not found:
        return None
    columns = [
        key.split("/")[-1]
        for key in found[0][2][0].metrics
        if key.startswith(f"calibrated/{found[0][1]}/")
    ]
    figures = [
        _sizes(m, name, results)
        for m, name, results in found
        if isinstance(results[0].evaluation.sets[name], np.ndarray)
    ]
    return section(
        "sets",
        "How large are the conformal prediction sets?",
        "Conformal prediction gives a set of classes, or an interval, that covers the truth with "
        "the nominal probability for rows exchangeable with the calibration rows. The smaller the "
        "sets, the more informative they are. Rows of all seeds together.",
        panels(figures) if figures else None,
        plain_table(
            ["method and calibrator", *[_label(c) for c in columns]],
            [
                [f"{m}, {name}", *[_beside_level(results, name, c) for c in columns]]
                for m, name, results in found
            ],
            "coverage and size of the sets",
        ),
    )


def _names(results: list[Result], part: Callable) -> list[str]:
    return list(dict.fromkeys(name for r in results for name in part(r)))


def _with(results: list[Result], wanted: Callable) -> list[Result]:
    return [r for r in results if wanted(r)]


def _label(column: str) -> str:
    return metrics.METRICS[column].label if column in metrics.METRICS else column.replace("_", " ")


def _mean(results: list[Result], key: str) -> str:
    values = [r.metrics[key] for r in results if key in r.metrics]
    return fixed(float(np.mean(values))) if values else short(None)


def _beside_level(results: list[Result], name: str, column: str) -> str:
    """A value, and beside a coverage the nominal one."""
    text = _mean(results, f"calibrated/{name}/{column}")
    level = results[0].evaluation.levels.get(name)
    if level is None or column not in _PROMISED:
        return text
    return f"{text} (nominal {level:.2f})"


def _rows(method: str, name: str, results: list[Result], shown: list[str]) -> list[list[str]]:
    before = [_mean(results, metric) for metric in shown]
    after = [_mean(results, f"calibrated/{name}/{metric}") for metric in shown]
    return [[f"{method}, as trained", *before], [f"{method}, {name}", *after]]


def _curves(found) -> list[Markup]:
    figures, rows = [], []
    for method, name, results in found:
        before = smooth_curve([(r.prediction, r.y) for r in results])
        after = smooth_curve([(r.evaluation.calibrated[name], r.y) for r in results])
        frame = Frame(
            Axis(0, 1, "confidence (probability of the predicted class)"),
            Axis(0, 1, "accuracy"),
        )
        picture = drawing(
            f"Reliability diagram of {method} before and after {name}",
            frame.axes(),
            frame.diagonal(),
            frame.line(before.confidence, before.accuracy, 1),
            frame.line(after.confidence, after.accuracy, 0),
        )
        widths = f"smooth ECE {before.width:.4f} before, {after.width:.4f} after"
        figures.append(panel(f"{method}, {name}", picture, widths))
        picks = np.linspace(0, len(before.confidence) - 1, 11).round().astype(int)
        rows += [
            [f"{method}, {name}, {before.confidence[k]:.2f}"]
            + [fixed(float(curve.accuracy[k])) for curve in (before, after)]
            for k in picks
            if np.isfinite(before.accuracy[k]) or np.isfinite(after.accuracy[k])
        ]
    return [
        key(key_line("line s1", "as trained (squares)"), key_line("line s0", "calibrated (discs)")),
        panels(figures),
        numbers(
            "Numbers: accuracy against confidence before and after",
            ["method, calibrator, confidence", "before", "after"],
            rows,
        ),
    ]


def _sizes(method: str, name: str, results: list[Result]) -> Markup:
    sizes = np.concatenate([r.evaluation.sets[name].sum(-1) for r in results])
    classes = results[0].evaluation.sets[name].shape[-1]
    edges = np.arange(classes + 2) - 0.5
    share = np.histogram(sizes, edges)[0] / len(sizes)
    frame = Frame(
        Axis(-0.5, classes + 0.5, "classes in the set"),
        Axis(0, 1.05 * float(share.max()), "share of rows"),
    )
    picture = drawing(
        f"Sizes of the sets of {method} by {name}", frame.axes(), frame.bars(edges, share, "bar")
    )
    return panel(f"{method}, {name}", picture, f"mean size {sizes.mean():.2f}")
