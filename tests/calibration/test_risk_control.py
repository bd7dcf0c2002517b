"""Conformal risk control: the bound holds over new pictures whose pixels depend on each other."""

import numpy as np

from credax.calibration import RiskControl
from credax.prediction import ClassPrediction


def _pictures(rng, count):
    """Pictures of different difficulty: all pixels of one are right with its own probability."""
    sharp = rng.uniform(0.2, 3, (count, 1, 1, 1))
    logits = rng.normal(size=(count, 6, 6, 3)) * sharp
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    draw = rng.random((count, 6, 6, 1))
    return ClassPrediction.from_probs(p[None]), (draw > np.cumsum(p, -1)).sum(-1)


def test_the_missed_share_is_bounded_in_expectation_and_not_far_below():
    """400 repetitions: within three standard errors; the theory allows at most 1/(n+1) slack."""
    rng, alpha, pictures = np.random.default_rng(0), 0.2, 30
    missed = []
    for _ in range(400):
        fitted = RiskControl(alpha).fit(*_pictures(rng, pictures))
        p, y = _pictures(rng, 5)
        inside = np.asarray(p.probs) >= fitted.threshold
        missed.append(1 - np.take_along_axis(inside, y[..., None], -1).mean())
    mean, error = np.mean(missed), np.std(missed, ddof=1) / np.sqrt(len(missed))
    assert alpha - 2 / (pictures + 1) - 3 * error < mean < alpha + 3 * error


def test_one_class_and_ignored_pixels():
    rng = np.random.default_rng(1)
    p, y = _pictures(rng, 40)
    y[:, :2] = 255
    poisoned = np.where((y == 255)[None, ..., None], 1 / 3, np.exp(p.log_probs))
    a, b = (RiskControl(0.2, label=1).fit(q, y) for q in (p, ClassPrediction.from_probs(poisoned)))
    assert a.threshold == b.threshold
    own = np.take_along_axis(np.asarray(p.probs), np.where(y == 255, 0, y)[..., None], -1)[..., 0]
    shares = [(own[i][y[i] == 1] < a.threshold).mean() for i in range(40) if (y[i] == 1).any()]
    assert (np.sum(shares) + 1) / (len(shares) + 1) <= 0.2 + 1e-9


def test_too_few_pictures_are_refused(refused):
    p, y = _pictures(np.random.default_rng(2), 5)
    refused(lambda: RiskControl(0.1).fit(p, y), "give at least 9")
    refused(lambda: RiskControl(0.5).fit(p, y[:, :3]), "y has shape")
