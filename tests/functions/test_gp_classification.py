"""The Laplace approximation of Gaussian process classification."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import erf, expit

from credax.functions import LaplaceProcess
from credax.functions.classification import laplace_evidence
from credax.functions.kernels import RBF

GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "gp_regression.npz")
X, POINTS = GOLDEN["X"], GOLDEN["X_test"]
LABELS = GOLDEN["classification/labels"].astype(float)[:, None]


@pytest.fixture(scope="module")
def binary():
    return LaplaceProcess.fit(RBF(0.9, 1.7), X, LABELS)


def test_recorded_numbers_of_scikit_learn(binary):
    """Its probability is an integral by five error functions (Williams and Barber 1998)."""
    evidence = GOLDEN["classification/log_marginal_likelihood"]
    assert binary.log_evidence == pytest.approx(float(evidence), abs=1e-6)
    mean, covariance = binary.moments(POINTS)
    slopes = np.array([0.41, 0.4, 0.37, 0.44, 0.39])[:, None]
    shares = np.array([-1854.8214151, 3516.89893646, 221.29346712, 128.12323805, -2010.49422654])
    alpha = 1 / (2 * covariance[:, 0, 0])
    gamma = slopes * mean[:, 0]
    integral = np.sqrt(np.pi / alpha) * erf(gamma * np.sqrt(alpha / (alpha + slopes**2)))
    integral = integral / (2 * np.sqrt(covariance[:, 0, 0] * 2 * np.pi))
    found = shares @ integral + 0.5 * shares.sum()
    np.testing.assert_allclose(found, GOLDEN["classification/prob1"], atol=1e-5)


def test_two_classes_by_softmax_are_the_sigmoid(binary):
    """The difference of two functions of half the variance; a lost determinant would show."""
    softmax = LaplaceProcess.fit(RBF(0.9, 1.7 / 2), X, np.c_[1 - LABELS, LABELS])
    assert softmax.log_evidence == pytest.approx(binary.log_evidence, abs=1e-9)
    mean, covariance = softmax.moments(POINTS)
    one, own = binary.moments(POINTS)
    np.testing.assert_allclose(mean[:, 1] - mean[:, 0], one[:, 0], atol=1e-10)
    both = covariance[:, 0, 0] + covariance[:, 1, 1] - 2 * covariance[:, 0, 1]
    np.testing.assert_allclose(both, own[:, 0, 0], atol=1e-10)


def test_three_classes_against_a_dense_route():
    """Mode by its equation; covariance and evidence by matrices of all rows and classes."""
    x, points, kernel = X[:8], POINTS[:2], RBF(0.9, 1.7)
    y = np.eye(3)[np.arange(8) % 3]
    process = LaplaceProcess.fit(kernel, x, y)
    gram = np.asarray(kernel(x, x), np.float64)
    with jax.enable_x64(True):
        gram = np.asarray(kernel(jnp.asarray(x), jnp.asarray(x))) + 1e-8 * 1.7 * np.eye(8)
        cross = np.asarray(kernel(jnp.asarray(points), jnp.asarray(x)))
    values = np.asarray(process.mode.values)
    p = np.exp(values) / np.exp(values).sum(1, keepdims=True)
    np.testing.assert_allclose(values, gram @ (y - p), atol=1e-6)
    whole = np.kron(np.eye(3), gram)
    stacked = p.T.reshape(-1)
    blocks = np.concatenate([np.diag(p[:, c]) for c in range(3)])
    curvature = np.diag(stacked) - blocks @ blocks.T
    half = 0.5 * np.linalg.slogdet(np.eye(24) + whole @ curvature)[1]
    fit = np.sum(y * values) - np.log(np.exp(values).sum(1)).sum()
    exact = fit - 0.5 * np.sum(values * np.linalg.solve(gram, values)) - half
    assert process.log_evidence == pytest.approx(exact, abs=1e-6)
    reach = np.kron(np.eye(3), cross)
    inner = curvature @ np.linalg.inv(np.eye(24) + whole @ curvature)
    dense = 1.7 * np.eye(3) - (reach @ inner @ reach.T).reshape(3, 2, 3, 2)[:, 0, :, 0]
    np.testing.assert_allclose(process.moments(points)[1][0], dense, atol=1e-7)


@pytest.mark.parametrize("labels", [LABELS, np.eye(3)[np.arange(16) % 3]], ids=["two", "three"])
def test_the_gradient_of_the_evidence_by_differences(labels, float64):
    """The mode moves with the kernel: a gradient that holds it fixed would fail."""
    x, y = jnp.asarray(X), jnp.asarray(labels)

    def evidence(logs):
        distance = jnp.sum(jnp.square(x[:, None] - x), -1)
        kernel = jnp.exp(logs[1] - 0.5 * distance * jnp.exp(-2 * logs[0]))
        return laplace_evidence(kernel + 1e-8 * jnp.eye(16), y)

    at, step = jnp.array([-0.1, 0.5]), 1e-5
    value = jax.jit(evidence)
    slope = jax.jit(jax.grad(evidence))(at)
    for i, unit in enumerate(np.eye(2) * step):
        numeric = (value(at + unit) - value(at - unit)) / (2 * step)
        assert slope[i] == pytest.approx(float(numeric), rel=1e-5, abs=1e-7)


def test_drawn_functions_have_the_moments_of_the_approximation():
    """20 000 draws, 4.5 standard errors; draws of the same key are one function."""
    y = np.eye(3)[np.arange(16) % 3]
    process = LaplaceProcess.fit(RBF(0.9, 1.7), X, y)
    mean, covariance = process.moments(POINTS[:1])
    drawn = process.functions(0, 20_000, POINTS[:1], features=16)[:, 0]
    products = (drawn - mean[0])[:, :, None] * (drawn - mean[0])[:, None]
    error = products.std(0) / np.sqrt(len(drawn))
    assert (np.abs(products.mean(0) - covariance[0]) < 4.5 * error).all()
    spread = np.sqrt(np.diagonal(covariance[0]) / len(drawn))
    assert (np.abs(drawn.mean(0) - mean[0]) < 4.5 * spread).all()
    again = process.functions(0, 2, POINTS[[3, 0]], features=16)
    np.testing.assert_allclose(again[:, 1], drawn[:2], atol=1e-10)


def test_labels_that_do_not_depend_on_the_input_stay_uncertain():
    process = LaplaceProcess.fit(RBF(0.9, 1.7), X, LABELS)
    far = process.moments(np.array([[50.0, 50.0]]))
    np.testing.assert_allclose([far[0][0, 0], far[1][0, 0, 0]], [0.0, 1.7], atol=1e-9)
    assert expit(far[0][0, 0]) == pytest.approx(0.5)
