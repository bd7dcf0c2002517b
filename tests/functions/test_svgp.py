"""Sparse variational processes: the bound against the evidence, training, draws, files."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax import infinite
from credax.files import load_arrays, save_tree
from credax.functions import GaussianProcess
from credax.functions.kernels import RBF, InfiniteKernel
from credax.functions.sparse import Sparse, divergence, expected_log_prob, sparse_moments
from credax.problem import Batch

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(-2, 2, (12, 1)), axis=0)
Y = np.sin(2 * X[:, 0]) + 0.2 * RNG.normal(size=12)
NOISE = 0.04
NETWORK = cx.networks.MLP((4,), outputs=1)


def optimal(points, jitter=1e-12):
    """The best Gaussian at inducing points in whitened form, in closed form (Titsias 2009)."""
    kernel = RBF(0.8)
    prior = GaussianProcess(kernel)
    lower = np.linalg.cholesky(prior.covariance(points) + jitter * np.eye(len(points)))
    reached = np.linalg.solve(lower, prior.covariance(points, X))
    covariance = np.linalg.inv(np.eye(len(points)) + reached @ reached.T / NOISE)
    root = np.linalg.cholesky(covariance)
    raw = np.tril(root, -1) + np.diag(np.log(np.diag(root)))
    mean = covariance @ reached @ Y[:, None] / NOISE
    sparse = Sparse(*map(jnp.asarray, (points, mean, raw[None], np.zeros(2))), {})
    kept = reached.T @ reached
    full = kept + NOISE * np.eye(12)
    value = -0.5 * (Y @ np.linalg.solve(full, Y) + np.linalg.slogdet(2 * np.pi * full)[1])
    collapsed = value - np.sum(1.0 - np.diag(kept)) / (2 * NOISE)
    return kernel, sparse, collapsed


def bound(kernel, sparse, x=X, y=Y, jitter=1e-12):
    problem = cx.Problem(NETWORK, cx.Gaussian(NOISE**0.5))
    mean, variance = sparse_moments(kernel, sparse, jnp.asarray(x), jitter)
    each = expected_log_prob(problem, {}, mean, variance, jnp.asarray(y), None, 1)
    return each, divergence(sparse)


def test_the_bound_at_the_optimum_is_the_collapsed_one(float64):
    """With few points it is Titsias' bound, below the evidence; with all rows the evidence."""
    exact = GaussianProcess(RBF(0.8), NOISE).condition(X, Y).log_evidence
    few, many = optimal(X[::3], 1e-10), optimal(X, 1e-10)
    for kernel, sparse, collapsed in (few, many):
        each, kl = bound(kernel, sparse, jitter=1e-10)
        assert float(jnp.sum(each) - kl) == pytest.approx(collapsed, abs=1e-6)
    assert few[2] < exact - 1e-3
    assert many[2] == pytest.approx(exact, abs=1e-4)


def test_moments_at_the_optimum_are_the_exact_posterior(float64):
    kernel, sparse, _ = optimal(X, 1e-10)
    points = np.linspace(-3, 3, 7)[:, None]
    mean, variance = sparse_moments(kernel, sparse, jnp.asarray(points), 1e-10)
    exact = GaussianProcess(RBF(0.8), NOISE).condition(X, Y).moments(points)
    np.testing.assert_allclose(mean, exact[0], atol=1e-5)
    np.testing.assert_allclose(variance[:, 0], exact[1], atol=1e-5)


def test_other_likelihoods_by_draws_agree_with_the_closed_form(float64):
    """A likelihood of given noise, as draws: 20 000 per row, 4.5 standard errors."""

    class Plain(cx.Likelihood):
        task = "regression"

        def log_prob(self, outputs, y):
            return cx.Gaussian(NOISE**0.5).log_prob(outputs, y)

        def predict(self, outputs):
            return cx.Gaussian(NOISE**0.5).predict(outputs)

    kernel, sparse, _ = optimal(X[::3], 1e-10)
    mean, variance = sparse_moments(kernel, sparse, jnp.asarray(X), 1e-10)
    y = jnp.asarray(Y)
    found = expected_log_prob(
        cx.Problem(NETWORK, Plain()), {}, mean, variance, y, jax.random.key(0), 20_000
    )
    exact, _ = bound(kernel, sparse, jitter=1e-10)
    m, v = np.asarray(mean[:, 0]), np.asarray(variance[:, 0])
    spread = np.sqrt(2 * v**2 + 4 * v * (Y - m) ** 2) / (2 * NOISE)
    assert (np.abs(np.asarray(found - exact)) < 4.5 * spread / np.sqrt(20_000)).all()


def split_of(n=200):
    x = RNG.uniform(-3, 3, (n, 1)).astype(np.float32)
    y = (5 + 3 * np.sin(2 * x[:, 0]) + 0.3 * RNG.normal(size=n)).astype(np.float32)
    return cx.Split(x, y, cx.Standardise.of(x), cx.Standardise.of(y[:, None]))


@pytest.fixture(scope="module")
def fitted():
    data = split_of()
    training = cx.Training(epochs=150, batch_size=50, optimiser="adam", learning_rate=0.03)
    problem = cx.Problem(NETWORK, cx.Gaussian())
    return cx.fit(problem, cx.SVGP(inducing=16), data, training=training, progress=False)


