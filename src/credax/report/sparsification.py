"""Sparsification curves: the error that is left when the least certain rows are left out."""

import numpy as np

from credax.report.markup import Markup
from credax.report.numbers import short
from credax.report.parts import charts, legend, numbers, section
from credax.report.result import Comparison, Result
from credax.report.svg import Axis, chart, chart_frame

REMOVED = np.arange(0, 100) / 100
"""Shares of rows that are left out."""


def sparsification_section(comparison: Comparison) -> Markup | None:
    """Error of the rows that are left against the share left out, beside the best order."""
    curves = {
        index: (mean_curve(results), mean_curve(results, best=True))
        for index, method in enumerate(comparison.methods)
        if (results := comparison.shown(method))
    }
    if not curves:
        return None
    names = {index: comparison.methods[index] for index in curves}
    highest = np.concatenate([own for own, _ in curves.values()])
    frame = chart_frame(
        Axis(0.0, 1.0, "share of rows left out, least certain first"),
        Axis.around(highest, "RMSE of the rest over RMSE of all", zero=True),
    )
    best = [
        frame.line(REMOVED, curve, index, markers=False) for index, (_, curve) in curves.items()
    ]
    figure = chart(
        "Sparsification curves, one line per method",
        frame.axes(),
        [frame.line(REMOVED, own, index) for index, (own, _) in curves.items()],
    )
    oracle = chart("The same with rows in the order of their error", frame.axes(), best)
    return section(
        "sparsification",
        "Is the uncertainty largest where the error is?",
        "Root mean squared error of the rows that are left when the least certain ones (largest "
        "predicted variance) are left out, over that of all rows. The lower the curve, the better "
        "the variance ranks the errors; a flat line ranks at random. The second chart leaves out "
        "the rows with the largest errors: no ranking can do better. Mean over seeds.",
        charts([figure, oracle], legend(names)),
        numbers(
            "Numbers: share of the error that is left",
            ["left out", *names.values(), *(f"{name}, best order" for name in names.values())],
            [
                [f"{REMOVED[k]:.0%}", *[short(float(own[k])) for own, _ in curves.values()]]
                + [short(float(best_one[k])) for _, best_one in curves.values()]
                for k in range(0, 100, 10)
            ],
        ),
    )


def mean_curve(results: list[Result], *, best: bool = False) -> np.ndarray:
    """RMSE of what is left over RMSE of all, at every share of `REMOVED`; mean over seeds.

    With ``best`` rows are left out by their error, not by the predicted variance. A row's variance
    and squared error are the means over its targets. Rows of equal variance keep their order.
    """
    curves = []
    for result in results:
        assert result.prediction is not None
        assert result.y is not None
        mean = np.asarray(result.prediction.mean, float).reshape(len(result.y), -1)
        variance = np.asarray(result.prediction.total, float).reshape(len(result.y), -1).mean(1)
        y = np.asarray(result.y, float).reshape(len(result.y), -1)
        error = np.square(mean - y).mean(1)
        order = np.argsort(error if best else variance, kind="stable")
        sums = np.cumsum(error[order])
        kept = np.maximum(1, np.ceil((1 - REMOVED) * len(error)).astype(int))
        curves.append(np.sqrt(sums[kept - 1] / kept / max(sums[-1] / len(error), 1e-300)))
    return np.mean(curves, axis=0)
