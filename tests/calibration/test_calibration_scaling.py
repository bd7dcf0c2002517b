"""Vector, matrix, Dirichlet, beta and Platt scaling recover the maps that made their data."""

import numpy as np
import pytest
from calibration_cases import calibrated, labels_of, overconfident, softmax
from scipy.stats import chi2
from sklearn.linear_model import LogisticRegression

from credax.calibration import (
    Beta,
    CalibrationWarning,
    Dirichlet,
    Matrix,
    Platt,
    Temperature,
    Vector,
)
from credax.calibration.mixture_nll import mixture_nll
from credax.calibration.scaling import AffineScaling, choose_penalty, fit_matrix
from credax.errors import InputError
from credax.metrics.scoring import nll
from credax.prediction import ClassPrediction

pytestmark = pytest.mark.slow

ROWS = 6000


def planted(weight, bias, *, centred, seed=0):
    """Log-probabilities and labels from ``softmax(W z + b)`` of them."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.standard_normal((ROWS, len(bias)))
    log_probs = np.log(softmax(logits))
    z = log_probs - log_probs.mean(axis=1, keepdims=True) if centred else log_probs
    truth = softmax(z @ np.asarray(weight).T + bias)
    return ClassPrediction(log_probs[None]), labels_of(truth, rng.random(ROWS)), truth


def assert_explains_no_more_than_chance(after, truth, y, freedom):
    """Twice the log-likelihood gained over the true map is chi-squared with the map's freedom."""
    gained = np.asarray(after.log_prob(y), np.float64) - np.log(truth[np.arange(len(y)), y])
    assert -1e-2 < 2 * gained.sum() < chi2.isf(1e-4, freedom)


def gauge(weight):
    """A matrix without what softmax cannot see: a row added to all rows."""
    return weight - weight.mean(axis=0)


def test_mixture_nll_gradient_is_its_derivative():
    rng = np.random.default_rng(0)
    logits, y = rng.standard_normal((3, 2, 4)), np.array([0, 2, 1, 1])
    value, gradient = mixture_nll(logits, y)
    expected = -np.mean(np.log(softmax(np.moveaxis(logits, 0, -1)).mean(axis=0)[range(4), y]))
    assert value == pytest.approx(expected, abs=1e-14)
    for index in np.ndindex(logits.shape):
        step = np.zeros_like(logits)
        step[index] = 1e-6
        slope = (mixture_nll(logits + step, y)[0] - mixture_nll(logits - step, y)[0]) / 2e-6
        assert gradient[index] == pytest.approx(slope, abs=1e-9)


def test_vector_recovers_a_planted_map():
    weight, bias = np.array([0.5, 1.0, 1.5]), np.array([0.4, -0.4, 0.0])
    p, y, truth = planted(np.diag(weight), bias, centred=True)
    fitted = Vector().fit(p, y)
    np.testing.assert_allclose(fitted.weight, weight, atol=0.12)
    np.testing.assert_allclose(fitted.bias - fitted.bias.mean(), bias, atol=0.12)
    assert_explains_no_more_than_chance(fitted(p), truth, y, freedom=5)


@pytest.mark.parametrize(
    ("calibrator", "centred"), [(Matrix(), True), (Dirichlet(0.0, 0.0), False)]
)
def test_matrix_maps_recover_a_planted_map(calibrator, centred):
    weight = np.array([[0.8, 0.2, -0.1], [0.0, 0.6, 0.3], [-0.2, 0.1, 1.1]])
    bias = np.array([0.3, -0.3, 0.0])
    p, y, truth = planted(weight, bias, centred=centred)
    fitted = calibrator.fit(p, y)
    found = gauge(fitted.weight)
    if centred:  # the inputs sum to zero, so a constant along a row of W is invisible too
        found, weight = (a - a.mean(axis=1, keepdims=True) for a in (found, gauge(weight)))
    np.testing.assert_allclose(found, gauge(weight), atol=0.15)
    assert_explains_no_more_than_chance(fitted(p), truth, y, freedom=6 if centred else 8)


def test_a_matrix_on_log_probabilities_is_multinomial_regression():
    """Without penalty it is scikit-learn's logistic regression of the label on log p."""
    p, y, _ = planted(np.diag([0.7, 1.0, 1.3]), np.zeros(3), centred=False)
    fitted = Dirichlet(0.0, 0.0).fit(p, y)
    features = np.asarray(p.log_probs[0], np.float64)
    oracle = LogisticRegression(C=np.inf, tol=1e-10, max_iter=2000).fit(features, y)
    np.testing.assert_allclose(gauge(fitted.weight), gauge(oracle.coef_), atol=1e-4)
    np.testing.assert_allclose(fitted(p).probs, oracle.predict_proba(features), atol=1e-5)


def test_penalised_optimum_is_stationary():
    """At the optimum no entry can be moved to lower the NLL plus the stated penalty."""
    logits, y = calibrated(200, 3, 0)
    z = np.ascontiguousarray(np.log(softmax(2 * logits)).T)[:, None, :]
    off, intercept = 0.3, 0.05
    found, value = fit_matrix(z, y, (off, intercept))

    def objective(map_):
        value = mixture_nll((map_[:, :3] @ z[:, 0] + map_[:, 3:]).reshape(z.shape), y)[0]
        outside = map_[:, :3] * (1 - np.eye(3))
        return value + off * np.sum(outside**2) / 6 + intercept * np.mean(map_[:, 3] ** 2)

    best = objective(found)
    assert value == pytest.approx(best, abs=1e-12)
    for index in np.ndindex(found.shape):
        for step in (-1e-3, 1e-3):
            moved = found.copy()
            moved[index] += step
            assert objective(moved) > best


