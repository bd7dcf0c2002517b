"""Scores against the severity of corruption, one line per method."""

from collections.abc import Callable
from statistics import fmean

import numpy as np

from credax import metrics
from credax.report.markup import Markup
from credax.report.numbers import fixed
from credax.report.parts import charts, legend, numbers, section
from credax.report.result import Comparison, Result
from credax.report.svg import Axis, chart, chart_frame

SHOWN = ("accuracy", "nll", "ece")


def severity_section(comparison: Comparison) -> Markup | None:
    """Accuracy, NLL and ECE against severity, with the numbers by severity and by kind."""
    evaluated = [m for m in comparison.methods if _evaluated(comparison.of(m))]
    if not evaluated:
        return None
    names = {comparison.methods.index(m): m for m in evaluated}
    lines = {
        metric: {
            i: mean_by_severity(_evaluated(comparison.of(m)), metric) for i, m in names.items()
        }
        for metric in SHOWN
    }
    figures = [_figure(metric, by_method) for metric, by_method in lines.items()]
    words = next(r.evaluation.corruptions for m in evaluated for r in _evaluated(comparison.of(m)))
    severities = list(next(iter(lines[SHOWN[0]].values())))
    return section(
        "severity",
        "How robust is the prediction under corruption?",
        "Accuracy, NLL and ECE on corrupted test images by severity, 0 for the clean images. All "
        "types of corruption of one severity are pooled; mean over seeds. A well calibrated method "
        f"keeps its ECE low as its accuracy falls. Here: {words}.",
        charts(figures, legend(names)),
        numbers(
            "Numbers: scores by severity",
            ["severity", *[f"{_label(n)}, {m}" for n in SHOWN for m in names.values()]],
            [
                [str(s), *[fixed(lines[n][i].get(s, np.nan)) for n in SHOWN for i in names]]
                for s in severities
            ],
        ),
        numbers(
            "Numbers: accuracy and NLL by type of corruption, mean over severities",
            ["corruption", *[f"{_label(n)}, {m}" for n in SHOWN[:2] for m in names.values()]],
            _by_kind(comparison, evaluated),
        ),
    )


def mean_by_severity(results: list[Result], metric: str) -> dict[int, float]:
    """A metric at every severity, averaged over seeds."""
    severities = sorted({s for r in results for s in r.evaluation.severities})
    return {
        s: fmean(
            r.evaluation.severities[s][metric] for r in results if s in r.evaluation.severities
        )
        for s in severities
    }


def _evaluated(results: list[Result]) -> list[Result]:
    return [r for r in results if r.evaluation.severities]


def _label(metric: str) -> str:
    return metrics.get(metric).label


def _figure(metric: str, lines: dict[int, dict[int, float]]) -> Markup:
    values = [v for line in lines.values() for v in line.values()]
    highest = max(max(line) for line in lines.values())
    frame = chart_frame(
        Axis(0, max(highest, 1), "severity (0 is clean)"),
        Axis.around(values, f"{_label(metric)}, mean over seeds"),
    )
    drawn = [
        frame.line(np.array(list(line), float), np.array(list(line.values())), index)
        for index, line in lines.items()
    ]
    return chart(f"{_label(metric)} against severity, one line per method", frame.axes(), drawn)


def _by_kind(comparison: Comparison, evaluated: list[str]) -> list[list[str]]:
    kinds = dict.fromkeys(
        kind for m in evaluated for r in comparison.of(m) for kind, _ in r.evaluation.cells
    )
    return [
        [
            kind.replace("_", " "),
            *[
                fixed(_mean(comparison.of(m), lambda cell, k=kind: cell[0] == k, n))
                for n in SHOWN[:2]
                for m in evaluated
            ],
        ]
        for kind in kinds
    ]


def _mean(results: list[Result], wanted: Callable, metric: str) -> float:
    found = [
        scores[metric]
        for r in results
        for cell, scores in r.evaluation.cells.items()
        if wanted(cell)
    ]
    return fmean(found) if found else np.nan
