"""SGLD, SGHMC and cyclical SG-MCMC: Gaussian posteriors in closed form, and temperature 0."""

import warnings

import blackjax.diagnostics
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.methods.sampling.chains import effective_sample_size, split_rhat
from credax.methods.sampling.stochastic import TargetChanged, spread_captures
from credax.problem import Batch
from credax.training import Descent
from credax.training.langevin import Langevin

pytestmark = pytest.mark.slow


def stationary_variance(
    precision: float, step: float, temperature: float = 1.0, friction: float = 1.0
) -> float:
    """The sampler's variance on a Gaussian: ``T / (A (1 - h A / (2 (2 - a))))``, h = rate / N."""
    bias = 1 - step * precision / (2 * (2 - friction))
    return temperature / (precision * bias) if bias > 0 else np.inf


def parabola(num_data, gradient_noise=0.0):
    """U = θ² over all rows (precision 2), so the mean loss is θ² / N."""

    class Parabola:
        def init(self, key, x):
            return cx.Variables({"w": jax.random.normal(key)}, {})

        def apply(self, variables, x, *, key=None, train=False):
            w = variables.params["w"]
            if train and gradient_noise:
                # d/dw of (w + e)²/N is 2 w/N + 2 e/N: variance 4 Var(e) / N² in g.
                w = w + gradient_noise * jax.random.normal(key)
            return w * jnp.ones((len(x), 1)), {}

    return cx.Problem(Parabola(), cx.Gaussian(float(np.sqrt(num_data / 2))))


def simulate(problem, num_data, step, chains=40_000, steps=300, key=0, **options):
    """The last iterates of many chains with ``step = rate / N``."""
    training = cx.Training(
        batch_size=1, learning_rate=step * num_data, momentum=0.0, schedule="constant"
    )
    dynamics = Langevin(Descent(problem, training, num_data), **options)
    batch = Batch(jnp.zeros((1, 1)), jnp.zeros(1), jnp.ones(1))

    def chain(key):
        first = dynamics.init(key, problem.init(key, jnp.zeros((1, 1))))

        def one(state, t):
            return dynamics.step(jax.random.fold_in(key, t), state, batch)[0], None

        return jax.lax.scan(one, first, jnp.arange(steps))[0].variables.params["w"]

    return np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(key), chains)))


def assert_variance(samples, exact):
    """Within 4 standard errors of a variance of independent Gaussians."""
    assert samples.var() == pytest.approx(exact, abs=4 * exact * np.sqrt(2 / len(samples)) + 1e-9)


@pytest.mark.parametrize("num_data", [100, 10_000, 60_000])
@pytest.mark.parametrize(("step", "friction"), [(0.1, 0.1), (0.1, 1.0)])
def test_variance_on_a_gaussian(num_data, step, friction):
    """The variance on a Gaussian, the same for every number of rows; not the limit 1/2."""
    samples = simulate(parabola(num_data), num_data, step, friction=friction)
    exact = {0.1: 19 / 36, 1.0: 5 / 9}[friction]
    assert stationary_variance(2.0, step, friction=friction) == pytest.approx(exact, abs=1e-12)
    assert_variance(samples, exact)
    assert abs(samples.var() - 0.5) > 4 * 0.5 * np.sqrt(2 / len(samples))


def test_a_smaller_step_has_less_bias():
    """A step of .01 and friction .1 give 95/189, a bias below the Monte Carlo error."""
    assert stationary_variance(2.0, 0.01, friction=0.1) == pytest.approx(95 / 189, abs=1e-12)
    assert_variance(simulate(parabola(100), 100, 0.01, friction=0.1), 95 / 189)


def test_a_noise_that_forgets_the_rows_is_rejected():
    """Without N: noise .01 sqrt(2 r) without N has temperature N 1e-4: 1 only for 10 000 rows."""
    defective = simulate(parabola(100), 100, 0.1, friction=0.1, temperature=100 * 0.01**2)
    with pytest.raises(AssertionError):
        assert_variance(defective, 19 / 36)
    # A temperature of 1/N on top is a Gaussian N times as narrow.
    cold = simulate(parabola(100), 100, 0.1, friction=0.1, temperature=1 / 100)
    with pytest.raises(AssertionError):
        assert_variance(cold, 19 / 36)


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_variance_is_proportional_to_temperature(temperature):
    samples = simulate(parabola(100), 100, 0.1, friction=0.1, temperature=temperature)
    assert_variance(samples, temperature * 19 / 36)