def test_penalty_is_chosen_by_held_out_likelihood():
    """The true map is a shift: off the diagonal the penalty is hard, on the bias it is soft."""
    p, y, _ = planted(np.eye(3), np.array([1.5, -1.5, 0.0]), centred=False, seed=3)
    p, y = p.select(slice(0, 300)), y[:300]
    z = np.ascontiguousarray(np.moveaxis(np.asarray(p.log_probs, np.float64), -1, 0))
    off, intercept = choose_penalty(z, y, (None, None), 0)
    assert off >= 1.0
    assert intercept <= 0.1
    assert choose_penalty(z[..., :30], y[:30], (None, 5.0), 0)[1] == 5.0


def test_dirichlet_identity_is_the_identity():
    p, _ = overconfident(members=2)
    identity = AffineScaling(np.eye(3), np.zeros(3), "log_probs", (0.0, 0.0))
    np.testing.assert_allclose(identity(p).log_probs, p.log_probs, atol=2e-5)


@pytest.mark.parametrize("members", [1, 5])
def test_more_freedom_never_fits_worse(members):
    p, y = overconfident(rows=400, classes=4, members=members)
    before = float(nll(p, y))
    losses = [float(nll(c.fit(p, y)(p), y)) for c in (Temperature(), Vector(), Matrix())]
    assert before > losses[0] > losses[1] > losses[2]


def test_many_classes_bring_the_penalty():
    p, y = overconfident(rows=150, classes=11)
    assert Matrix(bias=1.0).fit(p, y, key=0).penalty[0] > 0
    assert Matrix(off_diagonal=2.0, bias=0.5).fit(p, y).penalty == (2.0, 0.5)
    p, y = overconfident(rows=150, classes=4)
    assert Matrix().fit(p, y).penalty == (0.0, 0.0)


def test_separable_rows_are_reported():
    p = ClassPrediction.from_logits(np.array([[[1.0, 0.0], [0.0, 1.0]] * 10]))
    y = np.array([0, 1] * 10)
    for calibrator in (Platt(), Vector(), Matrix()):
        with pytest.warns(CalibrationWarning, match="calibration row is classified correctly"):
            calibrator.fit(p, y)


def test_absent_classes_are_reported():
    p, y = overconfident()
    with pytest.warns(CalibrationWarning, match="class 2 has no calibration row"):
        Vector().fit(p, np.minimum(y, 1))


def binary(a, b, c, rows=20_000, seed=0):
    rng = np.random.default_rng(seed)
    p1 = rng.beta(1.0, 1.2, rows)
    odds = a * np.log(p1) - b * np.log1p(-p1) + c
    y = (rng.random(rows) < 1 / (1 + np.exp(-odds))).astype(int)
    return ClassPrediction.from_probs(np.stack([1 - p1, p1], axis=-1)[None]), y


def test_beta_recovers_a_planted_map():
    p, y = binary(0.5, 1.5, 0.4)
    fitted = Beta().fit(p, y)
    np.testing.assert_allclose([fitted.a, fitted.b, fitted.c], [0.5, 1.5, 0.4], atol=0.08)


def test_beta_keeps_the_signs():
    """Where the free optimum has a < 0, the bounded one has a = 0 exactly."""
    p, y = binary(-0.5, 1.0, 0.0)
    fitted = Beta().fit(p, y)
    assert fitted.a == 0.0
    assert fitted.b > 0


def test_platt_is_logistic_regression_of_the_log_odds():
    p, y = binary(0.7, 0.7, -0.3, rows=3000)
    fitted = Platt().fit(p, y)
    assert fitted.a == fitted.b
    logs = np.asarray(p.log_probs[0], np.float64)
    odds = (logs[:, 1] - logs[:, 0])[:, None]
    oracle = LogisticRegression(C=np.inf, tol=1e-10).fit(odds, y)
    np.testing.assert_allclose(
        [fitted.a, fitted.c], [oracle.coef_[0, 0], oracle.intercept_[0]], atol=1e-4
    )
    np.testing.assert_allclose(fitted(p).probs, oracle.predict_proba(odds), atol=1e-5)


def test_platt_of_calibrated_rows_is_nearly_the_identity():
    p, y = binary(1.0, 1.0, 0.0)
    fitted = Platt().fit(p, y)
    np.testing.assert_allclose([fitted.a, fitted.c], [1.0, 0.0], atol=0.05)


@pytest.mark.parametrize(("calibrator", "name"), [(Beta(), "beta"), (Platt(), "platt")])
def test_more_than_two_classes_are_refused(calibrator, name):
    p, y = overconfident()
    with pytest.raises(InputError, match=f"has 3 classes; '{name}' is for two: use 'dirichlet'"):
        calibrator.fit(p, y)


def test_bad_settings_are_one_sentence():
    with pytest.raises(InputError, match="off_diagonal is -1; give a number from 0"):
        Dirichlet(off_diagonal=-1)
    p, y = overconfident(rows=2)
    with pytest.raises(InputError, match="there are 2 calibration rows; choosing the penalty"):
        Dirichlet().fit(p, y)
