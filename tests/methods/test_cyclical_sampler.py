"""Cyclical SG-MCMC: when it explores and samples, how long cycles are, and the posterior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.data import Split
from credax.training import Descent
from credax.training.langevin import Langevin
from credax.training.schedule import learning_rate_at

pytestmark = pytest.mark.slow

T = np.array([-1, -0.5, 0, 0.5, 1])
Y = np.array([-0.9, -0.2, 0.1, 0.8, 1.1], np.float32)
DESIGN_A = np.stack([np.ones(5), T], axis=1).astype(np.float32)
LINE = cx.FunctionNetwork(lambda key, x: jax.random.normal(key, (2, 1)), lambda w, x: x @ w)


def test_noise_is_only_in_the_sampling_part_of_a_cycle(blobs):
    """The trajectory is the optimiser's up to the first noisy step, counted exactly."""
    method = cx.CyclicalSGMCMC(cycles=2, samples=2, exploration=0.6)
    split, training = Split(*blobs), cx.Training(epochs=10, batch_size=20)
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())
    training = method.settings(training, 60)
    dynamics = method.dynamics(problem, split, training).inner
    noisy = [bool(dynamics.noisy(jnp.int32(k))) for k in range(30)]
    assert noisy == ([False] * 9 + [True] * 6) * 2
    assert method.captures(30) == [12, 15, 27, 30]
    batch = problem.prepare(blobs[0][:20], blobs[1][:20])
    cold = Langevin(dynamics.descent, 0.0, friction=0.1, quiet=9, cycle=15)
    states = [
        d.init(jax.random.key(0), problem.init(jax.random.key(0), blobs[0]))
        for d in (dynamics, cold)
    ]
    for step in range(10):
        key = jax.random.key(step)
        states = [d.step(key, s, batch)[0] for d, s in zip((dynamics, cold), states, strict=True)]
        one, other = (np.asarray(s.variables.params["0_dense"]["kernel"]) for s in states)
        if step < 9:
            np.testing.assert_array_equal(one, other)
        else:
            assert np.abs(one - other).max() > 0.02


class Grid(Descent):
    """25 Gaussians at even points, covariance .03 I, with noise N(0, I) in gradients."""

    def gradient(self, key, variables, batch):
        centres = jnp.stack(jnp.meshgrid(*[2.0 * jnp.arange(-2, 3)] * 2), -1).reshape(-1, 2)

        def potential(w):
            squared = jnp.sum(jnp.square(w - centres), axis=1)
            return -jax.scipy.special.logsumexp(-squared / 0.06)

        gradient = jax.grad(potential)(variables.params)
        return gradient + jax.random.normal(key, (2,)), {}, {"loss": jnp.zeros(())}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_cycles_visit_more_modes(seed):
    """30 cycles from .07 against a rate that falls as t^-.55, 50 000 steps each."""
    steps = 50_000
    problem, batch = cx.Problem(LINE, cx.Gaussian(1.0)), None
    cyclic = cx.Training(
        epochs=steps, batch_size=1, learning_rate=0.07, schedule="cyclic-cosine", cycles=30
    )

    class Falling(Langevin):
        def rate(self, step):
            return 0.043 * (step + 1.0) ** -0.55

    def visited(dynamics, used):
        key = jax.random.key(seed)

        def one(state, t):
            state, _ = dynamics.step(jax.random.fold_in(key, t), state, batch)
            return state, state.variables.params

        first = dynamics.init(key, cx.Variables(jax.random.normal(key, (2,)), {}))
        path = np.asarray(jax.jit(lambda: jax.lax.scan(one, first, jnp.arange(steps))[1])())
        path = path[used(np.arange(steps))]
        near = np.linalg.norm(path - 2 * np.round(path / 2), axis=1) < 0.35
        cells = np.round(path[near] / 2).astype(int)
        return len({tuple(cell) for cell in cells[np.abs(cells).max(1) <= 2]})

    length = -(-steps // 30)
    cycles = visited(Langevin(Grid(problem, cyclic, 1)), lambda t: t % length >= 50)
    falling = visited(Falling(Grid(problem, cyclic, 1)), lambda t: t >= 50)
    assert cycles > falling


def test_cycles_sample_the_posterior():
    """Temperature 1 is the posterior of linear regression, at the end of a cycle of cosine rates.

    Without friction the variance along a weight follows ``v' = (1 - h λ)² v + 2 h`` exactly.
    """
    chains = 4000
    method = cx.CyclicalSGMCMC(cycles=2, samples=1, exploration=0.5, friction=1.0, modes=chains)
    training = cx.Training(epochs=600, batch_size=5, learning_rate=0.01)
    problem = cx.Problem(LINE, cx.Gaussian(0.2), prior=cx.GaussianPrior(precision=1.0))
    posterior = cx.fit(problem, method, Split(DESIGN_A, Y), training=training, progress=False)
    w = np.asarray(posterior.variables.params, np.float64).reshape(chains, 2, 2)[:, 1]
    rate = learning_rate_at(method.settings(training, 5), 5)
    steps = np.array([float(rate(k)) for k in range(600)]) / 5
    precision, variance = np.array([126, 63.5]), np.ones(2)
    for k, h in enumerate(steps):
        variance = (1 - h * precision) ** 2 * variance + 2 * h * (k % 300 >= 150)
    np.testing.assert_allclose(variance * precision, 1, atol=0.03)  # the posterior's, nearly
    assert np.all(np.abs(w.mean(0) - [0.178571429, 0.984251969]) < 4 * np.sqrt(variance / chains))
    assert np.all(np.abs(w.var(0) / variance - 1) < 4 * np.sqrt(2 / chains))


def test_cycles_of_uneven_length():
    """21 steps in two cycles are 11 and 10; by whole division 10 and 11."""
    method = cx.CyclicalSGMCMC(cycles=2, samples=2, exploration=0.5)
    assert method.lengths(21) == (11, 5)
    assert method.captures(21) == [8, 11, 19, 21]