def test_gradient_noise_adds_its_part():
    """(2 r T/N + r² C) / (1 - (1 - r A)²), A and C of the mean loss."""
    num_data, rate, spread = 100, 10.0, 0.5
    samples = simulate(parabola(num_data, spread), num_data, rate / num_data)
    curvature, noise = 2 / num_data, 4 * spread**2 / num_data**2
    exact = (2 * rate / num_data + rate**2 * noise) / (1 - (1 - rate * curvature) ** 2)
    assert_variance(samples, exact)


def test_a_changing_rate_keeps_the_temperature():
    """With slow cosine cycles of the rate and momentum the variance stays near that of its rate."""
    training = cx.Training(
        epochs=6, batch_size=1, learning_rate=10.0, schedule="cyclic-cosine", cycles=2
    )
    problem = parabola(100)
    dynamics = Langevin(Descent(problem, training, 100), friction=0.3)
    batch = Batch(jnp.zeros((1, 1)), jnp.zeros(1), jnp.ones(1))

    def chain(key):
        def one(state, t):
            state, _ = dynamics.step(jax.random.fold_in(key, t), state, batch)
            return state, state.variables.params["w"]

        return jax.lax.scan(
            one, dynamics.init(key, problem.init(key, jnp.zeros((1, 1)))), jnp.arange(600)
        )[1]

    path = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(1), 4000)))
    # Ten steps into the second cycle: a momentum kept in units of the gradient across the jump of
    # the rate would have thrown the chains far out (a variance of hundreds).
    assert path[:, 301:320].var(axis=0).max() < 0.8
    assert path[:, 200].var() == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(
    ("method", "training"),
    [
        (cx.SGLD(samples=1, temperature=0.0), {"momentum": 0.0, "schedule": "constant"}),
        (cx.SGLD(samples=1, temperature=0.0, rate="training"), {"momentum": 0.0}),
        (
            cx.SGHMC(samples=1, temperature=0.0, rate="training"),
            {"momentum": 0.9, "nesterov": False},
        ),
        (
            cx.CyclicalSGMCMC(cycles=2, samples=1, temperature=0.0),
            {"momentum": 0.9, "nesterov": False, "schedule": "cyclic-cosine", "cycles": 2},
        ),
    ],
)
def test_temperature_zero_is_the_optimiser_bit_for_bit(blobs, method, training):
    """Optax SGD, with momentum, with schedules."""
    problem = cx.Problem(cx.networks.MLP((8,), outputs=3), cx.Categorical(), weight_decay=1e-3)
    plain = cx.Training(epochs=4, batch_size=20)
    sampled = cx.fit(problem, method, Split(*blobs), key=5, training=plain, progress=False)
    optimised = cx.fit(
        problem, cx.Single(), Split(*blobs), key=5, training=plain.replace(**training),
        progress=False,
    )  # fmt: skip
    for a, b in zip(
        jax.tree.leaves(sampled.variables), jax.tree.leaves(optimised.variables), strict=True
    ):
        np.testing.assert_array_equal(np.asarray(a)[-1], np.asarray(b)[0])


T = np.array([-1, -0.5, 0, 0.5, 1])
Y = np.array([-0.9, -0.2, 0.1, 0.8, 1.1], np.float32)
DESIGN_B = np.stack([np.ones(5), T + 2], axis=1).astype(np.float32)
MEAN_B = np.array([-1.669950594, 0.931655099])
PRECISION_B = np.array([[126, 250], [250, 563.5]])


def linear_problem():
    line = cx.FunctionNetwork(lambda key, x: jax.random.normal(key, (2, 1)), lambda w, x: x @ w)
    return cx.Problem(line, cx.Gaussian(0.2), prior=cx.GaussianPrior(precision=1.0))


