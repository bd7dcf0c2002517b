"""Temperature scaling against closed forms and known temperatures."""

import jax
import numpy as np
import pytest
from calibration_cases import calibrated, overconfident
from scipy.optimize import minimize_scalar

from credax.calibration import CalibrationWarning, Temperature, nll_after_temperature
from credax.errors import InputError
from credax.metrics.scoring import accuracy, nll
from credax.prediction import ClassPrediction


def test_hand_value():
    p = ClassPrediction.from_logits(np.array([[[2.0, 0.0]] * 4], np.float32))
    fitted = Temperature().fit(p, np.array([0, 0, 0, 1]))
    assert fitted.temperature == pytest.approx(2 / np.log(3), rel=1e-7)
    assert float(nll(fitted(p), np.array([0, 0, 0, 1]))) == pytest.approx(
        0.5623351446188083, abs=1e-6
    )


def test_hand_value_in_double_precision(float64):
    p = ClassPrediction.from_logits(np.array([[[2.0, 0.0]] * 4]))
    y = np.array([0, 0, 0, 1])
    fitted = Temperature().fit(p, y)
    assert fitted.temperature == pytest.approx(1.8204784532536746, abs=1e-12)
    assert float(nll(fitted(p), y)) == pytest.approx(0.5623351446188083, abs=1e-12)


def test_recovers_a_known_temperature_within_its_standard_error():
    """Two hundred fits at T = 3: their errors in units of the stated standard error are N(0, 1)."""
    scores, errors = [], []
    for seed in range(200):
        logits, y = calibrated(500, 4, seed)
        fitted = Temperature().fit(ClassPrediction.from_logits(3.0 * logits[None]), y)
        scores.append((fitted.temperature - 3.0) / fitted.standard_error)
        errors.append(fitted.standard_error)
    assert np.mean(np.square(scores)) == pytest.approx(1.0, abs=0.4)  # 4 sd of a mean of 200
    assert np.abs(np.mean(scores)) < 4 / np.sqrt(200) + 0.05  # 1/T is unbiased, T not quite
    assert max(np.abs(scores)) < 5
    assert 0.1 < np.mean(errors) < 0.3


def test_two_percent_at_ten_thousand_rows():
    logits, y = calibrated(10_000, 10, 0)
    p = ClassPrediction.from_logits(2.5 * logits[None])
    fitted = Temperature().fit(p, y)
    assert fitted.temperature == pytest.approx(2.5, rel=0.02)
    assert abs(fitted.temperature - 2.5) < 4 * fitted.standard_error
    assert float(accuracy(fitted(p), y)) == float(accuracy(p, y))


@pytest.mark.parametrize("apply_to", ["members", "mixture"])
@pytest.mark.parametrize("members", [1, 5])
def test_is_the_optimum_of_what_it_returns(members, apply_to):
    p, y = overconfident(members=members)
    fitted = Temperature(apply_to=apply_to).fit(p, y)

    def loss(log_temperature):
        log_probs = np.asarray(p.log_probs, np.float64)
        if apply_to == "mixture":
            log_probs = np.log(np.mean(np.exp(log_probs), axis=0, keepdims=True))
        z = log_probs / np.exp(log_temperature)
        z = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
        return -np.mean(np.log(np.mean(np.exp(z[:, np.arange(len(y)), y]), axis=0)))

    grid = np.linspace(np.log(0.01), np.log(100), 400)
    best = grid[np.argmin([loss(g) for g in grid])]
    found = minimize_scalar(loss, bounds=(best - 0.1, best + 0.1), options={"xatol": 1e-10})
    assert np.log(fitted.temperature) == pytest.approx(found.x, abs=1e-6)
    after = fitted(p)
    assert after.num_members == (members if apply_to == "members" else 1)
    assert float(nll(after, y)) <= float(nll(p, y)) + 1e-6
    if members == 1 or apply_to == "mixture":
        assert (after.label == p.label).all()


