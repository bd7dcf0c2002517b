"""Histogram binning, isotonic regression and BBQ against scikit-learn and hand values."""

import jax
import numpy as np
import pytest
from calibration_cases import overconfident
from sklearn.calibration import calibration_curve
from sklearn.isotonic import IsotonicRegression

from credax.calibration import BBQ, Histogram, Isotonic, pool_adjacent_violators
from credax.calibration.binning import average_binnings, score_binning
from credax.errors import InputError
from credax.prediction import ClassPrediction

pytestmark = pytest.mark.slow


def two_class(p):
    p = np.asarray(p)
    return ClassPrediction.from_probs(np.stack([1 - p, p], axis=-1)[None])


def test_pool_adjacent_violators_equals_scikit_learn():
    rng = np.random.default_rng(0)
    for _ in range(20):
        values, weights = rng.standard_normal(40).round(1), rng.integers(1, 5, 40).astype(float)
        expected = IsotonicRegression().fit(np.arange(40), values, weights).predict(np.arange(40))
        np.testing.assert_allclose(pool_adjacent_violators(values, weights), expected, atol=1e-12)


def test_isotonic_hand_value():
    fitted = Isotonic().fit(two_class([0.1, 0.4, 0.6, 0.9]), np.array([0, 1, 0, 1]))
    np.testing.assert_allclose(fitted.knots[1], [0.1, 0.4, 0.6, 0.9], atol=1e-6)
    assert fitted.values[1].tolist() == [0.0, 0.5, 0.5, 1.0]


def test_isotonic_equals_scikit_learn(float64):
    p, y = overconfident(rows=400, classes=4)
    p = ClassPrediction(np.asarray(p.log_probs, np.float64))
    test = ClassPrediction(
        np.asarray(overconfident(rows=200, classes=4, seed=9)[0].log_probs, float)
    )
    fitted = Isotonic().fit(p, y)
    own, new = np.asarray(p.probs), np.asarray(test.probs)
    expected = np.stack(
        [
            IsotonicRegression(out_of_bounds="clip").fit(own[:, k], y == k).predict(new[:, k])
            for k in range(4)
        ],
        axis=-1,
    )
    np.testing.assert_allclose(fitted.raw(new), expected, atol=1e-12)
    np.testing.assert_allclose(
        fitted(test).probs, expected / expected.sum(axis=1, keepdims=True), atol=1e-12
    )


@pytest.mark.parametrize("interpolation", ["linear", "step"])
def test_isotonic_is_monotone_and_its_own_fit(interpolation, float64):
    p, y = overconfident(rows=300)
    p = ClassPrediction(np.asarray(p.log_probs, np.float64))
    fitted = Isotonic(interpolation=interpolation).fit(p, y)
    own = np.asarray(p.probs)
    raw = np.asarray(fitted.raw(own))
    for k in range(3):
        order = np.argsort(own[:, k])
        assert (np.diff(raw[order, k]) >= 0).all()
        expected = IsotonicRegression().fit_transform(own[:, k], (y == k).astype(float))
        np.testing.assert_allclose(raw[:, k], expected, atol=1e-12)
    grid = np.tile(np.linspace(0, 1, 1001)[:, None], (1, 3))
    assert (np.diff(np.asarray(fitted.raw(grid)), axis=0) >= 0).all()


def test_isotonic_step_is_constant_between_blocks():
    p = two_class([0.1, 0.2, 0.8, 0.9])
    fitted = Isotonic(interpolation="step").fit(p, np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(fitted.edges[1], [0.5], atol=1e-6)
    assert fitted(two_class([0.49, 0.51])).probs[:, 1].tolist() == [0.0, 1.0]


def test_histogram_equals_scikit_learn(float64):
    p, y = overconfident(rows=1000, classes=3)
    p = ClassPrediction(np.asarray(p.log_probs, np.float64))
    fitted = Histogram(bins=10).fit(p, y)
    probs = np.asarray(p.probs)
    for k in range(3):
        share, _ = calibration_curve(y == k, probs[:, k], n_bins=10)
        filled = np.histogram(probs[:, k], np.linspace(0, 1, 11))[0] > 0
        np.testing.assert_allclose(fitted.values[k][filled], share, atol=1e-12)


def test_histogram_has_no_classwise_error_on_its_own_rows(float64):
    """In each bin the mapped probability is the share of the label: SCE is zero to rounding."""
    p, y = overconfident(rows=500, classes=3)
    p = ClassPrediction(np.asarray(p.log_probs, np.float64))
    fitted = Histogram().fit(p, y)
    probs, raw = np.asarray(p.probs), np.asarray(fitted.raw(np.asarray(p.probs)))
    gap = 0.0
    for k in range(3):
        index = np.searchsorted(np.arange(1, 15) / 15, probs[:, k])
        for b in range(15):
            own = index == b
            if own.any():
                gap += own.mean() * abs(np.mean(y[own] == k) - raw[own, k].mean())
    assert gap < 1e-12


def test_histogram_edges_and_empty_bins():
    """0.7 of 10 bins belongs to (0.6, 0.7], 0 to the first; an empty bin keeps its centre."""
    fitted = Histogram(bins=10).fit(two_class([0.0, 0.7, 0.7, 0.71]), np.array([0, 1, 0, 1]))
    expected = np.arange(10) / 10 + 0.05
    expected[[0, 6, 7]] = [0.0, 0.5, 1.0]
    np.testing.assert_allclose(fitted.values[1], expected, atol=1e-12)


def test_a_row_that_maps_to_zero_is_left_and_counted():
    """Below one half no row has its label, above it every row: three thirds map to nothing."""
    rows = np.eye(3) * 0.6 + 0.2 * (1 - np.eye(3))
    p = ClassPrediction.from_probs(rows[None])
    fitted = Histogram(bins=2).fit(p, np.arange(3))
    np.testing.assert_array_equal(fitted.values, [[0.0, 1.0]] * 3)
    test = ClassPrediction.from_probs([[[0.6, 0.3, 0.1], [1 / 3, 1 / 3, 1 / 3]]])
    assert fitted.unchanged_rows(test) == 1
    np.testing.assert_allclose(fitted(test).probs, [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3]], atol=1e-6)


