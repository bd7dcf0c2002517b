"""`predict_fn`: a pure function of the inputs, against finite differences and row by row."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.posterior import population


@pytest.fixture(scope="module")
def ensemble():
    problem = cx.Problem(
        cx.networks.MLP((5,), outputs=3),
        cx.Categorical(),
        inputs=cx.Standardise(np.array([1.0, -2.0]), np.array([2.0, 0.5])),
    )
    x = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    keys = jax.random.split(jax.random.key(1), 4)
    return population(problem, jax.vmap(lambda key: problem.init(key, x))(keys), x), x


def test_rows_by_vmap_are_the_rows_of_predict(ensemble):
    posterior, x = ensemble
    function = posterior.predict_fn()
    rows = jax.vmap(lambda row: function(row[None]).probs[0])(x)
    np.testing.assert_allclose(rows, posterior.predict(x).probs, rtol=1e-5)


def test_gradients_are_those_of_finite_differences(ensemble):
    posterior, x = ensemble
    function = jax.jit(lambda row: posterior.predict_fn()(row[None]).epistemic[0])
    gradient = jax.grad(function)(jnp.asarray(x[0]))
    step = 1e-2
    for i in range(2):
        change = np.eye(2, dtype=np.float32)[i] * step
        # Central differences err by step² f''' / 6, and by the rounding of float32 over the step.
        slope = (function(x[0] + change) - function(x[0] - change)) / (2 * step)
        np.testing.assert_allclose(gradient[i], slope, atol=2e-4)


def test_predict_inside_jit_checks_the_shape(ensemble):
    posterior, x = ensemble
    with pytest.raises(cx.InputError, match=r"x has shape \(6, 3\).*inputs of shape \(2,\)"):
        jax.jit(posterior.predict)(np.zeros((6, 3), np.float32))
    np.testing.assert_allclose(
        jax.jit(posterior.predict)(x).probs, posterior.predict(x).probs, rtol=1e-5
    )
