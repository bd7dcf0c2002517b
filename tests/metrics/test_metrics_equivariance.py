"""Metrics of equivariance: constants, random labels, invariances, pools, slopes and plateaus."""

import numpy as np
import pytest

from credax.errors import InputError
from credax.metrics import equivariance as eq

RNG = np.random.default_rng(0)


def test_a_constant_predictor_agrees_with_itself_everywhere():
    outputs = np.broadcast_to(RNG.standard_normal((3, 5, 1, 4)), (3, 5, 8, 4))
    for majority in (False, True):
        assert (eq.orbit_same_prediction(outputs, majority=majority) == 8).all()
    np.testing.assert_allclose(eq.symmetric_kl(outputs), 0, atol=1e-15)
    np.testing.assert_allclose(eq.equivariance_error(outputs), 0, atol=1e-30)
    np.testing.assert_allclose(eq.relative_orbit_standard_deviation(outputs), 0, atol=1e-12)


def test_random_labels():
    """Expected 1 + (|G| - 1) / classes; 4.5 standard errors."""
    outputs = RNG.standard_normal((1, 20000, 4, 10))
    same = eq.orbit_same_prediction(outputs)
    assert abs(same.mean() - 1.3) < 4.5 * same.std() / 20000**0.5
    assert (eq.orbit_same_prediction(outputs, majority=True) >= same).all()


def test_divergence_by_hand_and_zero_only_where_equal():
    p, q = np.array([0.7, 0.3]), np.array([0.2, 0.8])
    outputs = np.log(np.stack([p, q]))[None, None]
    by_hand = np.sum(p * np.log(p / q)) + np.sum(q * np.log(q / p))
    np.testing.assert_allclose(eq.symmetric_kl(outputs), by_hand / 2, rtol=1e-12)
    assert (eq.symmetric_kl(RNG.standard_normal((2, 6, 4, 3))) > 0).all()


def test_renaming_elements_changes_nothing():
    outputs = RNG.standard_normal((3, 6, 5, 4))
    other = outputs[:, :, [0, 3, 1, 4, 2]]
    for metric in (
        eq.orbit_same_prediction,
        eq.symmetric_kl,
        eq.orbit_variance,
        eq.equivariance_error,
    ):
        np.testing.assert_allclose(metric(outputs), metric(other), rtol=1e-12)


def test_averages_of_outputs_and_of_probabilities_differ():
    outputs = np.array([[[[5.0, 0.0, 0.0]]], [[[0.0, 1.0, 0.0]]], [[[0.0, 1.0, 0.0]]]])
    outputs = np.concatenate([outputs, outputs], axis=2)
    assert eq.mixed(outputs).argmax(-1)[0, 0] == 0
    by_probability = np.exp(eq.mixed(outputs, "probabilities"))
    exp = np.exp(outputs)
    np.testing.assert_allclose(
        by_probability, (exp / exp.sum(-1, keepdims=True)).mean(0), rtol=1e-12
    )
    with pytest.raises(InputError, match="average"):
        eq.mixed(outputs, "votes")
    with pytest.raises(InputError, match="members, points"):
        eq.mixed(outputs[0])


def test_outputs_that_turn():
    angle = 2 * np.pi / 3
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turns = np.stack([np.eye(2), turn, turn @ turn])
    start = RNG.standard_normal((1, 4, 2))
    outputs = np.einsum("goc,mpc->mpgo", turns, start)
    np.testing.assert_allclose(eq.equivariance_error(outputs, turns), 0, atol=1e-28)
    assert (eq.equivariance_error(outputs) > 1).any()
    size = np.mean(np.sum(start[0] ** 2, -1))
    given = eq.equivariance_error(outputs, size=2 * size)
    np.testing.assert_allclose(given, eq.equivariance_error(outputs) / 2, rtol=1e-12)
    with pytest.raises(InputError, match="size is 0"):
        eq.equivariance_error(outputs, size=0.0)
    worst = eq.equivariance_error(outputs, worst=True)
    assert (worst >= eq.equivariance_error(outputs)).all()


def test_curves_draw_without_replacement_and_fall_as_one_over_the_members():
    """Variance of means of independent members; the slope within 4.5 standard deviations."""
    slopes, levels = [], []
    for seed in range(12):
        outputs = np.random.default_rng(seed).standard_normal((256, 40, 4, 1))
        curve = eq.against_members(eq.orbit_variance, outputs, (1, 2, 4, 8, 16, 32), seed=seed)
        assert curve.ensembles == (256, 128, 64, 32, 16, 8)
        slopes.append(eq.slope(curve))
        levels.append(eq.plateau(curve).significant)
    assert abs(np.mean(slopes) + 1) < 4.5 * np.std(slopes) / 12**0.5 + 1e-3
    assert sum(levels) <= 1
    biased = outputs + np.array([0.5, 0, 0, 0])[:, None]
    assert eq.plateau(
        eq.against_members(eq.orbit_variance, biased, (1, 2, 4, 8, 16, 32))
    ).significant
    whole = eq.against_members(eq.orbit_variance, outputs, (256,))
    np.testing.assert_allclose(whole.mean, eq.orbit_variance(outputs).mean())
    with pytest.raises(InputError, match="pool of 256"):
        eq.against_members(eq.orbit_variance, outputs, (300,))


def test_the_table():
    outputs = RNG.standard_normal((8, 10, 4, 3))
    table = eq.evaluate_orbit(outputs)
    assert table["orbit_same_prediction"] == eq.orbit_same_prediction(outputs).mean()
    members = eq.beside_members(eq.orbit_same_prediction, outputs)
    each = [eq.orbit_same_prediction(m[None]).mean() for m in outputs]
    assert members.quantiles[0.5] == pytest.approx(np.median(each))
    numbers = eq.evaluate_orbit(outputs, classes=False)
    assert numbers["equivariance_error"] == pytest.approx(eq.equivariance_error(outputs).mean())
