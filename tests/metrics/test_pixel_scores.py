"""Scores of pixels against TorchMetrics, streamed and in one piece."""

import json
from pathlib import Path

import numpy as np
import pytest

import credax as cx
from credax import metrics
from credax.metrics.pixel_scores import score_pixels
from credax.prediction import ClassPrediction, GaussianPrediction

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "pixels.json").read_text())


def _drawn():
    """The arrays whose scores were recorded with other libraries (`versions` in the file)."""
    rng = np.random.default_rng(7)
    logits = rng.normal(size=(3, 2, 6, 5, 4)).astype(np.float32) * 1.5
    y = rng.integers(0, 4, (2, 6, 5))
    y[0, :2] = 255
    rows = int((y != 255).sum())
    ood = rng.random(rows) < 0.3
    score = rng.normal(size=rows).astype(np.float32)
    depth, truth = (rng.uniform(1, 8, (2, 6, 5)).astype(np.float32) for _ in range(2))
    return ClassPrediction.from_logits(logits), y, ood, score, depth, truth


@pytest.mark.parametrize("batches", [1, 2])
def test_classes_agree_with_other_libraries(batches):
    """Single precision there: six digits. A mean over pictures instead of pixels would differ."""
    p, y, *_ = _drawn()
    parts = [slice(0, 2)] if batches == 1 else [slice(0, 1), slice(1, 2)]
    found = score_pixels([(p.select(s), y[s]) for s in parts], ignore_label=255)
    for name in ("accuracy", "mean_iou", "ece", "nll"):
        np.testing.assert_allclose(found[name], GOLDEN[name], rtol=2e-6)
    np.testing.assert_allclose([found[f"iou/{k}"] for k in range(4)], GOLDEN["iou"], rtol=2e-6)
    whole = cx.evaluate(p, y, ["accuracy", "nll", "ece", "mean_iou"], ignore_label=255)
    for name, value in whole.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-6)


def test_depths_and_ood_pixels_agree_with_other_libraries():
    _, _, ood, score, depth, truth = _drawn()
    means = np.repeat(depth[None, ..., None], 1, 0)
    found = score_pixels([(GaussianPrediction(means, np.ones_like(means)), truth)])
    for name in ("rmse", "absolute_relative_error", "rmse_log"):
        np.testing.assert_allclose(found[name], GOLDEN[name], rtol=2e-6)
    np.testing.assert_allclose(metrics.auroc(score, ood), GOLDEN["auroc"], rtol=2e-6)


def test_boundaries_by_hand():
    y = np.zeros((1, 5, 6), int)
    y[0, :, 3:] = 1
    assert metrics.boundary(y, 1)[0, 0].tolist() == [False, False, True, True, False, False]
    y[0, 0, 3] = 255  # no boundary to a pixel without a label, and it is none itself
    near = metrics.boundary(y, 1, ignore_label=255)[0]
    assert not near[0, 3]
    assert near[1, 3]
    assert near[0, 2]


def test_ignored_pixels_and_missing_depths_change_nothing():
    p, y, _, _, depth, truth = _drawn()
    poisoned = ClassPrediction(np.where((y == 255)[None, ..., None], np.log(0.25), p.log_probs))
    a, b = (score_pixels([(q, y)], ignore_label=255) for q in (p, poisoned))
    assert a == b
    missing = truth.copy()
    missing[0, 0] = np.nan
    means = depth[None, ..., None]
    moved = np.where(np.isnan(missing)[None, ..., None], 7.0, means).astype(np.float32)
    one = np.ones_like(means)
    a, b = (score_pixels([(GaussianPrediction(m, one), missing)]) for m in (means, moved))
    assert a == b


def test_nothing_to_score_is_refused(refused):
    p, y, *_ = _drawn()
    refused(lambda: score_pixels([(p, np.full_like(y, 255))], ignore_label=255), "all pixels")
    refused(lambda: score_pixels([]), "batches is empty")
    refused(lambda: metrics.pixel_rows(p, y[:, :2]), "y has shape")
    refused(lambda: metrics.boundary(y, 0), "width is 0")
