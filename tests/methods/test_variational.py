"""Variational inference on posteriors that are known: bounds, optima, limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.gaussians import FullGaussian, LowRankGaussian
from credax.methods.variational.variational import gaussian_kl
from credax.problem import Batch

pytestmark = pytest.mark.slow

T = np.array([-1, -0.5, 0, 0.5, 1])
Y = np.array([-0.9, -0.2, 0.1, 0.8, 1.1])
DESIGN_B = np.stack([np.ones(5), T + 2], axis=1)
MEAN_B = np.array([-1.669950594, 0.931655099])
COVARIANCE_B = np.array([[0.066286319, -0.029408305], [-0.029408305, 0.014821786]])
EVIDENCE_B, BEST_BOUND_B = -3.656955235, -4.718210314


def linear(leaves=1):
    """Conjugate linear regression; the two weights in one leaf or in two."""
    if leaves == 1:
        line = cx.FunctionNetwork(lambda key, x: jnp.zeros((2, 1)), lambda w, x: x @ w)
    else:
        line = cx.FunctionNetwork(
            lambda key, x: {"a": jnp.zeros(()), "b": jnp.zeros((1, 1))},
            lambda w, x: x[:, :1] * w["a"] + x[:, 1:] @ w["b"],
        )
    return cx.Problem(line, cx.Gaussian(0.2), prior=cx.GaussianPrior(precision=1.0))


def bound(dynamics, state, split, draws=1):
    """The evidence bound at a state, from the dynamics' own loss: exact constants included."""
    problem = dynamics.descent.problem
    batch = problem.prepare(split.x, split.y)

    def one(key):
        current = (state.free, state.points)
        return -len(split) * dynamics.loss(current, state.carried, batch, key, jnp.int32(0))[0]

    return np.asarray(jax.vmap(one)(jax.random.split(jax.random.key(0), draws)))


def optimum(method, epochs=3000, rate=0.03, problem=None, split=None):
    split = Split(DESIGN_B, Y) if split is None else split
    problem = linear() if problem is None else problem
    training = cx.Training(
        epochs=epochs, batch_size=len(split), optimiser="adam", learning_rate=rate
    )
    return cx.fit(problem, method, split, key=0, training=training, progress=False)


def law_of(posterior):
    return jax.tree.map(lambda leaf: np.asarray(leaf[0]), posterior.gaussian)


def test_full_covariance_is_exact_on_linear_regression(float64):
    """Mean and covariance of the posterior; the bound is the evidence to 1e-6."""
    method = cx.FullCovarianceVI(samples=1, divergence="path", initial_scale=0.1)
    gaussian = law_of(optimum(method, epochs=6000))
    np.testing.assert_allclose(gaussian.mean[:, 0], MEAN_B, atol=1e-5)
    np.testing.assert_allclose(gaussian.factor @ gaussian.factor.T, COVARIANCE_B, atol=1e-6)
    assert exact_bound(gaussian) == pytest.approx(EVIDENCE_B, abs=1e-6)


def exact_bound(gaussian):
    """E_q log p(y|w) - KL(q || p) on design B in closed form."""
    covariance = np.asarray(gaussian.covariance())
    mean = np.asarray(gaussian.mean).reshape(-1)
    gaps = np.sum((Y - DESIGN_B @ mean) ** 2) + np.trace(DESIGN_B @ covariance @ DESIGN_B.T)
    likelihood = -0.5 * (gaps / 0.04 + 5 * np.log(2 * np.pi * 0.04))
    kl = 0.5 * (np.trace(covariance) + mean @ mean - 2 - np.linalg.slogdet(covariance)[1])
    return likelihood - kl


