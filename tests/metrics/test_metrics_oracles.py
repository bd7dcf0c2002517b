"""Against other packages where they are installed and define the same thing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from metrics_cases import class_arrays, gaussians

from credax import metrics
from credax.errors import InputError
from credax.prediction import ClassPrediction, GaussianPrediction


@pytest.fixture(scope="module", autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def test_detection_equals_scikit_learn_on_fifty_sets_with_ties():
    oracle = pytest.importorskip("sklearn.metrics")
    forms = {"auroc": metrics.auroc, "out": metrics.aupr_out, "in": metrics.aupr_in}
    both = metrics.Collection({name: metric.stream() for name, metric in forms.items()})
    rng = np.random.default_rng(0)
    for _ in range(50):
        score = rng.integers(0, rng.integers(3, 40), 60) / 7
        out = rng.random(60) < 0.4
        expected = {
            "auroc": oracle.roc_auc_score(out, score),
            "out": oracle.average_precision_score(out, score),
            "in": oracle.average_precision_score(~out, -score),
        }
        state = both.update(both.init(), score, out)
        for ours in (both(score, out), both.finish(state)):
            assert {n: float(v) for n, v in ours.items()} == pytest.approx(expected, abs=1e-12)


def test_weighted_scores_equal_scikit_learn():
    oracle = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(1)
    probs, y = class_arrays(rng)
    prediction, mixture = ClassPrediction.from_probs(probs), probs.mean(0)
    weight = rng.uniform(0.1, 3, len(y))
    label = mixture.argmax(-1)
    names = ("accuracy", "balanced_accuracy", "nll", "mean_iou", "auroc_correct")
    collection = metrics.collect(names, "classification")
    ours = {n: float(v) for n, v in collection(prediction, y, weight=weight).items()}
    expected = {
        "accuracy": oracle.accuracy_score(y, label, sample_weight=weight),
        "balanced_accuracy": oracle.balanced_accuracy_score(y, label, sample_weight=weight),
        "nll": oracle.log_loss(y, mixture, sample_weight=weight, labels=range(6)),
        "mean_iou": oracle.jaccard_score(y, label, average="macro", sample_weight=weight),
        "auroc_correct": oracle.roc_auc_score(label == y, mixture.max(-1), sample_weight=weight),
    }
    assert ours == pytest.approx(expected, abs=1e-12)
    score, out = rng.integers(0, 9, 40) / 3, rng.random(40) < 0.5
    weight = rng.uniform(0.1, 3, 40)
    value = float(metrics.aupr_out(score, out, weight=weight))
    expected = oracle.average_precision_score(out, score, sample_weight=weight)
    assert value == pytest.approx(expected, abs=1e-12)


def test_regression_equals_scikit_learn_for_several_targets():
    oracle = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(2)
    means, y = rng.normal(size=(3, 40, 2)), rng.normal(size=(40, 2))
    prediction = GaussianPrediction(jnp.array(means), jnp.ones((3, 40, 2)))
    weight = rng.uniform(0.1, 3, 40)
    collection = metrics.collect(["r2", "mae", "mse"], "regression")
    ours = {n: float(v) for n, v in collection(prediction, y, weight=weight).items()}
    mean = means.mean(0)
    expected = {
        "r2": oracle.r2_score(y, mean, sample_weight=weight),
        "mae": oracle.mean_absolute_error(y, mean, sample_weight=weight),
        "mse": oracle.mean_squared_error(y, mean, sample_weight=weight),
    }
    assert ours == pytest.approx(expected, abs=1e-12)


def test_reliability_equals_scikit_learn():
    calibration_curve = pytest.importorskip("sklearn.calibration").calibration_curve
    probs, y = class_arrays(np.random.default_rng(3))
    confidence, correct = probs.mean(0).max(-1), probs.mean(0).argmax(-1) == y
    accuracy, mean = calibration_curve(correct, confidence, n_bins=7)
    table = metrics.reliability(ClassPrediction.from_probs(probs), y, bins=7)
    known = np.asarray(table.counts) > 0
    np.testing.assert_allclose(np.asarray(table.accuracy)[known], accuracy, atol=1e-12)
    np.testing.assert_allclose(np.asarray(table.confidence)[known], mean, atol=1e-12)


def test_smooth_error_is_near_relplot_on_twenty_sets():
    relplot = pytest.importorskip("relplot")
    rng = np.random.default_rng(4)
    stream = metrics.smooth_ece.stream()
    for _ in range(20):
        confidence = rng.uniform(0.5, 1, 1000)
        correct = rng.random(1000) < np.clip(confidence - rng.uniform(-0.1, 0.2), 0, 1)
        probs = np.stack([confidence, 1 - confidence], -1)[None]
        y = np.where(correct, 0, 1)
        ours = stream.finish(stream.update(stream.init(), ClassPrediction.from_probs(probs), y))
        assert ours == pytest.approx(relplot.smECE(confidence, correct), abs=2e-3)


def test_crps_equals_scoringrules():
    scoringrules = pytest.importorskip("scoringrules")
    rng = np.random.default_rng(5)
    means, deviations = rng.normal(size=(4, 30)), rng.uniform(0.2, 2, size=(4, 30))
    y = rng.normal(size=30)
    expected = scoringrules.crps_mixnorm(y, means.T, deviations.T)
    ours = float(metrics.crps(gaussians(means, deviations**2), y))
    assert ours == pytest.approx(expected.mean(), abs=1e-8)
    samples = rng.normal(size=(11, 30))
    np.testing.assert_allclose(
        metrics.crps_of_samples(samples, y),
        scoringrules.crps_ensemble(y, samples.T, estimator="nrg"),
        atol=1e-12,
    )


def test_grouping_loss_of_no_groups_and_of_planted_ones():
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(6)
    rows = 20_000
    confidence = rng.uniform(0.7, 0.8, rows)
    probs = np.stack([confidence, 1 - confidence], -1)[None]
    group = rng.integers(0, 2, rows)
    features = np.stack([group + 0.1 * rng.normal(size=rows), rng.normal(size=rows)], -1)
    prediction = ClassPrediction.from_probs(probs)
    planted = rng.random(rows) < np.clip(confidence + np.where(group, 0.2, -0.2), 0, 1)
    y = np.where(planted, 0, 1)
    value = metrics.grouping_loss(prediction, y, features)
    assert value == pytest.approx(0.08, rel=0.15)
    assert metrics.grouping_loss(prediction, y, features, score="log") > 0.1
    none = []
    for seed in range(6):
        draw = np.random.default_rng(seed)
        y = np.where(draw.random(rows) < confidence, 0, 1)
        none.append(metrics.grouping_loss(prediction, y, features, seed=seed))
    assert abs(np.mean(none)) < 3 * np.std(none, ddof=1) / np.sqrt(len(none)) + 1e-4
    with pytest.raises(InputError, match="features has shape"):
        metrics.grouping_loss(prediction, y, features[:5])
    with pytest.raises(InputError, match="score is 'linear'"):
        metrics.grouping_loss(prediction, y, features, score="linear")


def test_other_packages_still_differ_where_the_docstrings_say():
    oracle = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(7)
    p = rng.random(50)
    y = (rng.random(50) < p).astype(int)
    prediction = ClassPrediction.from_probs(np.stack([1 - p, p], -1)[None])
    halved = oracle.brier_score_loss(y, p)
    assert float(metrics.brier(prediction, y)) == pytest.approx(2 * halved, abs=1e-12)
    equal = ClassPrediction.from_probs(np.full((1, 2, 4), 0.25))
    labels = np.zeros(2, int)
    theirs = oracle.top_k_accuracy_score(labels, np.full((2, 4), 0.25), k=1, labels=range(4))
    # Four equal probabilities: ours takes class 0, theirs class 3.
    assert float(metrics.top_k_accuracy(equal, labels, k=1)) == 1
    assert theirs == 0
