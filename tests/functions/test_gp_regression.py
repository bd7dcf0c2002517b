"""Exact Gaussian processes against closed forms, identities and scikit-learn's numbers."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax.functions import GaussianProcess
from credax.functions.hyperparameters import Regression, parameters, regression_evidence
from credax.functions.kernels import (
    RBF,
    Constant,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    White,
)

X = np.array([[-1.0], [0.0], [1.0]])
Y = np.array([0.5, -0.3, 0.8])
POINTS = np.array([[0.5], [3.0]])
GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "gp_regression.npz")
VARIANCE, NOISE = 1.7, 0.05
ARD = [0.54, 1.62]
CASES = {
    "rbf": RBF(0.9, VARIANCE),
    "rbf_ard": RBF(ARD, VARIANCE),
    "matern12": Matern12(0.9, VARIANCE),
    "matern32": Matern32(0.9, VARIANCE),
    "matern52": Matern52(0.9, VARIANCE),
    "matern32_ard": Matern32(ARD, VARIANCE),
    "periodic": Periodic(0.8, 1.3, VARIANCE),
    "rational_quadratic": RationalQuadratic(0.9, VARIANCE, 0.7),
    "linear": VARIANCE * Linear(1.0, 0.36),
    "quadratic": Linear(1.0, 0.36) * Linear(1.0, 0.36),
    "rbf_plus_linear": RBF(0.9, VARIANCE) + Linear(1.0, 0.36),
    "rbf_times_periodic": RBF(1.8, VARIANCE) * Periodic(0.8, 1.3),
    "matern52_plus_periodic_plus_white": Matern52(0.9) + Periodic(0.8, 1.3, 0.5) + White(0.15),
}
# Ours in the order of scikit-learn's hyper-parameters; a number is a factor of its gradient.
ORDER = {
    "rbf": [1, 0],
    "rbf_ard": [2, 0, 1],
    "matern12": [1, 0],
    "matern32": [1, 0],
    "matern52": [1, 0],
    "matern32_ard": [2, 0, 1],
    "periodic": [2, 0, 1],
    "rational_quadratic": [1, 2, 0],
    "rbf_times_periodic": [1, 0, 2, 3],
    "matern52_plus_periodic_plus_white": [0, 4, 2, 3, 5],
}


def golden_rows(name):
    x, points = GOLDEN["X"], GOLDEN["X_test"]
    return (x[:, :1], points[:, :1]) if "periodic" in name else (x, points)


def gradient(kernel, log_noise, x, y):
    model = Regression(kernel, log_noise)
    with jax.enable_x64(True):
        rows = np.ones(len(x)) if log_noise is not None else np.full(len(x), NOISE)
        return regression_evidence(model, parameters(model), jnp.asarray(x), y[:, None], rows)


def test_three_points_by_hand():
    """Mean, covariance with its off-diagonal, evidence: a wrong solve or constant fails."""
    posterior = GaussianProcess(RBF(), noise=0.1).condition(X, Y)
    mean, variance = posterior.moments(POINTS)
    exact = [[0.082395236, -0.029495121], [-0.029495121, 0.976996305]]
    np.testing.assert_allclose(mean[:, 0], [0.182824281, 0.195623494], atol=1e-9)
    np.testing.assert_allclose(posterior.covariance(POINTS), exact, atol=1e-9)
    np.testing.assert_allclose(variance, np.diag(exact), atol=1e-9)
    assert posterior.log_evidence == pytest.approx(-3.740328903, abs=1e-9)
    assert posterior.jitter == 0.0


def test_gradient_of_the_evidence():
    """In log length-scale, log variance and log noise; and by finite differences with ARD."""
    value, found = gradient(RBF(), np.log(0.1), X, Y)
    assert value == pytest.approx(-3.740328903, abs=1e-9)
    np.testing.assert_allclose(found, [-1.156022, -0.405400, 0.143417], atol=1e-6)
    x, y = GOLDEN["X"], GOLDEN["y"]
    kernel = RBF(ARD, 1.3) + Linear([0.4, 0.8], 0.2)
    model = Regression(kernel, np.log(0.2))
    start = parameters(model)
    with jax.enable_x64(True):

        def at(vector):
            return regression_evidence(model, vector, jnp.asarray(x), y[:, None], np.ones(len(x)))

        slope = at(start)[1]
        for i, unit in enumerate(np.eye(len(start)) * 1e-5):
            numeric = (at(start + unit)[0] - at(start - unit)[0]) / 2e-5
            assert slope[i] == pytest.approx(numeric, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("shift", [0.0, 2.0])
def test_a_linear_kernel_is_bayesian_linear_regression(shift):
    x = np.array([[-1.0], [-0.5], [0.0], [0.5], [1.0]])
    y = np.array([-0.9, -0.2, 0.1, 0.8, 1.1])
    posterior = GaussianProcess(Linear(), noise=0.04).condition(x + shift, y)
    mean, variance = posterior.moments(np.array([[2.0 + shift]]))
    design, point = np.c_[np.ones(5), x + shift], np.array([1.0, 2.0 + shift])
    covariance = np.linalg.inv(np.eye(2) + design.T @ design / 0.04)
    weights = covariance @ design.T @ y / 0.04
    assert mean[0, 0] == pytest.approx(point @ weights, abs=1e-8)
    assert variance[0] == pytest.approx(point @ covariance @ point, abs=1e-8)
    recorded = {0.0: (-2.149361423, 2.147075366), 2.0: (-3.656955235, 2.056669804)}
    assert posterior.log_evidence == pytest.approx(recorded[shift][0], abs=1e-8)
    assert mean[0, 0] == pytest.approx(recorded[shift][1], abs=1e-8)


def test_an_observation_that_says_nothing_new():
    """One equal to the predictive mean leaves the mean and lowers the variance."""
    process, far = GaussianProcess(RBF(), noise=0.1), np.linspace(-2, 2, 9)[:, None]
    before = process.condition(X, Y)
    new = np.array([[0.6]])
    value = before.moments(new)[0][:, 0]
    after = process.condition(np.r_[X, new], np.r_[Y, value])
    np.testing.assert_allclose(after.moments(far)[0], before.moments(far)[0], atol=1e-12)
    assert (after.moments(far)[1] < before.moments(far)[1]).all()
    # Without noise the same observation twice says nothing new either.
    exact = GaussianProcess(RBF(), noise=1e-10)
    once, twice = exact.condition(X, Y), exact.condition(np.r_[X, X[:1]], np.r_[Y, Y[:1]])
    np.testing.assert_allclose(twice.moments(far)[0], once.moments(far)[0], atol=1e-6)


def test_variance_at_a_training_input_is_bounded():
    """``Var f ≤ s² k/(k + s²) < s²``."""
    posterior = GaussianProcess(RBF(0.7, 2.0), noise=0.1).condition(X, Y)
    bound = 0.1 * 2.0 / 2.1
    assert (posterior.moments(X)[1] <= bound + 1e-12).all()


def test_chain_rule_of_the_evidence():
    """``log p(y1, y2) = log p(y1) + log p(y2|y1)``."""
    process = GaussianProcess(Matern32(0.8), noise=0.1, mean=0.3)
    whole, first = process.condition(X, Y), process.condition(X[:2], Y[:2])
    mean, variance = first.moments(X[2:])
    left, spread = Y[2] - mean[0, 0], variance[0] + 0.1
    step = -0.5 * (np.log(2 * np.pi * spread) + left**2 / spread)
    assert whole.log_evidence == pytest.approx(first.log_evidence + step, abs=1e-12)


def test_far_away_it_is_the_prior_and_restriction_is_marginal():
    posterior = GaussianProcess(RBF(1.0, 1.3), noise=0.1, mean=0.4).condition(X, Y)
    mean, variance = posterior.moments(np.array([[40.0]]))
    np.testing.assert_allclose([mean[0, 0], variance[0]], [0.4, 1.3], atol=1e-12)
    whole = posterior.covariance(POINTS)
    np.testing.assert_allclose(posterior.covariance(POINTS[:1]), whole[:1, :1], atol=1e-14)


@pytest.mark.parametrize("name", CASES)
def test_recorded_numbers_of_scikit_learn(name):
    kernel, (x, points) = CASES[name], golden_rows(name)
    posterior = GaussianProcess(kernel, noise=NOISE).condition(x, GOLDEN["y"])
    mean, variance = posterior.moments(points)
    want = {key: GOLDEN[f"{name}/{key}"] for key in ("mean", "cov", "std", "K_12")}
    np.testing.assert_allclose(mean[:, 0], want["mean"], atol=1e-9)
    np.testing.assert_allclose(posterior.covariance(points), want["cov"], atol=1e-9)
    np.testing.assert_allclose(np.sqrt(variance), want["std"], atol=1e-7)
    prior = GaussianProcess(kernel)
    np.testing.assert_allclose(prior.covariance(x, points), want["K_12"], rtol=1e-11, atol=1e-14)
    evidence = GOLDEN[f"{name}/log_marginal_likelihood"]
    assert posterior.log_evidence == pytest.approx(float(evidence), abs=1e-8)
    if name in ORDER:
        slope = gradient(kernel, None, x, GOLDEN["y"])[1][ORDER[name]]
        np.testing.assert_allclose(slope, GOLDEN[f"{name}/lml_gradient"], rtol=1e-6, atol=1e-9)


def test_recorded_numbers_of_several_outputs_and_own_noise():
    x, points, process = GOLDEN["X"], GOLDEN["X_test"], GaussianProcess(CASES["rbf"], noise=NOISE)
    both = process.condition(x, GOLDEN["Y2"])
    np.testing.assert_allclose(both.moments(points)[0], GOLDEN["multi_output_rbf/mean"], atol=1e-9)
    covariance = GOLDEN["multi_output_rbf/cov"][..., 0]
    np.testing.assert_allclose(both.covariance(points), covariance, atol=1e-9)
    evidence = GOLDEN["multi_output_rbf/log_marginal_likelihood"]
    assert both.log_evidence == pytest.approx(float(evidence), abs=1e-8)
    own = process.condition(x, GOLDEN["y"], noise=GOLDEN["hetero_rbf/noise_variance"])
    mean, variance = own.moments(points)
    np.testing.assert_allclose(mean[:, 0], GOLDEN["hetero_rbf/mean"], atol=1e-9)
    np.testing.assert_allclose(np.sqrt(variance), GOLDEN["hetero_rbf/std"], atol=1e-7)
    evidence = GOLDEN["hetero_rbf/log_marginal_likelihood"]
    assert own.log_evidence == pytest.approx(float(evidence), abs=1e-8)


KERNELS = {**CASES, "constant": Constant(0.5), "plain linear": Linear([0.3, 0.6], 0.2)}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_covariances(name):
    """Symmetric, no eigenvalue below rounding, and its own diagonal."""
    kernel, x = KERNELS[name], np.random.default_rng(1).normal(size=(25, 2))
    matrix = GaussianProcess(kernel).covariance(x)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12, atol=1e-15)
    assert np.linalg.eigvalsh(matrix).min() > -1e-10
    with jax.enable_x64(True):
        np.testing.assert_allclose(kernel.diagonal(jnp.asarray(x)), np.diag(matrix), rtol=1e-13)


def test_distances_of_many_columns_agree_with_few():
    """A product loses digits: equal rows must stay at distance zero, where Matern has a kink."""
    x = np.random.default_rng(2).normal(size=(6, 40)) + 100.0
    matrix = GaussianProcess(Matern12(5.0)).covariance(x)
    distance = np.sqrt(np.sum((x[:, None] - x) ** 2, axis=-1))
    np.testing.assert_allclose(matrix, np.exp(-distance / 5.0), rtol=1e-10)
    np.testing.assert_array_equal(np.diag(matrix), 1.0)
