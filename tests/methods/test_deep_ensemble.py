import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.methods.ensembles.deep_ensemble import input_range
from credax.network import FunctionNetwork, Variables


def test_null_space_keeps_the_initial_spread():
    """theta = theta_0 + Phi^T (Phi Phi^T)^-1 (y - Phi theta_0), Phi = (1, 1), y = 1."""
    members = 2000
    line = FunctionNetwork(
        lambda key, x: {"w": jax.random.normal(key, (2, 1))}, lambda p, x: x @ p["w"]
    )
    problem = cx.Problem(line, cx.Gaussian(1.0))
    training = cx.Training(
        epochs=60, batch_size=1, learning_rate=0.2, momentum=0.0, schedule="constant"
    )
    split = Split(np.ones((1, 2), np.float32), np.ones(1, np.float32))
    posterior = cx.fit(problem, cx.DeepEnsemble(members), split, training=training, progress=False)
    theta = np.asarray(posterior.variables.params["w"])[..., 0]
    keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.fold_in(jax.random.key(0), i), 0))(
        jnp.arange(members)
    )
    start = np.asarray(jax.vmap(lambda k: jax.random.normal(k, (2, 1)))(keys))[..., 0]
    exact = start + 0.5 * (1 - start.sum(1, keepdims=True))
    np.testing.assert_allclose(theta, exact, atol=1e-5)
    error = np.sqrt(0.5 / members)
    assert np.abs(theta.mean(0) - 0.5).max() < 4 * error
    assert np.abs(np.cov(theta.T) - np.array([[0.5, -0.5], [-0.5, 0.5]])).max() < 4 * 0.5 * np.sqrt(
        2 / members
    )


class SampleThenOptimise:
    """Rows 0-4 are data with perturbed targets, rows 5-6 pull each weight to a draw of the prior.

    ``x = (row, phi)``; the perturbations and the draw are the member's own and live in its state.
    """

    noise = 0.2

    def init(self, key, x):
        first, second = jax.random.split(key)
        state = {"prior": jax.random.normal(first, (2,)), "noise": jax.random.normal(second, (5,))}
        return Variables({"w": jnp.zeros(2)}, state)

    def apply(self, variables, x, *, key=None, train=False):
        row, phi, w = x[:, 0].astype(int), x[:, 1:], variables.params["w"]
        data = phi @ w - self.noise * variables.state["noise"][jnp.clip(row, 0, 4)]
        pull = self.noise * (w - variables.state["prior"])[jnp.clip(row - 5, 0, 1)]
        return jnp.where(row < 5, data, pull)[:, None], variables.state


@pytest.mark.slow
def test_sample_then_optimise_draws_from_the_posterior():
    """Linear regression: mean and covariance within 4 Monte Carlo standard errors."""
    members = 4000
    t = np.array([-1, -0.5, 0, 0.5, 1])
    phi = np.concatenate([np.stack([np.ones(5), t], 1), np.zeros((2, 2))])
    x = np.concatenate([np.arange(7)[:, None], phi], axis=1).astype(np.float32)
    y = np.array([-0.9, -0.2, 0.1, 0.8, 1.1, 0, 0], np.float32)
    problem = cx.Problem(SampleThenOptimise(), cx.Gaussian(SampleThenOptimise.noise))
    training = cx.Training(
        epochs=400, batch_size=7, learning_rate=0.04, momentum=0.5, schedule="constant"
    )
    posterior = cx.fit(
        problem, cx.DeepEnsemble(members), Split(x, y), training=training, progress=False
    )
    w = np.asarray(posterior.variables.params["w"])
    mean, variance = np.array([0.178571429, 0.984251969]), np.array([0.007936508, 0.015748031])
    assert (np.abs(w.mean(0) - mean) < 4 * np.sqrt(variance / members)).all()
    assert (np.abs(w.var(0) - variance) < 4 * variance * np.sqrt(2 / members)).all()
    covariance = np.cov(w.T)[0, 1]
    assert abs(covariance) < 4 * np.sqrt(variance.prod() / members)


@pytest.fixture(scope="module")
def trained(blobs):
    x, y = blobs
    problem = cx.Problem(cx.networks.MLP((8,), outputs=3), cx.Categorical())
    training = cx.Training(epochs=3, batch_size=16)
    return cx.fit(problem, cx.DeepEnsemble(4), Split(x, y), training=training, progress=False)


def test_the_mixture_is_no_worse_than_its_members_on_average(trained, blobs):
    x, y = blobs
    wrong = (y + 1) % 3
    for labels in (y, wrong):
        prediction = trained.predict(x)
        mixture = -np.asarray(prediction.log_prob(labels)).mean()
        rows = np.arange(len(labels))
        members = -np.asarray(prediction.log_probs)[:, rows, labels].mean()
        assert mixture <= members + 1e-6


def test_members_differ(trained):
    first = np.asarray(jax.tree.leaves(trained.variables)[-1])
    assert len({leaf.tobytes() for leaf in first}) == 4


def test_order_of_members_changes_nothing(trained, blobs):
    x, _ = blobs
    np.testing.assert_allclose(
        trained.take([2, 0, 3, 1]).predict(x).probs, trained.predict(x).probs, rtol=1e-5
    )


def test_adversarial_smoothing_is_the_loss_at_the_worst_corner(float64):
    """One full-batch step on a line: loss(x) + loss(x + eps sign(dloss/dx)), by hand."""
    x, y = np.array([[0.0], [4.0]]), np.array([1.0, 2.0])
    line = FunctionNetwork(lambda key, x: {"w": jnp.full((1, 1), 0.7)}, lambda p, x: x @ p["w"])
    problem = cx.Problem(line, cx.Gaussian(1.0))
    training = cx.Training(
        epochs=1, batch_size=2, learning_rate=0.01, momentum=0.0, schedule="constant"
    )
    record = cx.DeepEnsemble(members=1, adversarial=0.05)
    split = Split(x, y)
    np.testing.assert_allclose(input_range(problem, split), [4.0])
    posterior = cx.fit(problem, record, split, training=training, progress=False)
    slope = np.sign(0.7 * (0.7 * x[:, 0] - y))
    other = x[:, 0] + 0.05 * 4 * slope
    gradient = ((0.7 * x[:, 0] - y) * x[:, 0]).mean() + ((0.7 * other - y) * other).mean()
    np.testing.assert_allclose(
        np.asarray(posterior.variables.params["w"]).squeeze(), 0.7 - 0.01 * gradient, rtol=1e-10
    )


@pytest.mark.parametrize("changes", [{"members": 0}, {"offset": -1}, {"adversarial": 0.0}])
def test_bad_records_are_refused(changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        dataclasses.replace(cx.DeepEnsemble(), **changes)