def test_mean_field_shrinks_as_known(float64):
    """Variances 1/Λ_ii, 0.1197 of the truth, and a bound 1.061 nats below the evidence."""
    copies = 500  # the same posterior from rows repeated with so much more noise: draws per step
    line = cx.FunctionNetwork(lambda key, x: jnp.zeros((2, 1)), lambda w, x: x @ w)
    noisy = cx.Gaussian(0.2 * float(np.sqrt(copies)))
    problem = cx.Problem(line, noisy, prior=cx.GaussianPrior(precision=1.0))
    split = Split(np.tile(DESIGN_B, (copies, 1)), np.tile(Y, copies))
    method = cx.MeanFieldVI(samples=1, draws=copies, initial_scale=0.1)
    gaussian = law_of(optimum(method, 4000, 0.02, problem, split))
    np.testing.assert_allclose(gaussian.mean[:, 0], MEAN_B, atol=2e-3)
    np.testing.assert_allclose(gaussian.std[:, 0] ** 2, [0.007936508, 0.001774623], rtol=1e-2)
    assert (gaussian.std[:, 0] ** 2 / np.diag(COVARIANCE_B)) == pytest.approx(0.1197307, rel=1e-2)
    assert exact_bound(gaussian) == pytest.approx(BEST_BOUND_B, abs=1e-3)


def test_one_column_reaches_the_full_covariance(float64):
    """In two dimensions a diagonal and a column are every covariance."""
    method = cx.LowRankVI(rank=1, samples=1, divergence="path", initial_scale=0.1)
    gaussian = law_of(optimum(method, epochs=6000))
    np.testing.assert_allclose(np.asarray(gaussian.covariance()), COVARIANCE_B, rtol=1e-3)
    assert exact_bound(gaussian) == pytest.approx(EVIDENCE_B, abs=1e-4)


def test_logistic_regression(float64):
    """Logistic regression: optimal mean .855234, deviation .622320, bound -3.742872."""
    x = np.array([-2, -1, -0.5, 0.5, 1, 2])[:, None]
    y = np.array([0, 0, 1, 0, 1, 1])
    line = cx.FunctionNetwork(lambda key, x: jnp.zeros((1, 1)), lambda w, x: x @ w)
    problem = cx.Problem(line, cx.Bernoulli(), prior=cx.GaussianPrior(precision=1.0))
    method = cx.MeanFieldVI(samples=1, draws=1, initial_scale=0.3)
    gaussian = law_of(optimum(method, 40_000, 0.01, problem, Split(x, y)))
    mean, std = float(gaussian.mean[0, 0]), float(gaussian.std[0, 0])
    assert (mean, std) == (pytest.approx(0.855234, abs=0.02), pytest.approx(0.622320, abs=0.02))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    w = mean + std * nodes
    signs = np.where(y == 1, 1, -1) * x[:, 0]
    each = -np.logaddexp(0, -np.outer(w, signs)).sum(1)
    kl = 0.5 * (std**2 + mean**2 - 1) - np.log(std)
    value = weights @ each / weights.sum() - kl
    assert value == pytest.approx(-3.742872, abs=1e-3)
    assert value < -3.737028236


@pytest.mark.parametrize("leaves", [1, 2])
@pytest.mark.parametrize("method", [cx.MeanFieldVI(), cx.LowRankVI(rank=1), cx.FullCovarianceVI()])
def test_the_bound_does_not_depend_on_the_leaves(float64, method, leaves):
    """KL as a sum over all weights; its closed form within 4 standard errors."""
    problem, split = linear(leaves), Split(DESIGN_B, Y)
    dynamics = method.dynamics(problem, split, cx.Training(epochs=1, batch_size=5))
    state = dynamics.init(jax.random.key(0), problem.init(jax.random.key(0), DESIGN_B))
    gaussian = dynamics.family.gaussian(state.free)
    flat = np.asarray(gaussian.covariance())
    exact = -0.5 * (
        (np.sum(Y**2) + np.trace(DESIGN_B @ flat @ DESIGN_B.T)) / 0.04
        + 5 * np.log(2 * np.pi * 0.04)
    ) - 0.5 * (np.trace(flat) - 2 - np.linalg.slogdet(flat)[1])
    values = bound(dynamics, state, split, 4000)
    error = values.std() / np.sqrt(len(values))
    assert values.mean() == pytest.approx(exact, abs=4 * error)
    assert values.mean() < EVIDENCE_B
    halved = values.mean() + 0.5 * float(gaussian_kl(gaussian, 1.0))
    assert abs(halved - exact) > 4 * error  # a KL averaged over two leaves is rejected


