"""The stationary covariance of descent against closed forms and a simulation."""

import numpy as np
import pytest

from credax import quality
from credax.errors import InputError

CURVATURE = np.array([[2.0, 0.5], [0.5, 1.0]])
NOISE = np.array([[3.0, -1.0], [-1.0, 2.0]])


def test_one_dimension_by_hand():
    """The stationary variance is .083333333, not .075 of continuous time."""
    found = quality.stationary_covariance(np.array([[2.0]]), np.array([[3.0]]), 0.1)
    assert found[0, 0] == pytest.approx(0.1 * 3 / (2 * (2 - 0.1 * 2)), abs=1e-15)
    assert abs(found[0, 0] - 0.075) > 0.008


def test_it_is_the_fixed_point_and_its_limit():
    found = quality.stationary_covariance(CURVATURE, NOISE, 0.3)
    step = np.eye(2) - 0.3 * CURVATURE
    np.testing.assert_allclose(found, step @ found @ step.T + 0.09 * NOISE, atol=1e-12)
    slow = quality.stationary_covariance(CURVATURE, NOISE, 1e-6)
    np.testing.assert_allclose(CURVATURE @ slow + slow @ CURVATURE, 1e-6 * NOISE, rtol=1e-5)


def test_iterates_have_it():
    """20 000 chains after 200 steps; an entry's error is sqrt((s_ij² + s_ii s_jj) / chains)."""
    rng, chains = np.random.default_rng(0), 20_000
    w, root = np.zeros((chains, 2)), np.linalg.cholesky(NOISE)
    for _ in range(200):
        w = w - 0.3 * (w @ CURVATURE + rng.normal(size=(chains, 2)) @ root.T)
    exact = quality.stationary_covariance(CURVATURE, NOISE, 0.3)
    error = np.sqrt((exact**2 + np.outer(np.diag(exact), np.diag(exact))) / chains)
    assert np.all(np.abs(np.cov(w.T) - exact) < 4 * error)


def test_what_never_settles_is_refused():
    with pytest.raises(InputError, match=r"learning_rate is 2\.0 and steps grow"):
        quality.stationary_covariance(CURVATURE, NOISE, 2.0)
    with pytest.raises(InputError, match="two square matrices"):
        quality.stationary_covariance(CURVATURE, np.eye(3), 0.1)
