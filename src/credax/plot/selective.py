"""Selective prediction: what is wrong among the rows that are answered."""

from typing import Any

import numpy as np

from credax import metrics
from credax.plot.axes import axes
from credax.prediction import ClassPrediction


def risk_coverage(prediction: Any, y: Any, *, ax: Any = None, label: str | None = None) -> Any:
    """Risk among the most certain rows against the share of rows that are answered.

    Classes: the error rate, rows by falling confidence. Numbers: the root mean squared error, rows
    by rising standard deviation (the sum over targets where there are several).
    """
    ax = axes(ax)
    y = np.asarray(y)
    if isinstance(prediction, ClassPrediction):
        coverage, risk = metrics.risk_coverage(prediction, y)
        name = "error rate"
    else:
        rows = lambda a: np.asarray(a).reshape(len(y), -1).sum(axis=1)  # noqa: E731
        squared = rows(np.square(np.asarray(prediction.mean) - y.reshape(prediction.mean.shape)))
        coverage, risk = metrics.risk_coverage_of(-rows(prediction.var), squared)
        risk, name = np.sqrt(risk), "RMSE"
    ax.plot(np.asarray(coverage), np.asarray(risk), label=label)
    ax.set(xlabel="coverage", ylabel=f"{name} of answered rows", xlim=(0, 1))
    ax.set_ylim(bottom=0)
    return ax
