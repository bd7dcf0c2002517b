"""The KL of functions at finitely many points: closed forms, gradients by scores, its growth."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.functions.function_divergence import (
    gaussian_divergence,
    gaussian_score,
    linearised_moments,
    over_outputs,
    surrogate,
    with_noise,
)
from credax.functions.function_priors import drawn_score
from credax.functions.kernels import RBF
from credax.gaussians import LowRankGaussian
from credax.methods.variational.variational import gaussian_kl

GROWTH = {
    # γ: the KL at 5, 10, 20, 50 and 100 points
    0.01: (13.514, 20.522, 22.776, 25.525, 27.867),
    0.1: (6.689, 8.379, 9.527, 11.340, 12.975),
}
X = jnp.array([[-1.0], [0.2], [1.5]])


@pytest.mark.parametrize("gamma", list(GROWTH))
def test_the_divergence_grows_with_the_points(gamma, float64):
    """A line with standard normal coefficients against an RBF process on [-2, 2]."""
    for count, value in zip((5, 10, 20, 50, 100), GROWTH[gamma], strict=True):
        x = jnp.linspace(-2.0, 2.0, count)[:, None]
        line = with_noise(1 + x @ x.T, gamma)
        process = with_noise(RBF()(x, x), gamma)
        zero = jnp.zeros(count)
        assert float(gaussian_divergence(zero, line, zero, process)) == pytest.approx(
            value, abs=5.1e-4
        )


def test_the_divergence_of_two_gaussians_by_hand(float64):
    """One dimension: ``log s₀/s + (s² + d²)/2s₀² - ½``."""
    found = gaussian_divergence(
        jnp.array([1.0]), jnp.array([[0.25]]), jnp.array([0.2]), jnp.array([[4.0]])
    )
    assert float(found) == pytest.approx(np.log(4) + (0.25 + 0.64) / 8 - 0.5, abs=1e-12)


def line(weights):
    return weights["bias"] + X @ weights["kernel"]


def gaussian(free):
    std = jax.tree.map(jnp.exp, free["log_std"])
    none = jax.tree.map(lambda m: jnp.zeros((0, *m.shape)), free["mean"])
    return LowRankGaussian(free["mean"], std, none)


def start():
    mean = {"bias": jnp.array([0.4]), "kernel": jnp.array([[-0.7]])}
    log_std = {"bias": jnp.array([-0.2]), "kernel": jnp.array([[-0.5]])}
    return {"mean": mean, "log_std": log_std}


GAMMA, DRAWS = 0.5, 400


def closed(free):
    value, _, covariance = linearised_moments(line, gaussian(free))
    prior = with_noise(RBF()(X, X), GAMMA)
    return gaussian_divergence(value, with_noise(covariance, GAMMA), 0 * value, prior)


def estimates(exact, repeats):
    """Gradients of the surrogate, over ``repeats`` sets of draws."""
    free = start()
    value, _, covariance = linearised_moments(line, gaussian(free))
    own, prior = with_noise(covariance, GAMMA), with_noise(RBF()(X, X), GAMMA)

    def loss(free, key):
        draws, noise = jax.random.split(key)
        weights = jax.vmap(gaussian(free).draw)(jax.random.split(draws, DRAWS))
        values = jax.vmap(line)(weights)
        values = values + GAMMA * jax.random.normal(noise, values.shape)
        fixed = jax.lax.stop_gradient(values)
        centred = fixed - value.reshape(-1, 1)
        score = gaussian_score(centred, own) if exact else drawn_score(fixed, fixed, 0.99)
        return surrogate(values, score, gaussian_score(fixed, prior))

    keys = jax.random.split(jax.random.key(0), repeats)
    slopes = jax.jit(jax.vmap(jax.grad(loss), (None, 0)))(free, keys)
    return np.concatenate([np.asarray(a).reshape(repeats, -1) for a in jax.tree.leaves(slopes)], 1)


@pytest.fixture(scope="module")
def slopes():
    """The gradient of the closed form in means and log deviations."""
    return np.concatenate([np.ravel(a) for a in jax.tree.leaves(jax.grad(closed)(start()))])


def test_the_gradient_with_exact_scores_is_the_closed_form(slopes):
    """4 standard errors over 200 sets of 400 draws: the plumbing, signs and stopped gradients."""
    found = estimates(exact=True, repeats=200)
    error = found.std(0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(found.mean(0) - slopes) < 4 * error).all()


def test_the_gradient_with_spectral_scores_is_near(slopes):
    """The estimator's own relative error at 400 draws, .3 (see the tests of scores)."""
    found = estimates(exact=False, repeats=8).mean(0)
    assert np.linalg.norm(found - slopes) < 0.4 * np.linalg.norm(slopes)


def test_linearised_divergence_of_a_linear_network_is_that_of_its_weights(float64):
    """Three points and two weights: the Jacobian has full column rank, and no noise is needed."""
    q, precision = gaussian(jax.tree.map(lambda a: a.astype(float), start())), 2.0
    value, jacobian, covariance = linearised_moments(line, q)
    mean = jnp.concatenate([jnp.ravel(a) for a in jax.tree.leaves(q.mean)])
    prior = jacobian @ jacobian.T / precision
    exact = float(gaussian_kl(q, precision))
    for gamma in (1e-3, 1e-5):
        found = gaussian_divergence(
            value,
            covariance + gamma**2 * jnp.eye(3),
            value - jacobian @ mean,
            prior + gamma**2 * jnp.eye(3),
        )
        assert float(found) == pytest.approx(exact, rel=100 * gamma**2 + 1e-6)


def test_shared_columns_are_in_the_covariance(float64):
    """``J (D + U Uᵀ) Jᵀ`` with the dense covariance of the Gaussian."""
    q = gaussian(jax.tree.map(lambda a: a.astype(float), start()))
    columns = {"bias": jnp.array([[0.3], [0.1]]), "kernel": jnp.array([[[0.5]], [[-0.2]]])}
    q = LowRankGaussian(q.mean, q.std, columns)
    _, jacobian, covariance = linearised_moments(line, q)
    np.testing.assert_allclose(covariance, jacobian @ q.covariance() @ jacobian.T, atol=1e-12)


def test_outputs_are_independent_processes(float64):
    """In the order of values ``[points, outputs]`` flattened; the score is the same one."""
    covariance = with_noise(RBF()(X, X), 0.1)
    values = jnp.asarray(np.random.default_rng(0).normal(size=(4, 3, 2)))
    whole = over_outputs(covariance, 2)
    expected = -np.linalg.solve(np.asarray(whole), np.asarray(values).reshape(4, 6).T).T
    found = gaussian_score(values, covariance)
    np.testing.assert_allclose(np.asarray(found).reshape(4, 6), expected, atol=1e-8)


def test_the_prior_of_weights_is_drawn_through_the_network():
    """Covariance ``s² φ φᵀ`` of a linear network; 20 000 draws, 4.5 standard errors."""
    from credax.functions.function_priors import WeightFunctions

    problem = cx.Problem(cx.networks.MLP((), outputs=1), cx.Gaussian(0.1))
    prior = WeightFunctions(problem, jnp.float32(0.5))
    drawn = prior.functions(0, 20_000, np.asarray(X, np.float32))[..., 0].astype(np.float64)
    products = drawn[:, :, None] * drawn[:, None]
    error = products.std(0) / np.sqrt(len(drawn))
    assert (np.abs(products.mean(0) - 0.25 * (1 + np.asarray(X @ X.T))) < 4.5 * error).all()
