"""Implicit processes: a draw is one function, and a linear network has a known covariance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.functions import (
    GaussianProcess,
    NeuralSampler,
    ProcessDraws,
    Simulator,
    standard_weights,
)
from credax.functions.kernels import RBF

X = np.array([[-1.0], [0.2], [1.5], [0.9]], np.float32)


def sources():
    network = cx.networks.MLP((6,), outputs=2, activation="tanh")
    sampler = cx.networks.MLP((6,), outputs=1)
    variables = sampler.init(jax.random.key(0), np.zeros((1, 4), np.float32))

    def steps(key, x):
        place, height = jax.random.split(key)
        return jnp.where(x > jax.random.normal(place), jax.random.normal(height), 0.0)

    return {
        "weights": standard_weights(network, X[:1]),
        "sampler": NeuralSampler(sampler, variables, noise=3),
        "simulator": Simulator(steps),
        "gaussian": ProcessDraws(GaussianProcess(RBF(), mean=0.5), outputs=2, features=16),
    }


@pytest.mark.parametrize("name", list(sources()))
def test_a_draw_is_one_function(name):
    """Exchangeable, consistent when points are added, the same key in every batch and call."""
    process = sources()[name]
    whole = process.functions(3, 4, X)
    turned = process.functions(3, 4, X[::-1].copy())
    np.testing.assert_allclose(turned, whole[:, ::-1], atol=1e-5)
    np.testing.assert_allclose(process.functions(3, 4, X[:2]), whole[:, :2], atol=1e-5)
    np.testing.assert_allclose(process.functions(3, 2, X), whole[:2], atol=1e-5)
    assert np.abs(process.functions(4, 4, X) - whole).max() > 1e-3
    assert np.abs(whole[0] - whole[1]).max() > 1e-3


def test_a_linear_network_has_the_covariance_of_its_features():
    """``φ(x) Λ φ(x')ᵀ`` with kernel variance 1 and bias variance 1; 1e5 draws, 4 SE."""
    process = standard_weights(cx.networks.MLP((), outputs=1), X[:1])
    drawn = process.functions(0, 100_000, X)[..., 0].astype(np.float64)
    phi = np.c_[np.ones(4), X.astype(np.float64)]
    products = drawn[:, :, None] * drawn[:, None]
    error = products.std(0) / np.sqrt(len(drawn))
    assert (np.abs(products.mean(0) - phi @ phi.T) < 4 * error).all()
    assert (np.abs(drawn.mean(0)) < 4 * drawn.std(0) / np.sqrt(len(drawn))).all()


def test_what_is_refused(refused):
    norm = cx.networks.MLP((4,), outputs=1, norm="batch")
    refused(lambda: standard_weights(norm, X[:1]), "batch statistics")
    process = Simulator(lambda key, x: jnp.zeros(3))
    refused(lambda: process.functions(0, 2, X), r"must be \[points, outputs\]")
    refused(lambda: process.functions(0, 2, np.zeros(3)), "x has shape")
