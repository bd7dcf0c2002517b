"""Simulation-based calibration, and Geweke's joint test: posteriors right on average over data.

Weights are drawn from the prior, data from the weights, draws from the posterior of the data: the
rank of the true weights among the draws is uniform, whatever the test quantity (Talts et al. 2018).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laplace_cases import line_network, line_problem, surround
from scipy import stats

import credax as cx
from credax.methods.sampling.hamiltonian_chain import Chain
from credax.methods.sampling.log_joint import Tempered
from credax.methods.sampling.microcanonical import Microcanonical
from credax.training import Descent

pytestmark = pytest.mark.slow

T = np.array([-1, -0.5, 0, 0.5, 1])
DESIGN_B = np.stack([np.ones(5), T + 2], axis=1).astype(np.float32)
LINE = cx.FunctionNetwork(
    lambda key, x: jax.random.normal(key, (x.shape[-1], 1)), lambda w, x: x @ w
)
CURVE = cx.FunctionNetwork(
    lambda key, x: jax.random.normal(key, (4,)),
    lambda w, x: w[0] * jnp.tanh(w[1] * x + w[2]) + w[3],
)


def disagreements(ranks, draws, bins):
    """What is wrong with ranks ``[sets]`` that should be uniform on 0 .. draws: a list of words.

    Chi-squared at a significance of 1e-3; mean and variance within four standard errors, the last
    of which is ``variance sqrt((kurtosis - 1) / sets)`` with 9/5 of a uniform Gaussian.
    """
    assert (draws + 1) % bins == 0
    counts = np.bincount(ranks * bins // (draws + 1), minlength=bins)
    found = [] if stats.chisquare(counts).pvalue > 1e-3 else ["chi-squared"]
    variance = ((draws + 1) ** 2 - 1) / 12
    if abs(ranks.mean() - draws / 2) > 4 * np.sqrt(variance / len(ranks)):
        found.append("mean")
    if abs(ranks.var() - variance) > 4 * variance * np.sqrt(0.8 / len(ranks)):
        found.append("variance")
    return found


def hamiltonian_draws(problem, x, step_size, *, draws, warmup=100, thinning=8):
    """``run(key, y)`` with draws of one chain of HMC, as `credax.HMC` runs it."""
    training = cx.HMC(samples=1).settings(cx.Training(), len(x))

    def run(key, y):
        chain = Chain(
            Descent(problem, training, len(x)), jnp.asarray(x), y, "hmc", warmup, step_size, 0.8,
            (("num_integration_steps", 16),),
        )  # fmt: skip
        state = chain.init(key, problem.init(key, x))

        def one(state, key):
            keys = jax.random.split(key, thinning)
            state, _ = jax.lax.scan(lambda s, k: (chain.step(k, s, None)[0], None), state, keys)
            return state, state.chain.position

        return jax.lax.scan(one, state, jax.random.split(key, draws))[1]

    return run


def test_hmc_on_linear_regression():
    """Conjugate linear regression, 300 data sets, ranks of both weights and of a prediction."""
    rng = np.random.default_rng(5)
    draws, sets = 15, 300
    problem = cx.Problem(LINE, cx.Gaussian(0.2), prior=cx.GaussianPrior(precision=1.0))
    true = rng.normal(size=(sets, 2))
    y = (true @ DESIGN_B.T + 0.2 * rng.normal(size=(sets, 5))).astype(np.float32)
    keys = jax.random.split(jax.random.key(3), sets)
    run = hamiltonian_draws(problem, DESIGN_B, 0.05, draws=draws)
    w = np.asarray(jax.jit(jax.vmap(run))(keys, jnp.asarray(y)))[..., 0]
    for direction in ([1, 0], [0, 1], [1, 4]):
        ranks = (w @ direction < (true @ direction)[:, None]).sum(1)
        assert disagreements(ranks, draws, 8) == []
        # Draws half as wide around their mean would be seen.
        narrow = w.mean(1, keepdims=True) + 0.5 * (w - w.mean(1, keepdims=True))
        ranks = (narrow @ direction < (true @ direction)[:, None]).sum(1)
        assert "variance" in disagreements(ranks, draws, 8)


def test_hmc_on_a_network_with_one_hidden_unit():
    """``a tanh(b x + c) + d``; quantities that do not see the sign of the unit.

    The last is the likelihood of the data themselves, which a sampler that ignored them would fail.
    """
    rng = np.random.default_rng(6)
    draws, sets, noise = 15, 300, 0.3
    x = np.linspace(-2, 2, 6, dtype=np.float32)[:, None]
    problem = cx.Problem(CURVE, cx.Gaussian(noise), prior=cx.GaussianPrior(precision=1.0))
    true = rng.normal(size=(sets, 4))

    def curve(w, x):
        return w[..., :1] * np.tanh(w[..., 1:2] * x + w[..., 2:3]) + w[..., 3:]

    y = curve(true, x[:, 0]) + noise * rng.normal(size=(sets, 6))
    keys = jax.random.split(jax.random.key(4), sets)
    run = hamiltonian_draws(problem, x, 0.08, draws=draws, warmup=200, thinning=12)
    w = np.asarray(jax.jit(jax.vmap(run))(keys, jnp.asarray(y, jnp.float32)), float)
    quantities = {
        "slope": lambda w: w[..., 0] * w[..., 1],
        "shift": lambda w: w[..., 3],
        "prediction": lambda w: curve(w, np.array([3.0]))[..., 0],
        "likelihood": lambda w: (
            -np.square(curve(w, x[:, 0]) - (y[:, None] if w.ndim == 3 else y)).sum(-1)
        ),
    }
    for name, quantity in quantities.items():
        ranks = (quantity(w) < quantity(true)[:, None]).sum(1)
        assert disagreements(ranks, draws, 8) == [], name


def test_mile_on_linear_regression():
    """Ten weights, 300 data sets: ranks of a weight, a prediction and the likelihood of the data.

    Warm-up finds step size and length of every chain by itself. No step is rejected, so the ranks
    are right only as far as the energy error that warm-up aims at is small enough.
    """
    rng = np.random.default_rng(8)
    draws, sets, noise, thinning = 15, 300, 0.5, 60
    x = rng.normal(size=(15, 10)).astype(np.float32)
    problem = cx.Problem(LINE, cx.Gaussian(noise), prior=cx.GaussianPrior(precision=1.0))
    true = rng.normal(size=(sets, 10))
    y = true @ x.T + noise * rng.normal(size=(sets, 15))
    training = cx.MILE().settings(cx.Training(), len(x))

    def run(key, y):
        chain = Microcanonical(
            Descent(problem, training, len(x)), Tempered(problem, jnp.asarray(x), y), 2000
        )
        step = lambda state, key: (chain.step(key, state, None)[0], None)  # noqa: E731
        state, _ = jax.lax.scan(
            step, chain.init(key, problem.init(key, x)), jax.random.split(key, 2000)
        )

        def one(state, key):
            state, _ = jax.lax.scan(step, state, jax.random.split(key, thinning))
            return state, state.chain.position

        return jax.lax.scan(one, state, jax.random.split(jax.random.fold_in(key, 1), draws))[1]

    keys = jax.random.split(jax.random.key(9), sets)
    w = np.asarray(jax.jit(jax.vmap(run))(keys, jnp.asarray(y, jnp.float32)), float)[..., 0]
    quantities = {
        "weight": lambda w: w[..., 0],
        "prediction": lambda w: w.sum(-1),
        "likelihood": lambda w: -np.square(w @ x.T - (y[:, None] if w.ndim == 3 else y)).sum(-1),
    }
    for name, quantity in quantities.items():
        ranks = (quantity(w) < quantity(true)[:, None]).sum(1)
        assert disagreements(ranks, draws, 8) == [], name


def test_the_joint_law_is_left_alone():
    """Geweke 2004: weights by HMC given data, data given weights, in turn, stay with their prior.

    Every chain begins with a draw of both, so that weights of different chains are independent
    draws of the prior after any number of turns, and errors are those of independent draws.
    """
    chains, turns, noise = 4000, 12, 0.3
    x = np.linspace(-2, 2, 6, dtype=np.float32)[:, None]
    problem = cx.Problem(CURVE, cx.Gaussian(noise), prior=cx.GaussianPrior(precision=1.0))
    training = cx.HMC(samples=1).settings(cx.Training(), 6)

    def turn(w, key):
        first, second = jax.random.split(key)
        outputs = problem.outputs(cx.Variables(w, {}), jnp.asarray(x))[0]
        y = outputs[:, 0] + noise * jax.random.normal(first, (6,))
        # Warm-up at a given step size is plain transitions: two of them.
        chain = Chain(
            Descent(problem, training, 6), jnp.asarray(x), y, "hmc", 2, 0.1, 0.8,
            (("num_integration_steps", 6),),
        )  # fmt: skip
        state = chain.init(second, cx.Variables(w, {}))
        for one in jax.random.split(second):
            state, _ = chain.step(one, state, None)
        return state.chain.position, None

    def run(key):
        start = problem.init(key, x).params
        return start, jax.lax.scan(turn, start, jax.random.split(key, turns))[0]

    start, w = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(7), chains))
    start, w = np.asarray(start, float), np.asarray(w, float)
    assert np.mean(np.any(start != w, axis=1)) > 0.99
    assert np.all(np.abs(w.mean(0)) < 4 / np.sqrt(chains))
    second = w.T @ w / chains
    error = np.sqrt((1 + np.eye(4)) / chains)
    assert np.all(np.abs(second - np.eye(4)) < 4 * error)
    assert min(stats.kstest(column, "norm").pvalue for column in w.T) > 1e-3


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("options", [{}, {"structure": "full"}, {"bias": "separate"}], ids=str)
def test_laplace_on_linear_regression(options):
    """Conjugate linear regression, 200 data sets, each with a fit of its own around its own mode.

    A bias in a block of its own has too narrow a Gaussian, and is seen.
    """
    rng = np.random.default_rng(1)
    sets, draws, x = 200, 19, (T + 2)[:, None]
    phi = np.concatenate([np.ones((5, 1)), x], axis=1)
    true = rng.normal(size=(sets, 2))
    y = true @ phi.T + 0.2 * rng.normal(size=(sets, 5))
    modes = np.linalg.solve(np.eye(2) + phi.T @ phi / 0.04, phi.T @ y.T / 0.04).T
    record = cx.Laplace(subset="all", prior_precision="problem", **options)
    w = np.empty((sets, draws, 2))
    for i, (mode, targets) in enumerate(zip(modes, y, strict=True)):
        data = cx.Split(x, targets[:, None])
        posterior = surround(line_problem(), [line_network(mode)], data, record)
        drawn = posterior.sample(jax.random.key(i), draws).params["0_dense"]
        w[i] = np.stack([drawn["bias"][:, 0], drawn["kernel"][:, 0, 0]], axis=1)
    for direction in ([1, 0], [0, 1]):
        ranks = (w @ direction < (true @ direction)[:, None]).sum(1)
        assert disagreements(ranks, draws, 10) == (
            ["chi-squared", "variance"] if "bias" in options else []
        )