def test_members_and_mixture_differ_for_a_population():
    p, y = overconfident(members=5)
    fits = [Temperature(apply_to=a).fit(p, y).temperature for a in ("members", "mixture")]
    assert abs(fits[0] - fits[1]) > 0.05


def test_application_can_be_compiled():
    p, y = overconfident(members=2)
    fitted = Temperature().fit(p, y)
    compiled = jax.jit(lambda q: fitted(q).log_probs)(p)
    np.testing.assert_allclose(compiled, fitted(p).log_probs, atol=1e-6)


def test_separable_rows_reach_the_lower_bound():
    for margin in (5.0, 50.0, 900.0):  # at 900 every gradient underflows
        p = ClassPrediction.from_logits(np.array([[[margin, 0.0], [0.0, margin]]]))
        with pytest.warns(CalibrationWarning, match=r"bound 0\.01, because every calibration row"):
            fitted = Temperature().fit(p, np.array([0, 1]))
        assert fitted.temperature == 0.01
        assert fitted.at_bound
        assert np.isinf(fitted.standard_error)


@pytest.mark.parametrize("members", [1, 3])
def test_useless_rows_reach_the_upper_bound(members):
    p = ClassPrediction.from_logits(np.array([[[1.0, 0.0]] * 4] * members))
    with pytest.warns(CalibrationWarning, match="bound 100, because the labels' logits"):
        fitted = Temperature().fit(p, np.array([0, 0, 1, 1]))
    assert fitted.temperature == 100.0


def test_uniform_rows_have_no_temperature():
    p = ClassPrediction.from_logits(np.zeros((1, 4, 3)))
    fitted = Temperature().fit(p, np.array([0, 1, 2, 0]))
    assert fitted.temperature == 1.0
    assert np.isinf(fitted.standard_error)


def test_logits_of_a_thousand_are_finite():
    logits, y = calibrated(200, 4, 0)
    p = ClassPrediction.from_logits(1000 * logits[None])
    with pytest.warns(CalibrationWarning, match="bound 100"):
        fitted = Temperature().fit(p, y)
    assert np.isfinite(np.asarray(fitted(p).log_probs)).all()


def test_cross_fitted_nll_removes_the_temperature():
    """At any sharpness the cross-fitted NLL is that of the calibrated model, up to one fit."""
    logits, y = calibrated(2000, 4, 1)
    best = float(nll(ClassPrediction.from_logits(logits[None]), y))
    for factor in (0.3, 4.0):
        p = ClassPrediction.from_logits(factor * logits[None])
        assert float(nll(p, y)) > best + 0.1
        assert nll_after_temperature(p, y) == pytest.approx(best, abs=0.005)


def test_cross_fitting_never_scores_its_own_rows():
    """Two folds of one row each: T of the other row is a bound, known in closed form."""
    p = ClassPrediction.from_logits(np.array([[[2.0, 0.0], [2.0, 0.0]]]))
    value = nll_after_temperature(p, np.array([0, 1]), repeats=3)
    # Row 0 (right) at T = 100, fitted on the wrong row; row 1 (wrong) at T = 0.01.
    right, wrong = np.log1p(np.exp(-2 / 100)), np.log1p(np.exp(-200.0)) + 200.0
    assert value == pytest.approx((right + wrong) / 2, rel=1e-5)


def test_cross_fitting_depends_on_the_key_only():
    p, y = overconfident(members=2)
    assert nll_after_temperature(p, y, key=1) == nll_after_temperature(p, y, key=jax.random.key(1))
    assert nll_after_temperature(p, y, key=1) != nll_after_temperature(p, y, key=2)


def test_bad_settings_are_one_sentence():
    p, y = overconfident(rows=4)
    with pytest.raises(InputError, match="apply_to is 'member'; give 'members' or 'mixture'"):
        Temperature(apply_to="member")
    with pytest.raises(InputError, match="folds is 5 and repeats 5 for 4 rows"):
        nll_after_temperature(p, y, folds=5)
    with pytest.raises(InputError, match="key is 'a'; give a whole number"):
        nll_after_temperature(p, y, key="a")