GAUSSIANS = [
    LowRankGaussian(jnp.array([0.3, -0.2]), jnp.array([0.5, 1.5]), jnp.zeros((0, 2))),
    LowRankGaussian(jnp.array([0.3, -0.2]), jnp.array([0.5, 1.5]), jnp.array([[0.4, -0.7]])),
    FullGaussian(jnp.array([0.3, -0.2]), jnp.array([[0.5, 0.0], [-0.3, 0.8]])),
]


@pytest.mark.parametrize("gaussian", GAUSSIANS)
def test_the_kl_is_its_monte_carlo_value(gaussian):
    """For the prior N(0, 1/2); no spurious constants (-1/2 per weight would be 1 nat here)."""
    drawn = jax.vmap(gaussian.draw)(jax.random.split(jax.random.key(1), 100_000))
    prior = cx.GaussianPrior(precision=2.0)
    log_prior = jax.vmap(lambda w: prior.log_prob(w, num_data=1))(drawn)
    terms = np.asarray(jax.vmap(gaussian.log_prob)(drawn) - log_prior)
    value = float(gaussian_kl(gaussian, 2.0))
    assert terms.mean() == pytest.approx(value, abs=4 * terms.std() / np.sqrt(len(terms)))
    sigma = np.asarray(gaussian.covariance(), np.float64)
    mean = np.array([0.3, -0.2])
    exact = 0.5 * (
        2 * (np.trace(sigma) + mean @ mean) - 2 - 2 * np.log(2) - np.linalg.slogdet(sigma)[1]
    )
    assert value == pytest.approx(exact, abs=1e-5)
    point = np.array([0.1, 0.9])
    logpdf = stats.multivariate_normal(mean, sigma).logpdf(point)
    assert float(gaussian.log_prob(jnp.asarray(point, jnp.float32))) == pytest.approx(
        logpdf, abs=1e-4
    )


def test_without_information_the_law_is_the_prior():
    """Noise so large that the rows say nothing."""
    line = cx.FunctionNetwork(lambda key, x: jnp.ones((2, 1)), lambda w, x: x @ w)
    problem = cx.Problem(line, cx.Gaussian(1e4), prior=cx.GaussianPrior(precision=4.0))
    method = cx.MeanFieldVI(samples=1, initial_scale=0.1)
    gaussian = law_of(optimum(method, 3000, problem=problem))
    np.testing.assert_allclose(gaussian.mean, 0, atol=1e-3)
    np.testing.assert_allclose(gaussian.std, 0.5, rtol=1e-3)


