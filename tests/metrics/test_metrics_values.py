"""Values worked out by hand (the eight-row table G1 and its kin) and the edges of definitions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax import metrics
from credax.metrics import calibration
from credax.prediction import ClassPrediction, GaussianPrediction

G1 = np.array(
    [
        [0.90, 0.05, 0.05],
        [0.80, 0.10, 0.10],
        [0.60, 0.30, 0.10],
        [0.42, 0.33, 0.25],
        [0.10, 0.85, 0.05],
        [0.20, 0.70, 0.10],
        [0.05, 0.15, 0.80],
        [0.28, 0.27, 0.45],
    ]
)
LABELS = np.array([0, 0, 1, 0, 1, 2, 2, 2])


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def gaussians(means, variances):
    """One row a column of ``[members, rows]`` means and variances."""
    return GaussianPrediction(
        jnp.asarray(means, float)[..., None], jnp.asarray(variances, float)[..., None]
    )


@pytest.mark.usefixtures("x64")
def test_eight_rows_by_hand():
    prediction = ClassPrediction.from_probs(G1[None])
    values = metrics.evaluate(prediction, LABELS)
    assert values["accuracy"] == 0.75
    assert values["nll"] == pytest.approx(0.7358415886283122, abs=1e-12)
    assert values["brier"] == pytest.approx(0.417075, abs=1e-12)
    assert values["ece"] == pytest.approx(0.385, abs=1e-12)
    assert float(metrics.ece(prediction, LABELS, bins=5)) == pytest.approx(0.135, abs=1e-12)
    assert values["mutual_information"] == 0.0


def test_confidences_on_an_edge_fall_into_the_lower_bin_in_float32_too():
    prediction = ClassPrediction.from_probs(np.asarray(G1[None], np.float32))
    table = metrics.reliability(prediction, LABELS, bins=5)
    assert table.counts.tolist() == [0, 0, 3, 3, 2]
    np.testing.assert_allclose(table.accuracy[2:], [2 / 3, 2 / 3, 1], atol=1e-6)
    np.testing.assert_allclose(table.confidence[2:], [0.49, 2.3 / 3, 0.875], atol=1e-6)
    assert np.isnan(table.accuracy[:2]).all()
    assert np.isnan(table.confidence[:2]).all()


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("bins", [5, 10, 15, 20])
def test_every_edge_survives_the_logarithm(bins):
    edges = np.arange(1, bins + 1) / bins
    for probability in edges:
        stored = jnp.exp(jnp.log(jnp.asarray([probability])))
        index = calibration.bin_index(stored, np.arange(bins + 1) / bins)
        assert int(index[0]) == round(probability * bins) - 1


def test_bin_index_is_not_the_rounded_product():
    assert np.ceil(np.float64(0.7) * 10 + 1e-15) == 8
    index = metrics.bin_index(jnp.array([0.0, 0.7, 0.70001, 1.0]), np.arange(11) / 10)
    assert index.tolist() == [0, 6, 7, 9]


def test_more_bins_than_rows():
    prediction = ClassPrediction.from_probs(G1[None, :2])
    value = float(metrics.ece(prediction, LABELS[:2], bins=1000))
    assert value == pytest.approx(0.15, abs=1e-6)


def test_calibration_of_calibrated_draws_vanishes():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), size=40_000)
    y = (probs.cumsum(1) > rng.random((40_000, 1))).argmax(1)
    assert float(metrics.ece(ClassPrediction.from_probs(probs[None]), y)) < 0.012


@pytest.mark.usefixtures("x64")
def test_risk_coverage_by_hand():
    coverage, risk = metrics.risk_coverage(ClassPrediction.from_probs(G1[None]), LABELS)
    np.testing.assert_allclose(coverage, np.arange(1, 9) / 8)
    # Two rows share the confidence 0.8 (both right); the errors come at ranks 5 and 6.
    np.testing.assert_allclose(risk, [0, 0, 0, 0, 1 / 5, 2 / 6, 2 / 7, 2 / 8], atol=1e-12)
    assert float(jnp.mean(risk)) == pytest.approx(0.13363095238095238, abs=1e-12)


def test_tied_confidences_share_their_errors():
    score = jnp.array([0.5, 0.9, 0.5, 0.5, 0.2])
    error = jnp.array([1, 0, 0, 1, 1])
    _, risk = metrics.risk_coverage_of(score, error)
    expected = np.cumsum([0, 2 / 3, 2 / 3, 2 / 3, 1]) / np.arange(1, 6)
    np.testing.assert_allclose(risk, expected, atol=1e-6)
    order = np.array([3, 2, 0, 1, 4])
    np.testing.assert_allclose(metrics.risk_coverage_of(score[order], error[order])[1], risk)


@pytest.mark.usefixtures("x64")
def test_members_that_disagree():
    members = np.array([[[0.7, 0.2, 0.1]], [[0.1, 0.8, 0.1]], [[0.2, 0.2, 0.6]]])
    prediction = ClassPrediction.from_probs(members)
    mixture = members.mean(0)
    divergence = np.mean(np.sum(members * np.log(members / mixture), axis=-1))
    assert float(metrics.mutual_information(prediction)) == pytest.approx(divergence, abs=1e-12)
    assert divergence == pytest.approx(0.2881482958254008, abs=1e-12)
    assert float(metrics.entropy(prediction)) == pytest.approx(1.085189, abs=1e-6)


def test_disjoint_certain_members_reach_the_bound():
    prediction = ClassPrediction.from_probs(np.eye(4)[:, None, :])
    assert float(metrics.mutual_information(prediction)) == pytest.approx(np.log(4), rel=1e-6)


def test_impossible_labels_are_clipped_and_counted():
    logits = np.array([[[1e3, -1e3], [0.0, 0.0]]])
    prediction = ClassPrediction.from_logits(logits)
    y = np.array([1, 0])
    smallest = np.log(np.finfo(np.float32).tiny)
    assert float(metrics.nll(prediction, y)) == pytest.approx(-(smallest - np.log(2)) / 2)
    assert int(metrics.clipped(prediction, y)) == 1
    assert int(metrics.clipped(prediction, np.array([0, 0]))) == 0


@pytest.mark.usefixtures("x64")
def test_mixture_of_two_gaussians():
    prediction = gaussians([[1, 1], [3, 3]], [[0.5, 0.5], [1.5, 1.5]])
    y = np.array([2.0, 4.0])
    values = metrics.evaluate(prediction, y)
    assert values["nll"] == pytest.approx((1.5119639823949556 + 2.147853330621085) / 2, abs=1e-12)
    matched = (1.2655121234846454 + 2.265512123484645) / 2
    assert values["moment_matched_nll"] == pytest.approx(matched, abs=1e-12)
    assert values["rmse"] == pytest.approx(np.sqrt(2), abs=1e-12)
    # The central 90 % interval of this mixture is (0.0597977765, 4.5695752640).
    inside = np.array([0.0598, 4.5695])
    assert metrics.evaluate(prediction, inside)["coverage_90"] == 1.0
    assert metrics.evaluate(prediction, np.array([0.0597, 4.5696]))["coverage_90"] == 0.0


@pytest.mark.usefixtures("x64")
def test_coverage_equals_counting_between_quantiles():
    rng = np.random.default_rng(1)
    prediction = gaussians(rng.normal(size=(3, 200)), rng.uniform(0.2, 2, size=(3, 200)))
    y = rng.normal(size=200)
    for level in (0.5, 0.9):
        low, high = prediction.interval(level)
        counted = np.mean((y >= np.asarray(low)) & (y <= np.asarray(high)))
        ours = float(metrics.coverage(prediction, y, level=level))
        assert ours == pytest.approx(counted, abs=1e-12)


def test_several_targets_sum_in_the_likelihood_and_average_in_the_rest():
    rng = np.random.default_rng(2)
    means, variances = rng.normal(size=(2, 50, 3)), rng.uniform(0.5, 2, size=(2, 50, 3))
    y = rng.normal(size=(50, 3))
    together = metrics.evaluate(GaussianPrediction(jnp.array(means), jnp.array(variances)), y)
    apart = [
        metrics.evaluate(gaussians(means[..., t], variances[..., t]), y[:, t]) for t in range(3)
    ]
    assert together["moment_matched_nll"] == pytest.approx(
        sum(a["moment_matched_nll"] for a in apart), rel=1e-5
    )
    assert together["rmse"] ** 2 == pytest.approx(
        np.mean([a["rmse"] ** 2 for a in apart]), rel=1e-5
    )
    assert together["coverage_90"] == pytest.approx(
        np.mean([a["coverage_90"] for a in apart]), rel=1e-5
    )


def test_a_single_target_may_keep_its_axis():
    prediction = gaussians([[0.0, 1.0, 5.0]], [[1.0, 1.0, 2.0]])
    y = np.array([0.5, 1.0, 4.0])
    assert metrics.evaluate(prediction, y) == metrics.evaluate(prediction, y[:, None])
