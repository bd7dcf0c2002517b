"""Draws of functions: their moments, and that a draw is one function wherever it is asked."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax import infinite
from credax.functions import GaussianProcess
from credax.functions.draws import prior_functions
from credax.functions.kernels import (
    RBF,
    InfiniteKernel,
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
POINTS = np.array([[0.5], [3.0], [-0.4]])
FEATURED = [
    RBF([0.5, 1.5], 2.0),
    Matern12(0.7),
    Matern32(0.7),
    Matern52(0.7),
    RationalQuadratic(0.8, 1.3, 0.7),
    Periodic([0.8, 1.1], 1.3, 1.2),
    Linear(0.7, 0.3),
    White(0.4),
    0.5 * RBF(0.9) * Linear() + Periodic(),
]


def assert_moments(drawn, mean, covariance):
    """Within 4.5 standard errors, which no entry of the few here exceeds by chance."""
    n = len(drawn)
    spread = np.sqrt(np.diag(covariance))
    assert (np.abs(drawn.mean(0) - mean) < 4.5 * spread / np.sqrt(n) + 1e-12).all()
    centred = drawn - mean
    products = centred[:, :, None] * centred[:, None]
    error = products.std(0) / np.sqrt(n)
    assert (np.abs(products.mean(0) - covariance) < 4.5 * error + 1e-12).all()


def test_moments_of_joint_draws():
    """1e5 draws; a lost correlation between points would fail."""
    posterior = GaussianProcess(RBF(), noise=0.1, mean=0.2).condition(X, Y)
    mean, covariance = posterior.moments(POINTS)[0][:, 0], posterior.covariance(POINTS)
    drawn = posterior.functions(0, 100_000, POINTS, joint="points")[..., 0]
    assert_moments(drawn, mean, covariance)


def test_moments_of_drawn_functions():
    posterior = GaussianProcess(RBF(), noise=0.1, mean=0.2).condition(X, Y)
    mean, covariance = posterior.moments(POINTS)[0][:, 0], posterior.covariance(POINTS)
    drawn = posterior.functions(1, 20_000, POINTS, features=24)[..., 0]
    assert_moments(drawn, mean, covariance)


@pytest.mark.parametrize("kernel", FEATURED, ids=lambda k: type(k).__name__)
def test_features_have_the_kernel_as_covariance(kernel):
    x = np.random.default_rng(0).normal(size=(3, 2))
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(3), 20_000)
        drawn = jax.jit(jax.vmap(lambda k: kernel.feature(k, jnp.asarray(x))))(keys)
    products = np.asarray(drawn)[:, :, None] * np.asarray(drawn)[:, None]
    error = products.std(0) / np.sqrt(len(drawn))
    exact = GaussianProcess(kernel).covariance(x)
    assert (np.abs(products.mean(0) - exact) < 4.5 * error + 1e-9).all()


def test_a_draw_is_one_function():
    """In another order, in parts, among more draws: the same values."""
    posterior = GaussianProcess(RBF() + White(0.1), noise=0.1).condition(X, np.c_[Y, -Y])
    whole = posterior.functions(5, 3, POINTS, features=32)
    turned = posterior.functions(5, 3, POINTS[::-1], features=32)
    np.testing.assert_allclose(turned, whole[:, ::-1], atol=1e-12)
    part = posterior.functions(5, 2, POINTS[1:2], features=32)
    np.testing.assert_allclose(part, whole[:2, 1:2], atol=1e-12)
    assert whole.shape == (3, 3, 2)
    assert np.abs(posterior.functions(6, 3, POINTS, features=32) - whole).min() > 1e-6


def test_prior_draws_and_their_outputs_are_independent():
    drawn = GaussianProcess(RBF(), mean=1.0).functions(0, 4000, X[:1], outputs=2, features=16)
    assert_moments(drawn[:, 0], np.ones(2), np.eye(2))


def test_a_kernel_without_features_draws_at_points(refused):
    net = infinite.serial(infinite.InfiniteDense(8), infinite.ReLU(), infinite.InfiniteDense(1))
    posterior = GaussianProcess(InfiniteKernel(net), noise=0.1).condition(X, Y)
    points = np.array([[-2.0], [2.0]])
    drawn = posterior.functions(0, 4000, points)[..., 0]
    assert_moments(drawn, posterior.moments(points)[0][:, 0], posterior.covariance(points))
    refused(lambda: posterior.functions(0, 2, points, joint="functions"), "no random features")
    keys = jax.random.split(jax.random.key(0), 1)
    refused(
        lambda: prior_functions(InfiniteKernel(net), keys, jnp.asarray(points), 1),
        "no random features",
    )