def test_temperature_and_scale_zero_are_the_optimiser_bit_for_bit(blobs):
    """The trajectory of plain descent without a prior."""
    network, split = cx.networks.MLP((8,), outputs=3), Split(*blobs)
    training = cx.Training(epochs=4, batch_size=20)
    prior = cx.Problem(network, cx.Categorical(), weight_decay=1e-2)
    flat = cx.Problem(network, cx.Categorical())
    method = cx.MeanFieldVI(samples=1, temperature=0.0, initial_scale=0.0)
    point = cx.fit(prior, method, split, key=2, training=training, progress=False)
    plain = cx.fit(flat, cx.Single(), split, key=2, training=training, progress=False)
    for a, b in zip(
        jax.tree.leaves(point.variables), jax.tree.leaves(plain.variables), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_the_expected_gradient_does_not_depend_on_the_batch_size(float64):
    """The mean over all batches of two rows is the gradient on all, with the same draw."""
    problem, split = linear(), Split(DESIGN_B, Y)
    training = cx.Training(epochs=1, batch_size=5)
    dynamics = cx.MeanFieldVI().dynamics(problem, split, training)
    state = dynamics.init(jax.random.key(0), problem.init(jax.random.key(0), DESIGN_B))
    whole = problem.prepare(DESIGN_B, Y)
    slope = jax.grad(lambda c, b: dynamics.loss(c, {}, b, jax.random.key(3), jnp.int32(0))[0])
    current = (state.free, state.points)
    pairs = [(i, j) for i in range(5) for j in range(i)]
    parts = [slope(current, Batch(*(a[np.array(p)] for a in whole))) for p in pairs]
    mean = jax.tree.map(lambda *a: jnp.mean(jnp.stack(a), 0), *parts)
    for a, b in zip(jax.tree.leaves(mean), jax.tree.leaves(slope(current, whole)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    # A padded row counts for nothing.
    padded = Batch(*(jnp.concatenate([a, a[:1]]) for a in whole))
    padded = padded._replace(weight=padded.weight.at[-1].set(0))
    for a, b in zip(
        jax.tree.leaves(slope(current, padded)), jax.tree.leaves(slope(current, whole)), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_weights_of_the_kl():
    """Annealing by hand; Blundell's shares sum to one per epoch."""
    problem, split = linear(), Split(DESIGN_B, Y)
    training = cx.Training(epochs=10, batch_size=1)
    plain = cx.MeanFieldVI(annealing=0.4).dynamics(problem, split, training)
    rising = [float(plain.weight(jnp.int32(k))) for k in (0, 9, 19, 49)]
    np.testing.assert_allclose(rising, [0.05, 0.5, 1, 1], rtol=1e-6)
    method = cx.MeanFieldVI(minibatch_weights="blundell")
    halving = method.dynamics(problem, split, training)
    shares = np.array([float(halving.weight(jnp.int32(k))) for k in range(5)]) / 5
    np.testing.assert_allclose(shares, np.array([16, 8, 4, 2, 1]) / 31, rtol=1e-6)


def test_a_scale_mixture_prior_and_learned_noise():
    """The KL at the draw takes any prior; the noise level is a point, outside the Gaussian."""
    line = cx.FunctionNetwork(lambda key, x: jnp.zeros((2, 1)), lambda w, x: x @ w)
    problem = cx.Problem(line, cx.Gaussian(), prior=cx.ScaleMixturePrior())
    split = Split(DESIGN_B.astype(np.float32), Y.astype(np.float32))
    training = cx.Training(epochs=200, batch_size=5, optimiser="adam", learning_rate=0.05)
    for method in (cx.MeanFieldVI(samples=4), cx.FullCovarianceVI(samples=4)):
        posterior = cx.fit(problem, method, split, training=training, progress=False)
        noise = np.asarray(posterior.variables.params["noise"])
        assert np.ptp(noise) == 0
        assert noise[0, 0] != pytest.approx(float(np.log(np.expm1(1 - 1e-6))))
        assert np.ptp(np.asarray(posterior.variables.params["network"]), axis=0).min() > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"initial_scale": 0.0}, "initial_scale"),
        ({"temperature": -1.0}, "temperature"),
        ({"annealing": 2.0}, "annealing"),
        ({"draws": 0}, "draws"),
        ({"divergence": "exact"}, "divergence"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        cx.MeanFieldVI(**options)


def test_what_cannot_be_fitted_is_refused(blobs):
    split, training = Split(*blobs), cx.Training(epochs=1, batch_size=20)
    network = cx.networks.MLP((8,), outputs=3)
    with pytest.raises(InputError, match="flat"):
        cx.fit(cx.Problem(network, cx.Categorical()), cx.MeanFieldVI(), split, training=training)
    mixed = cx.Problem(network, cx.Categorical(), prior=cx.ScaleMixturePrior())
    with pytest.raises(InputError, match="no Gaussian"):
        cx.fit(mixed, cx.MeanFieldVI(divergence="analytic"), split, training=training)
    wide = cx.Problem(cx.networks.MLP((2000,), outputs=3), cx.Categorical(), weight_decay=1e-3)
    with pytest.raises(InputError, match=r"parameters and a full covariance needs 0\.6 GB"):
        cx.fit(wide, cx.FullCovarianceVI(), split, training=training)
    problem = cx.Problem(network, cx.Categorical(), weight_decay=1e-3)
    with pytest.raises(InputError, match="draws is 3"):
        cx.fit(problem, cx.MeanFieldVI(draws=3), split, training=training)
