"""Functional VI against exact regression, its prior, and what it must not read."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.functions import PiecewiseConstant, PiecewiseLinear, Simulator
from credax.functions.kernels import RBF, Constant, Linear
from credax.functions.measurement import measure
from credax.functions.prior_fitting import fit_prior
from credax.methods.variational.functional_descent import raw_variance

LINE = cx.networks.MLP((), outputs=1)
SMALL = cx.networks.MLP((20,), outputs=1, activation="tanh")
X = np.array([-1.0, -0.5, 0.0, 0.5, 1.0], np.float32)[:, None]
Y = np.array([-0.9, -0.2, 0.1, 0.8, 1.1], np.float32)
QUICK = {"samples": 8, "members": 4, "least_steps": 1, "points": 3, "optimise": False}
ADAM = cx.Training(epochs=1, batch_size=5, optimiser="adam", learning_rate=0.02)


def fit(record, data=None, network=SMALL, likelihood=None, training=ADAM, **options):
    problem = cx.Problem(network, likelihood or cx.Gaussian(), **options)
    data = cx.Split(X, Y) if data is None else data
    return cx.fit(problem, record, data, training=training, progress=False)


def test_a_line_with_a_linear_kernel_is_bayesian_linear_regression():
    """Weights are independent here, so that the Gaussian is exact: mean and variances within 3 %.

    A KL weight other than 1/N, or a prior of another scale, is off by more than a tenth.
    """
    record = cx.FunctionalVI(
        objective="linearised",
        kernel=Constant(1.0) + Linear(1.0),
        optimise=False,
        samples=64,
        points=10,
        gamma=0.003,
        least_steps=1500,
    )
    posterior = fit(record, network=LINE, likelihood=cx.Gaussian(0.2))
    weights = posterior.mode(0)
    mean = [float(weights.mean["0_dense"][name].squeeze()) for name in ("bias", "kernel")]
    std = [float(weights.std["0_dense"][name].squeeze()) for name in ("bias", "kernel")]
    np.testing.assert_allclose(mean, [0.178571429, 0.984251969], atol=0.01)
    np.testing.assert_allclose(np.square(std), [0.007936508, 0.015748031], rtol=0.06)


@pytest.mark.parametrize("objective", ["linearised", "ssge"])
def test_without_data_the_prior_remains(objective):
    """A likelihood with a noise of 1000: means near 0 and variances near ``k(x, x)``."""
    kernel = RBF(2.0, 1.0)
    record = cx.FunctionalVI(
        objective=objective,
        kernel=kernel,
        optimise=False,
        points=6,
        data_points=0,
        gamma=0.1,
        samples=50,
        least_steps=600,
    )
    posterior = fit(record, likelihood=cx.Gaussian(1000.0))
    drawn = posterior.functions(0, 400, X)[..., 0]
    # The estimator shrinks scores by about a third at 50 draws, which widens or narrows variances.
    assert np.abs(drawn.mean(0)).max() < 0.25
    assert (np.abs(drawn.var(0) - 1) < (0.25 if objective == "linearised" else 0.5)).all()


class Poisoned:
    """Rows that must not be read."""

    def __len__(self):
        return 3

    def __array__(self, *_, **__):
        raise AssertionError("test rows were read")

    def __getitem__(self, _):
        raise AssertionError("test rows were read")


def test_measurement_points_are_those_of_training_inputs():
    """Test inputs far outside, or that cannot be read at all, change nothing."""
    problem = cx.Problem(SMALL, cx.Gaussian())
    train = cx.Split(np.array([[-1.0, 5.0], [3.0, 7.0]], np.float32), np.zeros(2, np.float32))
    box = measure(problem, train, "uniform", 0.0)
    np.testing.assert_allclose([box.first, box.second], [[-1, 5], [3, 7]])
    drawn = np.asarray(box.draw(jax.random.key(0), 500))
    assert (drawn >= [-1, 5]).all()
    assert (drawn <= [3, 7]).all()
    wide = measure(problem, train, "uniform", 0.5)
    np.testing.assert_allclose([wide.first, wide.second], [[-3, 4], [5, 8]])
    bell = measure(problem, train, "gaussian", 0.0)
    np.testing.assert_allclose([bell.first, bell.second], [[1, 6], [2, 1]])
    poison: Any = Poisoned()
    data = cx.Dataset("rows", cx.Split(X, Y), cx.Split(poison, poison))
    posterior = fit(cx.FunctionalVI(**QUICK), data.train)
    assert posterior.num_members == 4


def test_a_draw_is_one_function_in_every_batch_and_call(tmp_path):
    """Units come back too; two modes are drawn of; files give the same functions."""
    data = cx.Split(X, 100 + 10 * Y, cx.Standardise.of(X), cx.Standardise.of(100 + 10 * Y[:, None]))
    record = cx.FunctionalVI(2, **QUICK)
    posterior = fit(record, data)
    x = np.linspace(-2, 2, 9, dtype=np.float32)[:, None]
    whole = posterior.functions(3, 6, x)
    assert whole.shape == (6, 9, 1)
    np.testing.assert_allclose(posterior.functions(3, 2, x[4:6]), whole[:2, 4:6], rtol=1e-5)
    assert np.abs(whole - 100).max() < 100
    assert posterior.num_modes == 2
    assert posterior.num_members == 8
    for name, value in (("gamma", 0.01), ("points", 3), ("measurement_points", 8)):
        assert posterior.diagnostics[name] == value
    posterior.save(tmp_path / "members.safetensors")
    loaded = record.load(tmp_path / "members.safetensors", posterior.problem)
    np.testing.assert_array_equal(loaded.functions(3, 6, x), whole)
    assert loaded.diagnostics == posterior.diagnostics


def test_the_fitted_noise_is_the_floor_of_the_learned_one():
    record = cx.FunctionalVI(samples=4, members=2, points=3, least_steps=300, kl_weight="batch")
    problem, data = cx.Problem(SMALL, cx.Gaussian()), cx.Split(X, Y)
    fitted = fit_prior(record, problem, data)
    posterior = fit(record)
    floor = max(fitted.noise, 0.05)
    assert posterior.diagnostics["noise_floor"] == pytest.approx(floor, rel=1e-5)
    assert (np.asarray(posterior.predict(X).aleatoric) > 0.999 * floor**2).all()
    assert jax.nn.softplus(raw_variance(0.2)) == pytest.approx(0.04, rel=1e-3)
    fixed = fit_prior(record, cx.Problem(SMALL, cx.Gaussian(0.3)), data)
    assert fixed.noise == pytest.approx(0.3)


def test_padding_is_no_measurement_point():
    record = cx.FunctionalVI(**{**QUICK, "points": 2})
    problem, data = cx.Problem(SMALL, cx.Gaussian(0.1)), cx.Split(X, Y)
    dynamics = record.dynamics(problem, data, ADAM)
    batch = problem.prepare(X + 50, Y, jnp.array([1.0, 1.0, 0.0, 0.0, 0.0]))
    x = np.asarray(dynamics.measured(jax.random.key(0), batch))
    assert x.shape == (7, 1)
    np.testing.assert_array_equal(x[:2], X[:2] + 50)
    assert (np.abs(x[2:]) <= 1).all()


@pytest.mark.parametrize(
    ("objective", "likelihood", "outputs", "y"),
    [
        ("ssge", cx.Categorical(), 3, np.array([0, 1, 2, 0, 1])),
        ("linearised", cx.HeteroscedasticGaussian(), 2, Y),
        ("linearised", cx.Poisson(), 1, np.array([0.0, 2.0, 1.0, 5.0, 3.0], np.float32)),
    ],
)
def test_other_likelihoods(objective, likelihood, outputs, y):
    record = cx.FunctionalVI(objective=objective, **{**QUICK, "optimise": True, "restarts": 1})
    network = cx.networks.MLP((4,), outputs=outputs)
    posterior = fit(record, cx.Split(X, y), network, likelihood)
    functions = posterior.functions(0, 2, X)
    assert functions.shape == (2, 5, 3 if outputs == 3 else 1)
    assert np.isfinite(functions).all()


@pytest.mark.parametrize(
    "prior",
    [
        "weights",
        pytest.param("piecewise-constant", marks=pytest.mark.slow),
        "piecewise-linear",
        Simulator(lambda key, x: x * jax.random.normal(key)),
    ],
    ids=["weights", "constant", "linear", "simulator"],
)
def test_priors_that_are_only_drawn(prior):
    posterior = fit(cx.FunctionalVI(prior=prior, **QUICK), weight_decay=1e-2)
    assert np.isfinite(posterior.functions(0, 2, X)).all()


def test_the_score_of_a_process_from_its_draws_is_near_the_exact_one():
    problem, data, kernel = cx.Problem(SMALL, cx.Gaussian(0.1)), cx.Split(X, Y), RBF(0.5)
    records = {"kernel": kernel, "optimise": False, "gamma": 0.5}
    key, found = jax.random.key(0), []
    values = jax.random.normal(key, (400, 2, 1))
    for score in ("exact", "ssge"):
        prior = fit_prior(cx.FunctionalVI(prior_score=score, **records), problem, data).prior
        found.append(np.asarray(prior.score(key, values, X[[0, 4]], 0.5, 0.99)).ravel())
    assert np.linalg.norm(found[0] - found[1]) < 0.5 * np.linalg.norm(found[0])


@pytest.mark.parametrize("process", [PiecewiseConstant(2), PiecewiseLinear(2)])
def test_broken_lines(process):
    """One function per key; variances of the heights; jumps or none; any number of columns."""
    x = np.linspace(-2.5, 2.5, 81, dtype=np.float32)[:, None]
    drawn = process.functions(0, 600, x)
    assert drawn.shape == (600, 81, 2)
    np.testing.assert_allclose(process.functions(0, 3, x[10:12]), drawn[:3, 10:12], atol=1e-5)
    steps = np.abs(np.diff(drawn[..., 0], axis=1))
    if isinstance(process, PiecewiseConstant):
        assert np.mean(steps == 0) > 0.9
        # Standard normal heights: 4.5 standard errors of a variance over 600 draws.
        assert (np.abs(drawn.var(0) - 1) < 4.5 * np.sqrt(2 / 600)).all()
    else:
        bends = np.abs(np.diff(drawn[..., 0], 2, axis=1)) > 1e-4
        assert 0 < bends.mean() < 0.15
    assert process.functions(0, 2, np.zeros((4, 3), np.float32)).shape == (2, 4, 2)


def test_what_is_refused(refused):
    record = functools.partial(cx.FunctionalVI, **QUICK)
    refused(lambda: cx.FunctionalVI(gamma=0.0), "gamma is 0.0; .* positive")
    refused(lambda: cx.FunctionalVI(points=0), "points is 0; it is at least 1")
    refused(lambda: cx.FunctionalVI(samples=1), "samples is 1; it is at least 2")
    refused(lambda: cx.FunctionalVI(threshold=1.5), "threshold is 1.5")
    refused(lambda: cx.FunctionalVI(margin=-0.1), "margin is -0.1")
    refused(lambda: cx.FunctionalVI(objective="ssgee"), "did you mean 'ssge'")
    refused(lambda: cx.FunctionalVI(kernel="rbff"), "did you mean 'rbf'")
    refused(lambda: cx.FunctionalVI(prior=3), "prior is a int")
    refused(lambda: cx.FunctionalVI(prior="weights", prior_score="exact"), "prior_score='ssge'")
    linear = {"objective": "linearised", "prior": "piecewise-linear"}
    refused(lambda: cx.FunctionalVI(**linear), "known by its draws alone")
    refused(lambda: fit(record(kernel=RBF(np.ones(3)))), "3 columns and x has 1")
    refused(lambda: fit(record(prior=PiecewiseConstant(2))), "the network has 1 outputs")
    wrong = Simulator(lambda key, x: jnp.zeros(3) @ x)
    refused(lambda: fit(record(prior=wrong)), "cannot take inputs")
    refused(lambda: fit(record(prior="weights")), "weight_decay=0")
    norm = cx.networks.MLP((4,), outputs=1, norm="batch")
    refused(lambda: fit(record(), network=norm), "batch statistics")
    refused(lambda: fit(record(), training=ADAM.replace(keep_best=True)), "keep_best")
    refused(lambda: PiecewiseLinear(jumps=0.0), "jumps is 0.0")
    refused(lambda: fit(record()).functions(0, 0, X), "n is 0")
