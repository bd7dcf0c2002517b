"""Figures of OOD detection: do rows of other data have a higher uncertainty?"""

from typing import NamedTuple

import jax
import numpy as np

from credax import metrics
from credax.report.markup import Markup
from credax.report.numbers import fixed
from credax.report.parts import (
    charts,
    key,
    key_area,
    key_line,
    legend,
    numbers,
    panel,
    panels,
    section,
)
from credax.report.result import Comparison, Result
from credax.report.svg import Axis, Frame, chart, chart_frame, drawing

BINS = 30
POINTS = 101
_SCORES = {"classification": "entropy_predictive", "regression": "total_variance"}
_WORDS = {"entropy_predictive": "predictive entropy", "total_variance": "predictive variance"}
_COLUMNS = ("auroc", "aupr_out", "aupr_in", "fpr_at_ood_recall")


class Scores(NamedTuple):
    """Scores of the test rows and of the OOD rows, seeds pooled."""

    own: np.ndarray
    ood: np.ndarray


def ood_section(comparison: Comparison) -> Markup | None:
    """Histograms of the score, ROC curves and the detection metrics, data set by data set."""
    evaluated = {m: r for m in comparison.methods if (r := _evaluated(comparison.of(m)))}
    if not evaluated:
        return None
    score = _SCORES[comparison.task]
    label = metrics.SCORES[score].label
    score_words = _WORDS.get(score, label)
    axis = f"{score_words} (nats)" if score == "entropy_predictive" else score_words
    sets = list(
        dict.fromkeys(name for rs in evaluated.values() for r in rs for name in r.evaluation.ood)
    )
    scores = {(m, s): pooled_scores(rs, s, score) for m, rs in evaluated.items() for s in sets}
    names = {comparison.methods.index(m): m for m in evaluated}
    coverage = np.linspace(0, 1, POINTS)
    curves = {s: {i: roc(scores[m, s], coverage) for i, m in names.items()} for s in sets}
    return section(
        "ood",
        "Is out-of-distribution data detected?",
        f"OOD detection by {score_words}: rows of {', '.join(sets)} are out of distribution for "
        f"{comparison.data} and should score higher. ROC curves show the true positive rate (OOD "
        "rows detected) against the false positive rate (test rows flagged). Rows of all seeds "
        "together.",
        key(key_area("bar", f"{comparison.data}, test"), key_line("outline", "OOD")),
        panels(_histogram(m, s, scores[m, s], axis) for s in sets for m in evaluated),
        charts([_roc_chart(s, curves[s]) for s in sets], legend(names)),
        numbers(
            "Numbers: detection, mean over seeds",
            [
                "method and data",
                "score",
                *[metrics.get(c).label for c in _COLUMNS],
                "OOD share",
            ],
            [
                [f"{m}, {s}", metrics.SCORES[sc].label, *_values(rs, s, sc)]
                for s in sets
                for m, rs in evaluated.items()
                for sc in metrics.SCORES
                if f"ood/{s}/auroc/{sc}" in rs[0].metrics
            ],
        ),
        numbers(
            f"Numbers: true positive rate by {score_words}",
            ["false positive rate", *[f"{m}, {s}" for s in sets for m in evaluated]],
            [
                [f"{coverage[k]:.0%}", *[fixed(c[k]) for s in sets for c in curves[s].values()]]
                for k in (1, 5, 10, 20, 30, 50)
            ],
        ),
    )


def pooled_scores(results: list[Result], name: str, score: str) -> Scores:
    """The score of the rows of every seed, test and OOD."""
    own = [_score(r.prediction, score) for r in results]
    ood = [_score(r.evaluation.ood[name], score) for r in results if name in r.evaluation.ood]
    return Scores(np.concatenate(own), np.concatenate(ood))


def roc(scores: Scores, flagged: np.ndarray) -> np.ndarray:
    """Share of OOD rows at or above the score that flags each share of the test rows.

    Ties are shared out evenly, as the area under the curve counts them.

    >>> roc(Scores(np.array([0.0, 1.0]), np.array([1.0, 1.0])), np.array([0.0, 0.5, 1.0])).tolist()
    [0.0, 1.0, 1.0]
    """
    values = np.unique(np.r_[scores.own, scores.ood])[::-1]
    false = np.r_[0, np.searchsorted(np.sort(-scores.own), -values, "right")] / len(scores.own)
    true = np.r_[0, np.searchsorted(np.sort(-scores.ood), -values, "right")] / len(scores.ood)
    # Where the curve rises straight up, the share caught is that of the upper end.
    last = np.searchsorted(false, flagged, "right") - 1
    following = np.minimum(last + 1, len(false) - 1)
    run = false[following] - false[last]
    share = np.where(run > 0, (flagged - false[last]) / np.where(run > 0, run, 1), 0.0)
    return true[last] + share * (true[following] - true[last])


def _evaluated(results: list[Result]) -> list[Result]:
    return [r for r in results if r.evaluation.ood and r.is_shown]


def _score(prediction, score: str) -> np.ndarray:
    return np.asarray(_scored(prediction, score), float)


def _scored(prediction, score: str):
    return metrics.score(score, jax.tree.map(np.asarray, prediction))


def _values(results: list[Result], name: str, score: str) -> list[str]:
    keys = [f"ood/{name}/{column}/{score}" for column in _COLUMNS] + [f"ood/{name}/prevalence"]
    return [
        fixed(float(np.mean([r.metrics[k] for r in results]))) if k in results[0].metrics else "–"
        for k in keys
    ]


def _histogram(method: str, name: str, scores: Scores, label: str) -> Markup:
    both = np.r_[scores.own, scores.ood]
    edges = np.linspace(min(both.min(), 0.0), max(both.max(), 1e-6), BINS + 1)
    own, ood = (np.histogram(v, edges)[0] / len(v) for v in scores)
    tallest = float(max(own.max(), ood.max()))
    frame = Frame(
        Axis(float(edges[0]), float(edges[-1]), label), Axis(0, 1.05 * tallest, "share of rows")
    )
    picture = drawing(
        f"{label} of the test rows and of {name} under {method}",
        frame.axes(),
        frame.bars(edges, own, "bar"),
        frame.steps(edges, ood, "outline"),
    )
    return panel(
        f"{method}: {name}", picture, f"{len(scores.own)} test rows, {len(scores.ood)} OOD"
    )


def _roc_chart(name: str, curves: dict[int, np.ndarray]) -> Markup:
    at = np.linspace(0, 1, POINTS)
    frame = chart_frame(
        Axis(0, 1, "false positive rate (test rows flagged)"),
        Axis(0, 1, f"true positive rate ({name} detected)"),
    )
    lines = [frame.line(at, curve, index) for index, curve in curves.items()]
    return chart(
        f"ROC curves of detecting {name}, one line per method",
        frame.axes(),
        frame.diagonal(),
        lines,
    )