@pytest.mark.parametrize("friction", [1.0, 0.2])
def test_linear_regression(friction):
    """Linear regression: mean and covariance within 4 standard errors of the biased Gaussian."""
    chains, step = 4000, 5e-4
    training = cx.Training(epochs=2000, batch_size=5, learning_rate=5 * step)
    record = cx.SGLD if friction == 1 else cx.SGHMC
    options = {} if friction == 1 else {"friction": friction}
    posterior = cx.fit(
        linear_problem(), record(samples=1, modes=chains, **options), Split(DESIGN_B, Y),
        training=training, progress=False,
    )  # fmt: skip
    w = np.asarray(posterior.variables.params, np.float64)[..., 0]
    values, vectors = np.linalg.eigh(PRECISION_B)
    widths = [stationary_variance(value, step, friction=friction) for value in values]
    exact = vectors @ np.diag(widths) @ vectors.T
    error = np.sqrt(np.diag(exact) / chains)
    assert np.all(np.abs(w.mean(0) - MEAN_B) < 4 * error)
    spread = np.sqrt((exact**2 + np.outer(np.diag(exact), np.diag(exact))) / chains)
    assert np.all(np.abs(np.cov(w.T) - exact) < 4 * spread)


def test_preconditioned_steps_are_rmsprops_at_temperature_zero(blobs):
    """θ - r g / (eps + sqrt(s)): three steps by hand on a parabola."""
    problem, w, s = parabola(100), None, 0.0
    training = cx.Training(batch_size=1, learning_rate=0.1, momentum=0.0, schedule="constant")
    dynamics = Langevin(Descent(problem, training, 100), temperature=0.0, decay=0.99, eps=1e-5)
    state = dynamics.init(jax.random.key(0), problem.init(jax.random.key(0), jnp.zeros((1, 1))))
    batch = Batch(jnp.zeros((1, 1)), jnp.zeros(1), jnp.ones(1))
    w = float(state.variables.params["w"])
    for t in range(3):
        state, _ = dynamics.step(jax.random.key(t), state, batch)
        g = 2 * w / 100
        s = 0.99 * s + 0.01 * g**2
        w -= 0.1 * g / (1e-5 + np.sqrt(s))
        assert float(state.variables.params["w"]) == pytest.approx(w, rel=1e-5)


def test_preconditioned_sampling_of_two_scales():
    """A constant preconditioner (decay near 1, warm squares) leaves the Gaussian: variances 1/A."""
    num_data, precisions = 100, np.array([2.0, 50.0])
    line = cx.FunctionNetwork(lambda key, x: jax.random.normal(key, (2, 1)), lambda w, x: x @ w)
    rows = np.diag(np.sqrt(precisions)).astype(np.float32)
    problem = cx.Problem(line, cx.Gaussian(float(np.sqrt(num_data / 2))))
    training = cx.Training(batch_size=2, learning_rate=0.004, momentum=0.0, schedule="constant")
    dynamics = Langevin(Descent(problem, training, num_data), decay=0.9999)
    batch = Batch(jnp.asarray(rows), jnp.zeros(2), jnp.ones(2))

    def chain(key):
        first = dynamics.init(key, problem.init(key, jnp.zeros((1, 2))))
        warm = jnp.asarray((precisions / num_data) ** 2 / precisions, jnp.float32)[:, None]
        first = first._replace(square=warm, steps=jnp.int32(1))

        def one(state, t):
            return dynamics.step(jax.random.fold_in(key, t), state, batch)[0], None

        return jax.lax.scan(one, first, jnp.arange(2500))[0].variables.params[:, 0]

    w = np.asarray(jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(2), 3000)))
    # Each is 1/A up to the bias of the step, below 4 %, and 4 standard errors of 2.6 %.
    np.testing.assert_allclose(w.var(0) * precisions, 1, atol=0.04 + 4 * np.sqrt(2 / 3000))


def test_samples_are_taken_after_their_steps():
    """A weight that counts steps, beside arrays that do not move, at temperature 0."""
    start = {"count": jnp.zeros((1, 1)), "other": jnp.zeros(3), "third": jnp.zeros((2, 2))}
    network = cx.FunctionNetwork(
        lambda key, x: start, lambda p, x: p["count"] * jnp.ones((len(x), 1))
    )
    # The target is so far away that the gradient is -1.
    problem = cx.Problem(network, cx.Gaussian(1e3))
    split = Split(np.zeros((1, 1), np.float32), np.full(1, 1e6, np.float32))
    training = cx.Training(epochs=20, batch_size=1, learning_rate=1.0)
    method = cx.SGLD(samples=4, burn_in=0.5, temperature=0.0)
    posterior = cx.fit(problem, method, split, training=training, progress=False)
    counted = np.asarray(posterior.variables.params["count"])[:, 0, 0]
    np.testing.assert_allclose(counted, [14, 16, 18, 20], rtol=1e-4)


