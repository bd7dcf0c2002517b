"""OOD detection: scores of both sets, and the ROC curve."""

from typing import Any

import numpy as np

from credax import metrics
from credax.plot.axes import axes
from credax.plot.primitives import reference


def ood_histogram(
    inside: Any, outside: Any, *, score: str = "total", bins: int = 30, ax: Any = None
) -> Any:
    """Histograms of an OOD score on data within and out of distribution, equal areas.

    ``inside`` and ``outside`` are predictions, or arrays of scores (larger is further out);
    ``score`` is a property of the prediction: "total", "epistemic" or "aleatoric".
    """
    ax = axes(ax)
    low, high = _scores(inside, score), _scores(outside, score)
    edges = np.histogram_bin_edges(np.concatenate([low, high]), bins=bins)
    ax.hist(low, edges, density=True, alpha=0.6, label="in distribution")
    ax.hist(high, edges, density=True, alpha=0.6, label="out of distribution")
    ax.set(xlabel=_name(inside, score), ylabel="density")
    ax.legend()
    return ax


def ood_roc(
    inside: Any, outside: Any, *, score: str = "total", ax: Any = None, label: str | None = None
) -> Any:
    """The ROC curve of an OOD score: the true positive rate against the false positive rate.

    The label carries the AUROC. Arguments as in `ood_histogram`.
    """
    ax = axes(ax)
    low, high = _scores(inside, score), _scores(outside, score)
    both = np.concatenate([low, high])
    area = float(metrics.auroc(both, np.arange(len(both)) >= len(low)))
    thresholds = np.concatenate([[np.inf], np.unique(both)[::-1]])
    found = np.searchsorted(np.sort(high), thresholds, side="left")
    refused = np.searchsorted(np.sort(low), thresholds, side="left")
    x, height = 1 - refused / len(low), 1 - found / len(high)
    reference(ax, [0, 1], [0, 1], name="diagonal")
    ax.plot(x, height, label=f"{label + ', ' if label else ''}AUROC {area:.3f}")
    ax.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1))
    ax.set_aspect("equal")
    ax.legend(loc="lower right")
    return ax


def _scores(given: Any, score: str) -> np.ndarray:
    values = getattr(given, score) if hasattr(given, "epistemic") else given
    values = np.asarray(values, np.float64)
    return values.reshape(len(values), -1).sum(axis=1)


def _name(given: Any, score: str) -> str:
    return f"{score} uncertainty" if hasattr(given, "epistemic") else "OOD score"
