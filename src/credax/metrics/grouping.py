"""Grouping loss: rows of equal confidence that are not equally often correct."""

from typing import Any, Literal

import numpy as np
from jaxtyping import Array, Float, Integer

from credax.errors import InputError, MissingExtra
from credax.metrics.calibration import BINS, edges_of
from credax.metrics.checks import check
from credax.metrics.view import ClassView
from credax.prediction import ClassPrediction

_NEIGHBOURS = 2000
_NEIGHBOUR_SHARE = 0.1


def grouping_loss(
    prediction: ClassPrediction,
    y: Integer[Array, " batch"],
    features: Float[Array, "..."],
    *,
    bins: int = BINS,
    depth: int = 10,
    score: Literal["brier", "log"] = "brier",
    seed: int = 0,
) -> float:
    """Estimated lower bound of the grouping loss of the top label.

    A confidence of 0.8 may be a mixture of rows correct in 60 % and in 100 % of cases: calibrated,
    and yet wrong about both. In every confidence bin a tree of the ``features`` (the last hidden
    layer, say), fitted on one half of the rows, splits the other half into regions. The value is
    what the regions explain, ``Σ n_br/n (h(μ_b) - h(μ_br))``, minus what chance explains and minus
    what the width of the bins does, with ``h(p) = 2p(1-p)`` for ``score="brier"`` and the binary
    entropy in nats for ``"log"``. It may fall below zero by chance. Needs scikit-learn.
    Reference: A. Perez-Lebel, M. Le Morvan and G. Varoquaux, ICLR 2023.
    """
    try:
        from sklearn.tree import DecisionTreeRegressor
    except ImportError as error:
        raise MissingExtra("scikit-learn", "sklearn", "the grouping loss") from error
    entropy, curvature = _entropies(score)
    confidence, correct = _top_label(prediction, np.asarray(y))
    rows = np.asarray(features)
    if rows.ndim != 2 or len(rows) != len(correct):
        raise InputError(
            f"features has shape {rows.shape}; give [batch, features] with {len(correct)} rows"
        )
    if len(correct) < 4:
        raise InputError(f"the prediction has {len(correct)} rows; the estimate needs four or more")
    order = np.random.default_rng(seed).permutation(len(correct))
    fit, held = order[::2], order[1::2]
    index = np.searchsorted(edges_of(bins)[1:-1], confidence, side="left")
    smooth = _calibration_curve(confidence[held], correct[held])
    explained = chance = induced = 0.0
    for b in np.unique(index[held]):
        train, test = fit[index[fit] == b], held[index[held] == b]
        inside = index[held] == b
        share = inside.sum() / len(held)
        induced += share * (entropy(smooth[inside].mean()) - entropy(smooth[inside]).mean())
        if not len(train):
            continue
        tree = DecisionTreeRegressor(max_depth=depth, random_state=seed)
        regions = tree.fit(rows[train], correct[train]).apply(rows[test])
        gain, noise = _bin_terms(correct[test], regions, entropy, curvature)
        explained += share * gain
        chance += share * noise
    return float(explained - chance - induced)


def _top_label(prediction: ClassPrediction, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    check(prediction, y)
    view = ClassView(prediction, y)
    return np.asarray(view.confidence, float), np.asarray(view.correct, float)


def _entropies(score: str) -> tuple[Any, Any]:
    """``h`` and half the size of its second derivative."""
    if score == "brier":
        return (lambda p: 2 * p * (1 - p)), (lambda p: np.full_like(p, 2.0))
    if score == "log":
        from scipy.special import xlogy

        def half_curvature(p):
            variance = p * (1 - p)
            return np.where(variance > 0, 0.5 / np.where(variance > 0, variance, 1), 0.0)

        return (lambda p: -xlogy(p, p) - xlogy(1 - p, 1 - p)), half_curvature
    raise InputError(f'score is {score!r}; choose "brier" or "log"')


def _bin_terms(
    correct: np.ndarray, regions: np.ndarray, entropy: Any, curvature: Any
) -> tuple[float, float]:
    """What the regions of one bin explain, and how much of that chance alone would."""
    _, region = np.unique(regions, return_inverse=True)
    sizes = np.bincount(region)
    kept = sizes[region] > 1
    correct, region = correct[kept], region[kept]
    if not len(correct):
        return 0.0, 0.0
    sizes = np.bincount(region)
    correct_sums = np.bincount(region, weights=correct)
    sizes, correct_sums = sizes[sizes > 0], correct_sums[sizes > 0]
    mean, overall = correct_sums / sizes, np.asarray(correct_sums.sum() / sizes.sum())
    share = sizes / sizes.sum()
    gain = float(entropy(overall) - share @ entropy(mean))
    within = share @ (curvature(mean) * mean * (1 - mean) / (sizes - 1))
    between = curvature(overall) * overall * (1 - overall) / (sizes.sum() - 1)
    return gain, float(within - between)


def _calibration_curve(confidence: np.ndarray, correct: np.ndarray) -> np.ndarray:
    """Mean correctness of the nearest confidences, by a window over the sorted rows."""
    n = len(confidence)
    width = max(1, min(_NEIGHBOURS, int(_NEIGHBOUR_SHARE * n)))
    order = np.argsort(confidence, kind="stable")
    sums = np.concatenate([[0.0], np.cumsum(correct[order])])
    start = np.clip(np.arange(n) - width // 2, 0, n - width)
    curve = np.empty(n)
    curve[order] = (sums[start + width] - sums[start]) / width
    return curve
