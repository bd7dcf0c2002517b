"""Figures of what was asked besides the clean rows: OOD data, corruption, calibration."""

import numpy as np
import pytest
from report_cases import class_result, history

from credax import metrics
from credax.prediction import ClassPrediction
from credax.report import Comparison
from credax.report.classification import smooth_curve
from credax.report.confusion import least_certain
from credax.report.ood import Scores, roc
from credax.report.page import page
from credax.report.repulsion import _cosines
from credax.report.result import EvaluationResult
from credax.report.rows import class_rows
from credax.report.severity import mean_by_severity


def scores(value):
    return {"accuracy": value, "nll": 1 - value, "ece": value / 10}


def evaluated(method, seed, **fields):
    other = class_result("other", seed + 10).prediction
    after = class_result("after", seed + 20).prediction
    sets = np.random.default_rng(seed).random((40, 3)) < 0.6
    evaluation = EvaluationResult(
        {"ood/x/auroc/entropy_predictive": 0.7, "ood/x/prevalence": 0.5},
        {"x": other},
        {s: scores(0.9 - 0.1 * s - 0.01 * seed) for s in range(3)},
        {("fog", 1): scores(0.8), ("fog", 2): scores(0.6), ("blur", 1): scores(0.7)},
        {"temperature": after},
        {"aps": sets},
        "two sets",
    )
    more = {"calibrated/temperature/nll": 1.0, "calibrated/aps/set_size": 1.5}
    values = {"accuracy": 0.5, "nll": 1.25, **evaluation.values, **more}
    return class_result(method, seed, metrics=values, evaluation=evaluation, **fields)


@pytest.mark.parametrize("decimals", [1, 6])
def test_roc_has_the_area_that_the_metric_says(decimals):
    rng = np.random.default_rng(decimals)
    scores = Scores(rng.normal(size=200).round(decimals), rng.normal(0.7, 1.3, 150).round(decimals))
    flagged = np.linspace(0, 1, 200_001)
    outside = np.r_[np.zeros(200, bool), np.ones(150, bool)]
    expected = float(metrics.auroc(np.r_[scores], outside))
    assert np.trapezoid(roc(scores, flagged), flagged) == pytest.approx(expected, abs=2e-5)


def test_roc_of_separated_and_of_equal_scores():
    flagged = np.array([0.0, 0.25, 1.0])
    apart = Scores(np.zeros(4), np.ones(3))
    assert roc(apart, flagged).tolist() == [1, 1, 1]
    assert roc(Scores(np.ones(4), np.zeros(3)), flagged).tolist() == [0, 0, 1]
    assert roc(Scores(np.ones(4), np.ones(3)), flagged).tolist() == [0, 0.25, 1]


def test_mean_by_severity_averages_seeds():
    results = [evaluated("a", seed) for seed in range(3)]
    found = mean_by_severity(results, "accuracy")
    assert found == pytest.approx({0: 0.89, 1: 0.79, 2: 0.69})


def test_least_certain_rows_are_counted_by_class():
    probs = np.array([[0.5, 0.5, 0.0]] + [[0.02, 0.98, 0.0]] * 18 + [[0.3, 0.3, 0.4]])
    y = np.array([1, *[1] * 18, 0])
    result = class_result("a", 0, rows=20)
    result = type(result)("a", 0, {}, ClassPrediction.from_probs(probs[None]), y)
    counts = least_certain(class_rows([result, result]))
    assert counts.sum() == 4
    assert counts[0, 2] == 2
    assert counts[1, 0] == 2


def test_smooth_curve_pools_rows_of_seeds():
    results = [class_result("a", seed, rows=60) for seed in range(2)]
    pooled = smooth_curve([(r.prediction, r.y) for r in results])
    both = ClassPrediction(
        np.concatenate([np.asarray(r.prediction.log_mean) for r in results])[None]
    )
    y = np.concatenate([r.y for r in results])
    assert float(pooled.width) == pytest.approx(float(metrics.smooth_ece(both, y)), abs=1e-6)


def test_cosines_of_known_gradients():
    one = np.array([[1.0, 0.0], [0.0, 2.0]]).reshape(1, 2, 1, 2, 1)
    other = np.array([[1.0, 1.0], [0.0, -5.0]]).reshape(1, 2, 1, 2, 1)
    assert _cosines(np.concatenate([one, other])) == pytest.approx([np.sqrt(0.5), -1])


def test_the_page_answers_every_question():
    gradients = np.random.default_rng(0).normal(size=(3, 2, 5, 4, 3))
    lines = [
        {**line, "gradient_cosine": 0.5, "force_ratio": 0.1, "kernel": np.eye(3).tolist()}
        for line in history()
    ]
    results = [
        evaluated(method, seed, gradients=gradients, history=lines)
        for method in ("a", "b")
        for seed in (0, 1)
    ]
    images = np.random.default_rng(0).integers(0, 256, (40, 5, 4, 3), np.uint8)
    text = page(Comparison("t", "own", "classification", results, inputs=images))
    for name in (
        *("calibrated", "sets", "confusion", "ood", "severity", "repulsion"),
        "saliency",
    ):
        part = text[text.index(f'<section id="{name}"') :].partition("</section>")[0]
        assert "<svg" in part or "<img" in part, name
        assert "<table" in part[part.index("</svg" if "<svg" in part else "<img") :], name
    # The main table is about the clean rows alone.
    results_table = text[text.index('<section id="results"') :].partition("</section>")[0]
    assert "AUROC" not in results_table


def test_nothing_asked_draws_nothing():
    text = page(Comparison("t", "own", "classification", [class_result("a", 0)]))
    for name in ("calibrated", "sets", "ood", "severity", "repulsion", "saliency"):
        assert f'<section id="{name}"' not in text
