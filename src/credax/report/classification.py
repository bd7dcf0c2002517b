"""Figures of class predictions: reliability, risk against coverage, disagreement when wrong."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from credax import metrics
from credax.prediction import ClassPrediction
from credax.report.markup import Markup
from credax.report.numbers import fixed, short
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
from credax.report.rows import class_rows
from credax.report.svg import Axis, Frame, chart, chart_frame, drawing

HISTOGRAM_BINS = 20
_reliability = jax.jit(metrics.reliability_of)
_risk_coverage = jax.jit(metrics.risk_coverage_of)


class Pooled(NamedTuple):
    """A reliability diagram over the rows of all seeds."""

    edges: np.ndarray
    counts: np.ndarray
    accuracy: np.ndarray
    confidence: np.ndarray


def pooled_reliability(results: list[Result]) -> Pooled:
    """Counts added over seeds; accuracy and confidence of all their rows together."""
    tables = [_reliability(rows.confidence, rows.right) for rows in class_rows(results)]
    counts = np.stack([np.asarray(t.counts) for t in tables])
    total = counts.sum(0)

    def pool(name: str) -> np.ndarray:
        means = np.stack([np.asarray(getattr(t, name), float) for t in tables])
        sums = np.where(counts > 0, counts * means, 0.0).sum(0)
        return np.where(total > 0, sums / np.maximum(total, 1), np.nan)

    return Pooled(np.asarray(tables[0].edges), total, pool("accuracy"), pool("confidence"))


def smooth_curve(pairs: list[tuple[Any, Any]]) -> metrics.SmoothReliability:
    """Accuracy as a smooth function of confidence, rows of all ``(prediction, y)`` together.

    Rows whose probabilities are not finite are left out; without any row the curve is NaN.
    """
    logs = np.concatenate([np.asarray(_log_mean(prediction)) for prediction, _ in pairs])
    y = np.concatenate([np.asarray(labels) for _, labels in pairs])
    kept = ~np.isnan(logs).any(-1)
    if not kept.any():
        nothing = np.full(2, np.nan)
        return metrics.SmoothReliability(nothing, nothing, nothing, nothing, np.array(np.nan))
    return metrics.smooth_reliability(ClassPrediction(jnp.asarray(logs[kept])[None]), y[kept])


def reliability_section(comparison: Comparison) -> Markup | None:
    """One reliability diagram per method, with the share of predictions in every bin below."""
    shown = {m: r for m in comparison.methods if (r := comparison.shown(m))}
    if not shown:
        return None
    tables = {method: pooled_reliability(results) for method, results in shown.items()}
    tallest = max(float((t.counts / t.counts.sum()).max()) for t in tables.values())
    smooth = {m: smooth_curve([(r.prediction, r.y) for r in rs]) for m, rs in shown.items()}
    figures = [
        panel(
            m, _reliability_drawing(m, t, smooth[m], tallest), f"smooth ECE {smooth[m].width:.4f}"
        )
        for m, t in tables.items()
    ]
    rows = [
        [f"{method}, {low:.3f} to {high:.3f}", count, fixed(confidence), fixed(accuracy)]
        for method, table in tables.items()
        for low, high, count, accuracy, confidence in zip(
            table.edges[:-1], table.edges[1:], *table[1:], strict=True
        )
        if count
    ]
    return section(
        "reliability",
        "Are the stated probabilities calibrated?",
        "Reliability diagrams: accuracy against confidence, in bins of the confidence. A dot below "
        "the dashed line is overconfident, above it underconfident. The curve has no bins (smooth "
        "ECE); its band is two standard errors. The strip shows the share of the predictions in "
        "each bin. Rows of all seeds together.",
        key(
            key_area("bar", "accuracy in a bin"),
            key_line("gap", "gap between confidence and accuracy"),
            key_line("line s2", "smooth curve, two standard errors"),
        ),
        panels(figures),
        numbers(
            "Numbers: count, confidence and accuracy in every bin",
            ["method and bin", "predictions", "mean confidence", "accuracy"],
            rows,
        ),
        numbers(
            "Numbers: the smooth curve",
            ["method and confidence", "accuracy", "standard error"],
            [
                [f"{m}, {c:.2f}", fixed(float(a)), fixed(float(e))]
                for m, curve in smooth.items()
                for c, a, e in zip(*_tenths(curve), strict=True)
                if np.isfinite(a)
            ],
        ),
    )


def _tenths(curve: metrics.SmoothReliability) -> list[np.ndarray]:
    picks = np.linspace(0, len(curve.confidence) - 1, 21).round().astype(int)
    return [np.asarray(v)[picks] for v in (curve.confidence, curve.accuracy, curve.standard_error)]


@jax.jit
def _log_mean(prediction: ClassPrediction):
    return prediction.log_mean


def _reliability_drawing(
    method: str, table: Pooled, smooth: metrics.SmoothReliability, tallest: float
) -> Markup:
    unit = Axis(0.0, 1.0, "confidence (probability of the predicted class)")
    main = Frame(Axis(0.0, 1.0), Axis(0.0, 1.0, "accuracy"), bottom=196)
    share = table.counts / table.counts.sum()
    strip_axis = Axis(0.0, tallest * 1.02, "share of predictions")
    strip = Frame(unit, strip_axis, top=230, bottom=274, tick_counts=(5, 2))
    low, high = np.fmin(table.confidence, table.accuracy), np.fmax(table.confidence, table.accuracy)
    return drawing(
        f"Reliability diagram of {method}: accuracy against confidence in {len(share)} bins",
        main.axes(x_ticks=False),
        main.bars(table.edges, table.accuracy, "bar"),
        main.diagonal(),
        main.band(
            smooth.confidence,
            smooth.accuracy - 2 * smooth.standard_error,
            smooth.accuracy + 2 * smooth.standard_error,
            "s2",
        ),
        main.line(smooth.confidence, smooth.accuracy, 2, markers=False),
        main.whiskers(table.confidence, low, high, "gap"),
        main.points(table.confidence, table.accuracy, "dot", 2.6),
        strip.axes(),
        strip.bars(table.edges, share, "bar strong"),
        height=314,
    )


def mean_risk(results: list[Result], coverages: np.ndarray) -> np.ndarray:
    """Error rate among the most confident share of the rows, averaged over seeds."""
    risks = []
    for rows in class_rows(results):
        risk = np.asarray(_risk_coverage(rows.confidence, ~rows.right)[1], float)
        answered = np.maximum(np.ceil(coverages * len(risk) - 1e-9).astype(int), 1)
        risks.append(risk[answered - 1])
    return np.mean(risks, axis=0)


def risk_coverage_section(comparison: Comparison) -> Markup | None:
    """Error rate against the share of rows answered, one line per method."""
    coverages = np.arange(1, 101) / 100
    curves = {
        index: mean_risk(results, coverages)
        for index, method in enumerate(comparison.methods)
        if (results := comparison.shown(method))
    }
    if not curves:
        return None
    names = {index: comparison.methods[index] for index in curves}
    highest = np.r_[0.01, *curves.values()]
    frame = chart_frame(
        Axis(0.0, 1.0, "coverage (share of rows answered)"),
        Axis.around(highest, "risk (error rate of the rows answered)", zero=True),
    )
    figure = chart(
        "Risk against coverage, one line per method",
        frame.axes(),
        [frame.line(coverages, curve, index) for index, curve in curves.items()],
    )
    return section(
        "risk-coverage",
        "What is gained by answering only when confident?",
        "Risk-coverage curves (selective prediction): error rate of the most confident rows. "
        "The lower the curve, the better the confidence ranks the rows; at full coverage the risk "
        "is the error rate. Mean over seeds.",
        charts([figure], legend(names)),
        numbers(
            "Numbers: risk at ten coverages",
            ["coverage", *names.values()],
            [
                [f"{coverages[k]:.0%}", *[fixed(curve[k]) for curve in curves.values()]]
                for k in range(9, 100, 10)
            ],
        ),
    )


class Disagreement(NamedTuple):
    """Epistemic uncertainty of correct and of wrong predictions."""

    right: np.ndarray
    wrong: np.ndarray
    members: int


def disagreement(results: list[Result]) -> Disagreement:
    """The rows of all seeds together."""
    each = class_rows(results)
    right = np.concatenate([rows.right for rows in each])
    values = np.concatenate([rows.epistemic for rows in each])
    return Disagreement(values[right], values[~right], max(rows.members for rows in each))


def epistemic_section(comparison: Comparison) -> Markup | None:
    """How the members' disagreement differs between correct and wrong predictions."""
    groups = {m: disagreement(r) for m in comparison.methods if (r := comparison.shown(m))}
    if not any(group.members > 1 for group in groups.values()):
        return None
    values = np.concatenate([np.r_[g.right, g.wrong] for g in groups.values()])
    largest = np.max(values, where=np.isfinite(values), initial=1e-6)
    edges = np.linspace(0.0, largest, HISTOGRAM_BINS + 1)
    shares = {m: (_shares(g.right, edges), _shares(g.wrong, edges)) for m, g in groups.items()}
    tallest = max(float(share.max()) for pair in shares.values() for share in pair)
    y = Axis(0.0, 1.05 * (tallest or 1.0), "share of each group")
    frame = Frame(Axis(0.0, float(edges[-1]), "epistemic uncertainty (nats)"), y)
    return section(
        "epistemic",
        "Do the members disagree where the prediction is wrong?",
        "Epistemic uncertainty (mutual information between prediction and member) of correct and "
        "of wrong predictions. It is useful when wrong predictions lie further to the right. Rows "
        "of all seeds together.",
        key(key_area("bar", "correct predictions"), key_line("outline", "wrong predictions")),
        panels(
            panel(m, _epistemic_drawing(frame, m, groups[m], edges, pair), _sizes(groups[m]))
            for m, pair in shares.items()
        ),
        numbers(
            "Numbers: epistemic uncertainty of correct and wrong predictions, in nats",
            [
                "method",
                "correct: rows",
                "median",
                "90th percentile",
                "wrong: rows",
                "median",
                "90th percentile",
            ],
            [[m, *_spread(g.right), *_spread(g.wrong)] for m, g in groups.items()],
        ),
    )


def _epistemic_drawing(frame: Frame, method: str, group: Disagreement, edges, pair) -> Markup:
    description = f"Epistemic uncertainty of correct and wrong predictions of {method}"
    if group.members == 1:
        return drawing(description, frame.axes(), frame.note("one member has no epistemic part"))
    return drawing(
        description,
        frame.axes(),
        frame.bars(edges, pair[0], "bar"),
        frame.steps(edges, pair[1], "outline") if group.wrong.size else None,
    )


def _sizes(group: Disagreement) -> str:
    return f"{len(group.right)} correct, {len(group.wrong)} wrong"


def _shares(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    return np.histogram(values, edges)[0] / max(len(values), 1)


def _spread(values: np.ndarray) -> list[str]:
    if not len(values):
        return ["0", short(None), short(None)]
    return [str(len(values)), *[short(float(q)) for q in np.quantile(values, [0.5, 0.9])]]