def test_burn_in_counts_steps():
    """The same number of steps whatever the number of arrays; equal intervals to the end."""
    assert spread_captures(5, 0.5, 100) == [60, 70, 80, 90, 100]
    assert min(spread_captures(3, 0.25, 101)) > 25
    split = Split(np.zeros((20, 2), np.float32), np.zeros(20, int))
    tables = []
    for hidden in ((4,), (4, 4, 4)):
        problem = cx.Problem(cx.networks.MLP(hidden, outputs=2), cx.Categorical())
        training = cx.Training(epochs=10, batch_size=10)
        tables.append(cx.SGHMC(samples=4).dynamics(problem, split, training).table)
    np.testing.assert_array_equal(*tables)


def test_batch_statistics_and_augmentation_are_said(blobs):
    """What changes the target warns and is recorded."""
    network = cx.networks.MLP((4,), outputs=3, norm="batch")
    problem = cx.Problem(network, cx.Categorical())
    training = cx.Training(epochs=2, batch_size=20)
    with pytest.warns(TargetChanged, match="batch statistics"):
        posterior = cx.fit(problem, cx.SGLD(samples=2), Split(*blobs), training=training)
    assert posterior.diagnostics["batch_statistics"]


def test_diagnostics_are_blackjaxs():
    """Split R-hat and effective sample size by another implementation; slow chains are seen."""
    rng = np.random.default_rng(0)
    x = np.zeros((4, 500, 3))
    for t in range(1, 500):
        x[:, t] = np.array([0.0, 0.5, 0.9]) * x[:, t - 1] + rng.normal(size=(4, 3))
    ours = effective_sample_size(x)
    np.testing.assert_allclose(
        ours, blackjax.diagnostics.effective_sample_size(jnp.asarray(x)), rtol=0.02
    )
    np.testing.assert_allclose(ours[1:] / 2000, [1 / 3, 0.1 / 1.9], rtol=0.3)
    halves = jnp.concatenate([x[:, :250], x[:, 250:]])
    np.testing.assert_allclose(
        split_rhat(x), blackjax.diagnostics.potential_scale_reduction(halves), rtol=1e-4
    )
    x[0] += 10
    assert split_rhat(x).min() > 1.5


def test_samples_carry_their_diagnostics(blobs, tmp_path):
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical(), weight_decay=1e-2)
    training = cx.Training(epochs=20, batch_size=20, learning_rate=0.02)
    posterior = cx.fit(problem, cx.SGHMC(samples=8, modes=2), Split(*blobs), training=training)
    assert posterior.num_members == 16
    assert posterior.diagnostics["r_hat"] > 1
    assert 0 < posterior.diagnostics["effective_sample_size"] <= 64
    posterior.save(tmp_path / "members.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = cx.Population.load(tmp_path / "members.safetensors", problem)
    assert loaded.diagnostics == posterior.diagnostics


@pytest.mark.parametrize(
    ("record", "options", "words"),
    [
        (cx.SGLD, {"temperature": -1.0}, "temperature"),
        (cx.SGLD, {"samples": 0}, "samples"),
        (cx.SGLD, {"preconditioner": "adam"}, "preconditioner"),
        (cx.SGHMC, {"friction": 0.0}, "friction"),
        (cx.CyclicalSGMCMC, {"cycles": 0}, "cycles"),
        (cx.CyclicalSGMCMC, {"exploration": 1.0}, "exploration"),
    ],
)
def test_bad_options_are_refused(record, options, words):
    with pytest.raises(InputError, match=words):
        record(**options)


def test_more_samples_than_steps_are_refused(blobs):
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())
    training = cx.Training(epochs=2, batch_size=20)
    with pytest.raises(InputError, match="samples is 20 and 3 steps follow"):
        cx.fit(problem, cx.SGLD(), Split(*blobs), training=training)
    with pytest.raises(InputError, match="samples is 3 and the sampling part"):
        cx.fit(problem, cx.CyclicalSGMCMC(), Split(*blobs), training=training)