def test_training_finds_the_function_and_the_noise(fitted):
    x = np.linspace(-2.5, 2.5, 20, dtype=np.float32)[:, None]
    prediction = fitted.predict(x)
    truth = 5 + 3 * np.sin(2 * x[:, 0])
    assert np.sqrt(np.mean(np.square(np.asarray(prediction.mean) - truth))) < 0.2
    assert 0.24 < float(prediction.aleatoric[0]) ** 0.5 < 0.4
    assert fitted.diagnostics["inducing"] == 16
    far = fitted.predict(np.array([[40.0]], np.float32))
    assert float(far.epistemic[0]) > 10 * float(prediction.epistemic.max())


def test_minibatch_losses_average_to_the_whole():
    """``N`` is explicit: the mean over disjoint batches is the loss of all rows."""
    data, training = split_of(40), cx.Training(epochs=1, batch_size=10)
    problem = cx.Problem(NETWORK, cx.Gaussian()).with_units(data.inputs, data.targets)
    dynamics = cx.SVGP(inducing=5).dynamics(problem, data, training)
    state = dynamics.init(jax.random.key(0), problem.init(jax.random.key(1), data.x[:1]))
    trained = state.trained._replace(mean=state.trained.mean + 0.3)
    whole = problem.prepare(data.x, data.y)
    loss = jax.jit(lambda batch: dynamics.loss(trained, batch, jax.random.key(0))[0])
    parts = [loss(Batch(*(a[i : i + 10] for a in whole))) for i in range(0, 40, 10)]
    assert float(np.mean(parts)) == pytest.approx(float(loss(whole)), rel=1e-5)


def test_drawn_functions_have_the_moments_and_are_coherent(fitted):
    """4000 draws, 4.5 standard errors."""
    x = np.array([[-1.0], [0.3], [5.0]], np.float32)
    drawn = fitted.functions(0, 4000, x, features=32)[..., 0]
    prediction = fitted.predict(x)
    mean, variance = np.asarray(prediction.mean), np.asarray(prediction.epistemic)
    assert (np.abs(drawn.mean(0) - mean) < 4.5 * np.sqrt(variance / 4000) + 1e-4).all()
    squares = np.square(drawn - mean)
    assert (np.abs(squares.mean(0) - variance) < 4.5 * squares.std(0) / 4000**0.5 + 1e-4).all()
    again = fitted.functions(0, 2, x[::-1], features=32)[..., 0]
    np.testing.assert_allclose(again[:, ::-1], drawn[:2], atol=1e-8)
    at_points = fitted.functions(0, 4000, x, joint="points")[..., 0]
    assert (np.abs(at_points.mean(0) - mean) < 4.5 * np.sqrt(variance / 4000) + 1e-4).all()
    np.testing.assert_allclose(np.cov(at_points.T), np.cov(drawn.T), atol=0.15 * variance.max())


def test_a_file_is_read_back_and_a_damaged_one_refused(fitted, tmp_path, refused):
    path, x = tmp_path / "members.safetensors", np.array([[0.5]], np.float32)
    fitted.save(path)
    problem = cx.Problem(NETWORK, cx.Gaussian())
    loaded = cx.SVGP().load(path, problem)
    np.testing.assert_array_equal(loaded.predict(x).means, fitted.predict(x).means)
    np.testing.assert_array_equal(loaded.predict(x).variances, fitted.predict(x).variances)
    arrays, metadata = load_arrays(path)
    save_tree(path, {**arrays, "mean": arrays["mean"][:3]}, metadata)
    refused(lambda: cx.SVGP().load(path, problem), "do not fit")
    refused(lambda: cx.GP().load(path, problem), "does not hold a exact process")


def test_counts_and_noise_per_row_and_an_infinite_kernel():
    """Likelihoods without a closed form: a rate that rises, and noise that does."""
    x = np.linspace(-1, 1, 80, dtype=np.float32)[:, None]
    counts = RNG.poisson(np.exp(1 + 1.5 * x[:, 0])).astype(np.float32)
    training = cx.Training(epochs=60, batch_size=40, learning_rate=0.05)
    net = infinite.serial(infinite.InfiniteDense(8, 1.5, 0.5), infinite.ReLU())
    net = infinite.serial(*net.layers, infinite.InfiniteDense(1, 1.5, 0.5))
    record = cx.SVGP(kernel=2.0 * InfiniteKernel(net), inducing=8, members=20)
    problem = cx.Problem(NETWORK, cx.Poisson())
    posterior = cx.fit(problem, record, (x, counts), training=training, progress=False)
    rate = np.asarray(posterior.predict(x[[0, -1]]).mean)
    np.testing.assert_allclose(rate, np.exp([-0.5, 2.5]), rtol=0.5)
    assert posterior.functions(0, 3, x[:4]).shape == (3, 4, 1)


def test_what_is_refused(refused):
    refused(lambda: cx.SVGP(inducing=0), "inducing is 0")
    data = split_of(20)
    levels = cx.Quantile((0.05, 0.5, 0.95))
    quantiles = cx.Problem(cx.networks.MLP((4,), outputs=3), levels)
    training = cx.Training(epochs=1, batch_size=10)

    def fit(problem, record, training=training):
        return lambda: cx.fit(problem, record, data, training=training, progress=False)

    refused(fit(quantiles, cx.SVGP()), "no posterior")
    gaussian = cx.Problem(NETWORK, cx.Gaussian())
    refused(fit(gaussian, cx.SVGP(kernel=RBF([1.0, 2.0]))), "2 columns and x has 1")
    assert cx.SVGP().settings(training, 20).optimiser == "adam"
    assert cx.SVGP().settings(training.replace(optimiser="lion"), 20).optimiser == "lion"
