"""Strength of the prior and noise level as arrays: swept without compiling, mapped, derived."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.network import FunctionNetwork

X = np.linspace(-1, 1, 8, dtype=np.float32)[:, None]
Y = np.sin(3 * X[:, 0]).astype(np.float32)


class Counted:
    """A line that counts how often it is traced."""

    def __init__(self):
        self.traces = 0
        self.network = FunctionNetwork(self.start, self.line)

    def start(self, key, x):
        return {"w": jax.random.normal(key, (x.shape[-1], 1)), "b": jnp.zeros(1)}

    def line(self, params, x):
        self.traces += 1
        return x @ params["w"] + params["b"]


SWEEPS = {
    "weight decay": lambda v: {"weight_decay": v},
    "precision": lambda v: {"prior": cx.GaussianPrior(precision=v)},
    "mixture": lambda v: {"prior": cx.ScaleMixturePrior(second=v)},
}


@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_sweep_over_the_prior_compiles_once(sweep):
    """The second value of the prior traces no training step and no prediction again."""
    counted, training = Counted(), cx.Training(2, 8)
    found, traces = [], []
    for value in (0.1, 0.7):
        problem = cx.Problem(counted.network, cx.Gaussian(0.3), **SWEEPS[sweep](value))
        posterior = cx.fit(problem, cx.Single(), (X, Y), training=training, progress=False)
        found.append(float(posterior.predict(X).mean[0]))
        traces.append(counted.traces)
    checks = Counted()
    cx.Problem(checks.network, cx.Gaussian(0.3)).check(X, Y)  # shapes are checked every time
    engine = 1  # and convolutions counted
    assert traces[1] - traces[0] <= checks.traces + engine
    assert found[0] != found[1]


def test_a_sweep_over_the_noise_compiles_once():
    counted, traces, means = Counted(), [], []
    for noise in (0.3, 0.9):
        problem = cx.Problem(counted.network, cx.Gaussian(noise), weight_decay=0.1)
        posterior = cx.fit(problem, cx.Single(), (X, Y), training=cx.Training(2, 8), progress=False)
        prediction = posterior.predict(X)
        np.testing.assert_allclose(prediction.aleatoric, noise**2, rtol=1e-6)
        traces.append(counted.traces)
        means.append(float(prediction.mean[0]))
    assert traces[1] - traces[0] <= 2
    assert means[0] != means[1]


def test_the_numbers_in_a_description_stay_numbers(tmp_path):
    problem = cx.Problem(cx.networks.MLP((), outputs=1), cx.Gaussian(0.3), weight_decay=0.1)
    options = {"training": cx.Training(1, 8), "folder": tmp_path / "run", "progress": False}
    posterior = cx.fit(problem, cx.Single(), (X, Y), **options)
    assert posterior.problem.prior.weight_decay == 0.1
    assert type(cx.open_run(tmp_path / "run").problem.likelihood.noise) is float


def test_log_joint_is_derived_by_the_precision(float64):
    """``d/dτ [P/2 log τ/2π - τ/2 |θ|²] = P / 2τ - |θ|²/2``, mapped over several at once."""
    params = {"w": jnp.array([[0.3]]), "b": jnp.array([-1.2])}

    def value(precision):
        prior = cx.GaussianPrior(precision=precision)
        problem = cx.Problem(Counted().network, cx.Gaussian(0.3), prior=prior)
        return problem.log_joint(cx.Variables(params), X, Y, num_data=8)

    precisions = jnp.array([0.5, 2.0, 7.0])
    exact = 2 / (2 * precisions) - 0.5 * (0.3**2 + 1.2**2)
    np.testing.assert_allclose(jax.vmap(jax.grad(value))(precisions), exact, rtol=1e-12)
    np.testing.assert_allclose(jax.vmap(value)(precisions)[1], value(2.0), rtol=1e-12)


def test_log_likelihood_is_derived_by_the_noise(float64):
    """``d/dσ Σ log N = Σ (r²/σ³ - 1/σ)``; the same for Student's t by differences."""
    outputs, y = jnp.asarray(X, jnp.float64), jnp.asarray(Y, jnp.float64)
    noises = jnp.array([0.2, 1.3])
    slope = jax.vmap(jax.grad(lambda s: cx.Gaussian(s).log_prob(outputs, y).sum()))(noises)
    squares = float(jnp.sum((y - outputs[:, 0]) ** 2))
    np.testing.assert_allclose(slope, squares / noises**3 - 8 / noises, rtol=1e-10)
    counts = jnp.round(jnp.abs(5 * y))
    for make in (lambda s: cx.StudentT(4.0, s), lambda s: cx.NegativeBinomial(s)):
        total = lambda s, make=make: make(s).log_prob(outputs, counts).sum()  # noqa: E731
        by_hand = (total(0.5 + 1e-6) - total(0.5 - 1e-6)) / 2e-6
        np.testing.assert_allclose(jax.grad(total)(jnp.float64(0.5)), by_hand, rtol=1e-5)


def test_a_flat_prior_stays_flat_as_an_array():
    assert cx.GaussianPrior(weight_decay=0.0).traced().weight_decay == 0.0
    prior = cx.GaussianPrior(weight_decay=jnp.float32(0.0))
    params = {"w": jnp.ones(3)}
    assert float(prior.log_prob(params, num_data=5)) == 0
    assert float(prior.penalty(params, num_data=5)) == 0
    slope = jax.grad(lambda p: prior.log_prob(p, num_data=5))(params)
    np.testing.assert_array_equal(slope["w"], 0)