def test_bbq_hand_values():
    p, z = np.array([0.1, 0.4, 0.6, 0.9]), np.array([0, 0, 1, 1])
    weight, edges, value = score_binning(p, z, np.array([0.5]))
    assert weight == pytest.approx(-0.8424269301526071, abs=1e-12)
    np.testing.assert_allclose(value, [1 / 12, 11 / 12], atol=1e-12)
    edges, value = average_binnings(p, z, 2)
    np.testing.assert_allclose(edges, [0.5])
    np.testing.assert_allclose(value, [1 / 12, 11 / 12], atol=1e-12)


def test_bbq_averages_its_binnings():
    """Two and three bins of four points by hand, weighed by their evidence."""
    p, z = np.array([0.1, 0.4, 0.6, 0.9]), np.array([0, 1, 0, 1])
    two = score_binning(p, z, np.array([0.5]))
    three = score_binning(p, z, np.array([0.5, 0.75]))  # chunks 2, 1, 1: the larger first
    w = np.exp([two[0], three[0]])
    w /= w.sum()
    edges, value = average_binnings(p, z, 3)
    np.testing.assert_allclose(edges, [0.5, 0.75])
    expected = [
        w[0] * two[2][0] + w[1] * three[2][0],
        w[0] * two[2][1] + w[1] * three[2][1],
        w[0] * two[2][1] + w[1] * three[2][2],
    ]
    np.testing.assert_allclose(value, expected, atol=1e-12)


def test_bbq_is_finite_with_empty_bins_and_ties():
    weight, _, value = score_binning(np.array([0.1]), np.array([0]), np.array([0.3, 0.6]))
    assert np.isfinite(weight)
    np.testing.assert_allclose(value[1:], [0.45, 0.8])  # an empty bin predicts its centre
    ties = ClassPrediction.from_probs([[[1.0, 0.0]] * 5 + [[0.0, 1.0]] * 5])
    fitted = BBQ().fit(ties, np.array([0] * 5 + [1] * 5))
    after = np.asarray(fitted(ties).probs)
    assert np.isfinite(after).all()
    assert (after[:5, 0] > 0.8).all()
    assert (after[5:, 1] > 0.8).all()


def test_bbq_mends_an_overconfident_prediction():
    p, y = overconfident(rows=2000, classes=2, factor=3.0)
    fitted = BBQ().fit(p, y)
    test, truth = overconfident(rows=2000, classes=2, factor=3.0, seed=5)
    loss = [-np.mean(np.asarray(q.log_prob(truth))) for q in (test, fitted(test))]
    assert loss[1] < loss[0] - 0.05


def test_application_can_be_compiled():
    p, y = overconfident()
    for calibrator in (Histogram(), Isotonic(), BBQ()):
        fitted = calibrator.fit(p, y)
        np.testing.assert_allclose(
            jax.jit(lambda q, f=fitted: f(q).probs)(p), fitted(p).probs, atol=1e-6
        )


def test_members_are_pooled_and_kept():
    p, y = overconfident(members=5)
    fitted = Histogram(apply_to="members").fit(p, y)
    assert fitted(p).num_members == 5
    flat = ClassPrediction(np.asarray(p.log_probs).reshape(1, -1, 3))
    pooled = Histogram().fit(flat, np.tile(y, 5))
    np.testing.assert_array_equal(fitted.values, pooled.values)
    assert Histogram().fit(p, y)(p).num_members == 1


def test_bad_settings_are_one_sentence():
    with pytest.raises(InputError, match="bins is 0; give a whole number from 1"):
        Histogram(bins=0)
    with pytest.raises(InputError, match=r"bins is 1\.5; give a whole number from 2"):
        BBQ(bins=1.5)
    with pytest.raises(InputError, match="prior is 0; give a positive number"):
        BBQ(prior=0)
    with pytest.raises(InputError, match="interpolation is 'cubic'"):
        Isotonic(interpolation="cubic")
