"""Against numbers recorded from scikit-learn, torchmetrics, torch-uncertainty and others."""

from pathlib import Path

import jax
import numpy as np
import pytest

from credax import metrics
from credax.prediction import ClassPrediction, GaussianPrediction

GOLDEN = Path(__file__).parents[1] / "golden"


def load(name):
    with np.load(GOLDEN / name) as archive:
        return dict(archive)


@pytest.fixture(params=[False, True], ids=["float32", "float64"])
def x64(request):
    with jax.enable_x64(request.param):
        yield


@pytest.mark.usefixtures("x64")
def test_classification_values():
    golden = load("metrics_classification.npz")
    prediction = ClassPrediction.from_probs(golden["member_probs"])
    values = metrics.evaluate(prediction, golden["labels"])
    expected = {
        "accuracy": golden["sklearn/accuracy"],
        "nll": golden["sklearn/nll"],
        "brier": golden["sklearn/brier_sum"],
        "ece": golden["uncertainty_metrics/ece15"],
        "entropy": golden["torch_uncertainty/predictive_entropy_per_sample"].mean(),
        "mutual_information": golden["torch_uncertainty/mutual_information_mean"],
    }
    assert list(values) == list(expected)
    for name, value in expected.items():
        assert values[name] == pytest.approx(float(value), abs=1e-6), name


@pytest.mark.usefixtures("x64")
def test_ece_of_three_packages_and_two_bin_counts():
    golden = load("metrics_classification.npz")
    prediction = ClassPrediction.from_probs(golden["member_probs"])
    # torchmetrics and netcal compute partly in float32: the record allows them 2e-6 and 1e-6.
    for key, bins, tolerance in [
        ("torchmetrics/ece15_l1", 15, 2e-6),
        ("torchmetrics/ece10_l1", 10, 2e-6),
        ("netcal/ece15", 15, 1e-6),
    ]:
        ece = jax.jit(metrics.ece, static_argnames="bins")
        value = float(ece(prediction, golden["labels"], bins=bins))
        assert value == pytest.approx(float(golden[key]), abs=tolerance), key


@pytest.mark.usefixtures("x64")
def test_uncertainty_and_risk_row_by_row():
    golden = load("metrics_classification.npz")
    prediction = ClassPrediction.from_probs(golden["member_probs"])

    @jax.jit
    def row_by_row(p, y):
        return p.total, p.aleatoric, p.epistemic, metrics.risk_coverage(p, y)[1]

    theirs = (
        "predictive_entropy_per_sample",
        "expected_entropy_per_sample",
        "mutual_information_per_sample",
        "risk_coverage_curve",
    )
    for ours, name in zip(row_by_row(prediction, golden["labels"]), theirs, strict=True):
        expected = golden[f"torch_uncertainty/{name}"]
        np.testing.assert_allclose(ours, expected, atol=1e-6, rtol=0, err_msg=name)


@pytest.mark.usefixtures("x64")
def test_members_alone_are_predictions_too():
    golden = load("metrics_classification.npz")
    for member, value in zip(golden["member_probs"], golden["sklearn/nll_per_member"], strict=True):
        ours = jax.jit(metrics.nll)(ClassPrediction.from_probs(member[None]), golden["labels"])
        assert float(ours) == pytest.approx(float(value), abs=1e-6)


@pytest.mark.usefixtures("x64")
def test_regression_values():
    golden = load("metrics_regression.npz")
    prediction = GaussianPrediction(
        jax.numpy.asarray(golden["mu"][..., None]),
        jax.numpy.asarray(np.square(golden["sigma"])[..., None]),
    )
    values = metrics.evaluate(prediction, golden["y"])
    pit = golden["torch/mixture_cdf_uniform"]
    expected = {
        "rmse": golden["sklearn/rmse"],
        "nll": golden["torch_uncertainty/mixture_nll_uniform"],
        "moment_matched_nll": golden["torch_uncertainty/gaussian_nll"],
        "coverage_90": np.mean((pit >= 0.05) & (pit <= 0.95)),
    }
    assert list(values) == list(expected)
    for name, value in expected.items():
        assert values[name] == pytest.approx(float(value), rel=1e-6), name
