"""Against numbers recorded from scikit-learn, torchmetrics, torch-uncertainty and others."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax import metrics
from credax.prediction import ClassPrediction, GaussianPrediction

GOLDEN = Path(__file__).parents[1] / "golden"
# torchmetrics, torch-uncertainty and netcal compute partly in float32: the record allows them this.
PARTLY_FLOAT32 = 2e-6


def load(name):
    with np.load(GOLDEN / name) as archive:
        return dict(archive)


@pytest.fixture(params=[False, True], ids=["float32", "float64"])
def both(request):
    with jax.enable_x64(request.param):
        yield


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def classes():
    return load("metrics_classification.npz")


@pytest.fixture(scope="module")
def numbers():
    return load("metrics_regression.npz")


def agree(ours, golden, pairs):
    for key, name in pairs.items():
        tolerance = PARTLY_FLOAT32 if key.startswith(("torch", "netcal")) else 1e-6
        expected = float(np.mean(golden[key]))
        assert float(ours[name]) == pytest.approx(expected, abs=tolerance), key


@pytest.mark.usefixtures("both")
def test_classification_values_from_evaluate(classes):
    prediction = ClassPrediction.from_probs(classes["member_probs"])
    values = metrics.evaluate(prediction, classes["labels"], "all")
    pairs = {
        "sklearn/accuracy": "accuracy",
        "torchmetrics/accuracy_macro": "balanced_accuracy",
        "sklearn/nll": "nll",
        "torch_uncertainty/nll": "nll",
        "sklearn/nll_per_member": "member_nll",
        "sklearn/brier_sum": "brier",
        "torch_uncertainty/brier_mean_of_members": "brier_members",
        "torch_uncertainty/brier_top_class": "brier_top",
        "uncertainty_metrics/ece15": "ece",
        "netcal/ece15": "ece",
        "netcal/mce15": "mce",
        "torchmetrics/ece15_l2": "rmsce",
        "netcal/average_calibration_error15": "average_calibration_error",
        "torch_uncertainty/adaptive_ece15_l1": "adaptive_ece",
        "torch_uncertainty/classwise_ece15_l1_mean": "sce",
        "uncertainty_metrics/sce15": "sce",
        "uncertainty_metrics/ace15": "ace",
        "torch_uncertainty/aurc": "aurc_trapezoid",
        "torch_uncertainty/augrc": "augrc_trapezoid",
        "torch_uncertainty/risk_coverage_curve": "aurc",
        "torch_uncertainty/coverage_at_5_risk": "coverage_at_5_risk",
        "torch_uncertainty/risk_at_80_coverage": "risk_at_80_coverage",
        "torch_uncertainty/predictive_entropy_per_sample": "entropy",
        "torch_uncertainty/expected_entropy_per_sample": "expected_entropy",
        "torch_uncertainty/mutual_information_mean": "mutual_information",
        "torch_uncertainty/disagreement_mean": "disagreement",
        "torch_uncertainty/variation_ratio_vote_mean": "variation_ratio_mean_class",
    }
    agree(values, classes, pairs)
    assert values["brier_class_mean"] == pytest.approx(values["brier"] / 6, rel=1e-6)
    assert values["mean_confidence"] == pytest.approx(
        1 - float(classes["torch_uncertainty/variation_ratio_prob_mean"]), abs=1e-6
    )


@pytest.mark.usefixtures("x64")
def test_other_options(classes):
    prediction = ClassPrediction.from_probs(classes["member_probs"])
    cases = {
        "torchmetrics/top2_accuracy": metrics.top_k_accuracy.having(k=2),
        "torch_uncertainty/coverage_at_20_risk": metrics.coverage_at_risk.having(risk=0.2),
        "torch_uncertainty/aurc": metrics.aurc.having(rule="trapezoid"),
        "torch_uncertainty/augrc": metrics.augrc.having(rule="trapezoid"),
        "torch_uncertainty/variation_ratio_prob_mean": metrics.variation_ratio.having(
            of="probability"
        ),
        "uncertainty_metrics/ace10": metrics.ace.having(ranges=10),
        "uncertainty_metrics/sce10": metrics.sce.having(bins=10),
    }
    for bins in (10, 15):
        cases[f"uncertainty_metrics/tace{bins}_threshold0.01"] = metrics.tace.having(
            ranges=bins, threshold=0.01
        )
        for norm, metric in (("l1", metrics.ece), ("l2", metrics.rmsce), ("max", metrics.mce)):
            cases[f"torchmetrics/ece{bins}_{norm}"] = metric.having(bins=bins)
            cases[f"torch_uncertainty/adaptive_ece{bins}_{norm}"] = metrics.adaptive_ece.having(
                bins=bins, norm=norm
            )

    collection = metrics.Collection({key: metric.stream() for key, metric in cases.items()})
    agree(collection(prediction, classes["labels"]), classes, {key: key for key in cases})


@pytest.mark.usefixtures("both")
def test_uncertainty_and_risk_row_by_row(classes):
    prediction = ClassPrediction.from_probs(classes["member_probs"])

    @jax.jit
    def row_by_row(p, y):
        return p.total, p.aleatoric, p.epistemic, metrics.risk_coverage(p, y)[1]

    theirs = (
        "predictive_entropy_per_sample",
        "expected_entropy_per_sample",
        "mutual_information_per_sample",
        "risk_coverage_curve",
    )
    for ours, name in zip(row_by_row(prediction, classes["labels"]), theirs, strict=True):
        expected = classes[f"torch_uncertainty/{name}"]
        np.testing.assert_allclose(ours, expected, atol=1e-6, rtol=0, err_msg=name)


DETECTORS = {
    "sklearn/auroc_ood_positive": metrics.auroc,
    "sklearn/aupr_average_precision_ood_positive": metrics.aupr_out,
    "sklearn/aupr_average_precision_id_positive": metrics.aupr_in,
    "sklearn/aupr_trapezoid_ood_positive": metrics.aupr_out.having(rule="trapezoid"),
    "sklearn/aupr_trapezoid_id_positive": metrics.aupr_in.having(rule="trapezoid"),
    "torch_uncertainty/fpr95_ood_positive": metrics.fpr_at_ood_recall,
    "torch_uncertainty/fpr80_ood_positive": metrics.fpr_at_ood_recall.having(level=0.8),
    "torch_uncertainty/fpr95_id_positive": metrics.fpr_at_id_recall,
    "torch_uncertainty/fpr80_id_positive": metrics.fpr_at_id_recall.having(level=0.8),
}


DETECT = metrics.Collection({key: metric.stream() for key, metric in DETECTORS.items()})


@pytest.mark.usefixtures("x64")
def test_detection_with_and_without_ties(classes):
    for score in ("entropy", "one_minus_max", "mutual_information", "entropy_tied"):
        golden = {key: classes[f"ood/{score}/{key}"] for key in DETECTORS}
        s, out = metrics.id_and_ood(
            classes[f"ood/{score}/id_scores"], classes[f"ood/{score}/ood_scores"]
        )
        agree(jax.jit(DETECT)(s, out), golden, {key: key for key in golden})
        state = DETECT.init()
        for part in (slice(0, 175), slice(175, 350)):
            state = DETECT.update(state, s[part], out[part])
        agree(DETECT.finish(state), golden, {key: key for key in golden})


@pytest.mark.usefixtures("both")
def test_scores_and_detection_from_evaluate(classes):
    prediction = ClassPrediction.from_probs(classes["member_probs"])
    other = ClassPrediction.from_probs(classes["ood_member_probs"])
    values = metrics.evaluate(prediction, classes["labels"], ["accuracy"], ood={"set": other})
    for score, ours in (
        ("entropy", "entropy_predictive"),
        ("one_minus_max", "max_probability"),
        ("mutual_information", "mutual_information"),
    ):
        golden = {key: classes[f"ood/{score}/{key}"] for key in DETECTORS}
        pairs = {
            "sklearn/auroc_ood_positive": f"ood/set/auroc/{ours}",
            "sklearn/aupr_average_precision_ood_positive": f"ood/set/aupr_out/{ours}",
            "torch_uncertainty/fpr95_ood_positive": f"ood/set/fpr_at_ood_recall/{ours}",
        }
        agree(values, golden, pairs)
    assert values["ood/set/prevalence"] == pytest.approx(150 / 350)


@pytest.mark.usefixtures("both")
def test_regression_values_from_evaluate(numbers):
    mixture = GaussianPrediction(
        jnp.asarray(numbers["mu"][..., None]), jnp.asarray(np.square(numbers["sigma"])[..., None])
    )
    values = metrics.evaluate(mixture, numbers["y"], "all")
    pairs = {
        "sklearn/rmse": "rmse",
        "sklearn/mae": "mae",
        "sklearn/r2": "r2",
        "torch_uncertainty/mixture_nll_uniform": "nll",
        "torch_uncertainty/gaussian_nll": "moment_matched_nll",
        "scoringrules/crps_mixture_per_sample_uniform": "crps",
        "torch_uncertainty/ause_abs_error": "ause",
        "torch_uncertainty/ause_squared_error": "ause_squared",
    }
    agree(values, numbers, pairs)
    pit = numbers["torch/mixture_cdf_uniform"]
    inside = np.mean((pit >= 0.05) & (pit <= 0.95))
    assert values["coverage_90"] == pytest.approx(inside, abs=1e-6)


@pytest.mark.usefixtures("x64")
def test_regression_options(numbers):
    matched = GaussianPrediction(
        jnp.asarray(numbers["moment_mu"][None, :, None]),
        jnp.asarray(np.square(numbers["moment_sigma"])[None, :, None]),
    )
    cases = {"scoringrules/crps_gaussian_per_sample": metrics.crps}
    for count in (15, 9):
        levels = tuple(np.linspace(0.05, 0.95, count).tolist())
        for norm in ("l1", "l2", "max"):
            key = f"torch_uncertainty/quantile_calibration_error{count}_{norm}"
            cases[key] = metrics.quantile_calibration_error.having(norm=norm, levels=levels)
    for level in (0.5, 0.9, 0.95):
        for name, metric in (
            ("coverage", metrics.coverage),
            ("mean_width", metrics.width),
            ("winkler_score", metrics.interval_score),
        ):
            key = f"interval{level}/torch_uncertainty/{name}"
            cases[key] = metric.having(level=level)
    for level in (0.1, 0.5, 0.9):
        cases[f"sklearn/pinball_{level}"] = metrics.pinball.having(level=level)

    collection = metrics.Collection({key: metric.stream() for key, metric in cases.items()})
    agree(collection(matched, numbers["y"]), numbers, {key: key for key in cases})


@pytest.mark.usefixtures("x64")
def test_intervals_as_arrays(numbers):
    for level in (0.5, 0.9, 0.95):
        at = f"interval{level}/"
        interval = numbers[at + "lower"], numbers[at + "upper"]
        score = metrics.interval_score(interval, numbers["y"], level=level)
        expected = numbers[at + "scoringrules/winkler_score_per_sample"].mean()
        assert float(score) == pytest.approx(float(expected), rel=1e-6)
        inside = float(numbers[at + "torch_uncertainty/coverage"])
        assert float(metrics.coverage(interval, numbers["y"])) == pytest.approx(inside, abs=1e-6)


@pytest.mark.usefixtures("both")
def test_scores_of_samples(numbers):
    samples, y = numbers["ensemble"].T, numbers["y"]
    plain = metrics.crps_of_samples(samples, y)
    fair = metrics.crps_of_samples(samples, y, fair=True)
    expected = numbers["scoringrules/crps_ensemble_nrg_per_sample"]
    np.testing.assert_allclose(plain, expected, atol=1e-6)
    np.testing.assert_allclose(plain, numbers["properscoring/crps_ensemble_per_sample"], atol=1e-6)
    expected = numbers["scoringrules/crps_ensemble_fair_per_sample"]
    np.testing.assert_allclose(fair, expected, atol=1e-6)
    several = np.moveaxis(numbers["energy/ensemble"], 1, 0)
    energy = metrics.energy_score(several, numbers["energy/y"])
    np.testing.assert_allclose(energy, numbers["energy/scoringrules_energy_score"], atol=1e-6)
