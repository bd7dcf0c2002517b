"""SWA and SWAG: cases worked out by hand, draws against analytic covariances, what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.gaussians import LowRankGaussian
from credax.methods.modes import averaging_settings, regular_captures
from credax.methods.trajectory.swag import swag_gaussian
from credax.training.collecting import Averaging
from credax.training.schedule import learning_rate_at


def collect(iterates, rank=0, running=False):
    """Moments of given iterates ``[T, P]``, their entries split over two leaves."""
    iterates = jnp.asarray(iterates, jnp.zeros(0).dtype)
    collector = Averaging(rank, running)
    half = iterates.shape[1] // 2

    def variables(w):
        return cx.Variables({"a": w[:half], "b": w[half:]})

    def step(collected, item):
        number, w = item
        return collector.add(collected, variables(w), number, jnp.bool_(True)), None

    steps = jnp.arange(len(iterates))
    start = collector.empty(variables(iterates[0]))
    return jax.lax.scan(step, start, (steps, iterates))[0]


def dense(gaussian):
    return np.asarray(gaussian.covariance())


def count_steps(method):
    """A fit of three steps in which the only weight goes from 0 to 1, 2 and 3."""
    weights = {"w": jnp.zeros((1, 1))}
    count = cx.FunctionNetwork(lambda key, x: weights, lambda p, x: p["w"] * jnp.ones((len(x), 1)))
    # The loss (y - w)²/(2σ²) falls by a step of exactly one: y is far away, the gradient -1.
    problem = cx.Problem(count, cx.Gaussian(1e3))
    split = Split(np.zeros((1, 1), np.float32), np.full(1, 1e6, np.float32))
    training = cx.Training(epochs=3, batch_size=1, learning_rate=1.0, momentum=0.0)
    training = training.replace(schedule="constant")
    return cx.fit(problem, method, split, training=training, progress=False)


def test_swa_by_hand():
    """Start 0, iterates 1, 2, 3: 1.5 with the start counted, 2 without."""
    for include, mean in ((True, 1.5), (False, 2.0)):
        posterior = count_steps(cx.SWA(start=0, include_initial=include, averaging_rate=None))
        assert float(posterior.variables.params["w"][0, 0, 0]) == pytest.approx(mean, rel=1e-5)


def test_the_defaults_are_the_papers_equation():
    """Iterates 1, 2, 3: (2/3 + 1)/2 by eq. 6; scale 1 would double it, deviations from the
    running mean give (2/3 + 5/8)/2."""
    gaussian = count_steps(cx.SWAG(start=0, averaging_rate=None)).mode(0)
    assert float(gaussian.mean["w"][0, 0]) == pytest.approx(2, rel=1e-5)
    assert dense(gaussian)[0, 0] == pytest.approx(5 / 6, rel=1e-4)


def test_a_small_variance_far_from_zero_survives_single_precision():
    """Weights near 1000 that move by 0.01: a difference of squares has an error of 0.06 in 1e-4."""
    draws = (1000 + 0.01 * np.random.default_rng(0).normal(size=(50, 4))).astype(np.float32)
    moments = collect(draws)
    found = np.concatenate([np.asarray(moments.m2[name]) for name in "ab"]) / 50
    np.testing.assert_allclose(found, draws.astype(float).var(0), rtol=0.05)


def test_swag_by_hand(float64):
    """Iterates (1, 2, 4), and four in the plane."""
    line = np.array([[1.0], [2.0], [4.0]])
    moments = collect(line, rank=3)
    assert float(moments.mean["b"][0]) == pytest.approx(7 / 3, abs=1e-14)
    assert float(moments.m2["b"][0]) / 3 == pytest.approx(14 / 9, abs=1e-14)
    assert dense(swag_gaussian(moments, 0.5))[0, 0] == pytest.approx(1.944444444, abs=1e-9)
    assert dense(swag_gaussian(moments, 1.0))[0, 0] == pytest.approx(3.888888889, abs=1e-9)
    running = swag_gaussian(collect(line, rank=3, running=True), 0.5, running=True)
    assert dense(running)[0, 0] == pytest.approx(1.534722222, abs=1e-9)
    plane = np.array([[1.0, 0], [2, 1], [4, 1], [3, 4]])
    four, two = (dense(swag_gaussian(collect(plane, rank=k), 0.5)) for k in (4, 2))
    np.testing.assert_allclose(four, [[1.458333333, 0.5], [0.5, 2.625]], atol=1e-9)
    np.testing.assert_allclose(two, [[1.875, 0.25], [0.25, 4.375]], atol=1e-9)


def test_fewer_columns_than_rank_use_their_own_number(float64):
    """Dividing by the rank instead of the columns stored would shrink the covariance."""
    plane = np.array([[1.0, 0], [2, 1], [4, 1], [3, 4]])
    full, wide = (dense(swag_gaussian(collect(plane, rank=k), 0.5)) for k in (4, 20))
    np.testing.assert_allclose(wide, full, atol=1e-12)


@pytest.mark.parametrize(("count", "factor"), [(5, 0.679167), (20, 0.863277), (100, 0.957703)])
def test_running_deviations_shrink_the_trace(float64, count, factor):
    """(T - H_T)/(T - 1) in expectation, over many iid trajectories at once."""
    draws = np.random.default_rng(0).normal(size=(count, 40_000))
    running = collect(draws, rank=count, running=True)
    final = collect(draws, rank=count)
    powers = [
        jnp.mean(gaussian.columns["b"] ** 2)
        for gaussian in (swag_gaussian(running, 1.0, True), swag_gaussian(final, 1.0))
    ]
    ratio = float(powers[0] / powers[1])
    assert ratio == pytest.approx(factor, abs=4 * 0.003)  # standard error of the ratio about .003


COVARIANCE = np.array([[1.0, 0.6, 0.2, 0.5], [0.6, 2.0, 0.3, -0.4], [0.2, 0.3, 0.5, 0.1]])
COVARIANCE = np.concatenate([COVARIANCE, [[0.5, -0.4, 0.1, 1.5]]])


def test_iid_draws_give_half_diagonal_and_half_full():
    """The standard error of a covariance entry is sqrt((s_ij² + s_ii s_jj) / T)."""
    count = 20_000
    draws = np.random.default_rng(1).multivariate_normal(np.arange(4.0), COVARIANCE, count)
    gaussian = swag_gaussian(collect(draws, rank=count), 0.5)
    exact = 0.5 * (np.diag(np.diag(COVARIANCE)) + COVARIANCE)
    variances = np.diag(COVARIANCE)
    error = np.sqrt((COVARIANCE**2 + np.outer(variances, variances)) / count)
    assert np.all(np.abs(dense(gaussian) - exact) < 4 * error + 1e-4)


@pytest.mark.parametrize("scale", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("rank", [0, 3])
def test_draws_have_the_analytic_covariance(scale, rank):
    """Also the block between two arrays, for every scale."""
    iterates = np.random.default_rng(2).multivariate_normal(np.zeros(4), COVARIANCE, 5)
    gaussian = swag_gaussian(collect(iterates, rank=rank), scale)
    count = 40_000
    drawn = jax.vmap(gaussian.draw)(jax.random.split(jax.random.key(0), count))
    theta = np.concatenate([np.asarray(drawn["a"]), np.asarray(drawn["b"])], axis=1)
    exact = dense(gaussian)
    error = np.sqrt((exact**2 + np.outer(np.diag(exact), np.diag(exact))) / count)
    assert np.all(np.abs(np.cov(theta.T) - exact) < 4 * error + 1e-12)
    if rank and scale:
        block = np.abs(exact[:2, 2:] / np.sqrt(np.outer(np.diag(exact)[:2], np.diag(exact)[2:])))
        assert block.max() > 0.1  # independent columns per leaf would give zero here
    if scale == 0:
        np.testing.assert_array_equal(theta, np.broadcast_to(theta[0], theta.shape))


def test_the_defect_of_one_column_draw_a_leaf_is_seen():
    """With its own z₂ for each array the cross block vanishes and the bound fails."""
    iterates = np.random.default_rng(2).multivariate_normal(np.zeros(4), COVARIANCE, 5)
    gaussian = swag_gaussian(collect(iterates, rank=3), 0.5)

    def defective(key):
        keys = jax.random.split(key, 2)
        return {name: gaussian.draw(k)[name] for name, k in zip("ab", keys, strict=True)}

    count = 40_000
    drawn = jax.vmap(defective)(jax.random.split(jax.random.key(0), count))
    theta = np.concatenate([np.asarray(drawn["a"]), np.asarray(drawn["b"])], axis=1)
    exact = dense(gaussian)
    error = np.sqrt((exact**2 + np.outer(np.diag(exact), np.diag(exact))) / count)
    assert np.any(np.abs(np.cov(theta.T) - exact) > 4 * error)


def test_mahalanobis_distances_follow_chi_squared():
    iterates = np.random.default_rng(3).normal(size=(30, 100))
    gaussian = swag_gaussian(collect(iterates, rank=20), 0.5)
    drawn = jax.vmap(gaussian.draw)(jax.random.split(jax.random.key(1), 2000))
    theta = np.concatenate([np.asarray(drawn["a"]), np.asarray(drawn["b"])], axis=1)
    mean = np.concatenate([gaussian.mean["a"], gaussian.mean["b"]])
    inverse = np.linalg.inv(dense(gaussian).astype(np.float64))
    squared = np.einsum("np,pq,nq->n", theta - mean, inverse, theta - mean)
    assert stats.kstest(squared, stats.chi2(100).cdf).pvalue > 1e-3


def test_the_density_integrates_to_one_and_is_scipys(float64):
    """A public log-density lacks factors of one half and passes a variance as a deviation."""
    plane = np.array([[1.0, 0], [2, 1], [4, 1], [3, 4]])
    gaussian = swag_gaussian(collect(plane, rank=4), 0.5)
    exact = stats.multivariate_normal([2.5, 1.5], dense(gaussian))
    point = np.array([2.0, 3.0])
    value = gaussian.log_prob({"a": jnp.array(point[:1]), "b": jnp.array(point[1:])})
    assert float(value) == pytest.approx(exact.logpdf(point), abs=1e-10)
    grid = np.linspace(-8, 8, 201)
    a, b = (axis.reshape(-1, 1) for axis in np.meshgrid(2.5 + grid, 1.5 + grid))
    density = jax.vmap(lambda a, b: jnp.exp(gaussian.log_prob({"a": a, "b": b})))(a, b)
    assert float(density.sum()) * 0.08**2 == pytest.approx(1, abs=1e-4)


class NoisyParabola:
    """Gradient ``2 w + sqrt(3) noise`` in training: A = 2 and C = 3."""

    def init(self, key, x):
        return cx.Variables({"w": jnp.zeros(())}, {})

    def apply(self, variables, x, *, key=None, train=False):
        noise = jnp.sqrt(1.5) * jax.random.normal(key) if train else 0.0
        return (jnp.sqrt(2.0) * variables.params["w"] + noise) * jnp.ones((len(x), 1)), {}


@pytest.mark.slow
def test_the_stationary_variance_of_descent():
    """Variance of SGD: eta C / (A (2 - eta A)) = 0.083333, not 0.075; standard error 5.6e-4."""
    steps = 200_000
    split = Split(np.zeros((1, 1), np.float32), np.zeros(1, np.float32))
    training = cx.Training(
        epochs=steps, batch_size=1, learning_rate=0.1, momentum=0.0, schedule="constant"
    )
    method = cx.SWAG(rank=0, samples=1, scale=1.0, start=0, every=1, averaging_rate=None)
    problem = cx.Problem(NoisyParabola(), cx.Gaussian(1.0))
    posterior = cx.fit(problem, method, split, training=training, progress=False)
    variance = float(posterior.gaussian.std["w"][0]) ** 2
    assert variance == pytest.approx(0.083333, abs=4 * 5.6e-4)
    assert abs(variance - 0.075) > 4 * 5.6e-4


@pytest.mark.slow
def test_noise_that_makes_the_posterior_stationary_gives_its_predictive():
    """Linear regression: C solves Sigma = (I - eta A) Sigma (I - eta A) + eta² C."""
    precision = np.array([126.0, 63.5])
    mean, sigma, eta, steps = np.array([0.178571429, 0.984251969]), 1 / precision, 0.005, 60_000
    rho = 1 - eta * precision
    noise = np.sqrt(sigma * (1 - rho**2))
    rng = np.random.default_rng(4)
    iterates, w = np.empty((steps, 2)), mean.copy()
    for t in range(steps):
        w = mean + rho * (w - mean) + noise * rng.standard_normal(2)
        iterates[t] = w
    gaussian = swag_gaussian(collect(iterates, rank=20), 1.0)
    direction = np.array([1.0, 2.0])
    variance = direction**2 @ np.concatenate([gaussian.std["a"] ** 2, gaussian.std["b"] ** 2])
    centre = direction @ np.concatenate([gaussian.mean["a"], gaussian.mean["b"]])
    # Effective numbers of iterates: T (1 - rho²)/(1 + rho²) for squares, T (1 - rho)/(1 + rho).
    squares = np.sqrt(2 * np.sum((direction**2 * sigma) ** 2 * (1 + rho**2) / (1 - rho**2)) / steps)
    centres_error = np.sqrt(np.sum(direction**2 * sigma * (1 + rho) / (1 - rho)) / steps)
    assert variance == pytest.approx(0.070928634, abs=4 * squares)
    assert centre == pytest.approx(2.147075366, abs=4 * centres_error)


@pytest.mark.slow
def test_scale_zero_is_the_average(blobs):
    """Every draw is the mean, which SWA with the same captures has."""
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())
    training = cx.Training(epochs=4, batch_size=20)
    split = Split(*blobs)
    options = {"start": 0.5, "averaging_rate": 0.5}
    swag = cx.fit(problem, cx.SWAG(scale=0.0, samples=2, **options), split, training=training)
    swa = cx.SWA(include_initial=False, **options)
    mean = cx.fit(problem, swa, split, training=training)
    for a, b in zip(jax.tree.leaves(swag.variables), jax.tree.leaves(mean.variables), strict=True):
        np.testing.assert_allclose(a, np.broadcast_to(b, a.shape), rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_around_members_goes_on_from_them(blobs):
    """With a rate of nearly nothing the Gaussians stay where the members are, in their order."""
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())
    training, split = cx.Training(epochs=3, batch_size=20), Split(*blobs)
    ensemble = cx.fit(problem, cx.DeepEnsemble(3), split, key=1, training=training)
    slow = training.replace(learning_rate=1e-12, schedule="constant")
    method = cx.SWAG(samples=2, start=0, averaging_rate=None, around=ensemble)
    posterior = cx.fit(problem, method, split, training=slow)
    assert posterior.num_modes == 3
    for mean, member in zip(
        jax.tree.leaves(posterior.gaussian.mean), jax.tree.leaves(ensemble.variables), strict=True
    ):
        np.testing.assert_allclose(mean, member, atol=1e-6)


@pytest.mark.slow
def test_draws_of_a_normalised_network_have_their_own_statistics(blobs):
    network = cx.networks.MLP((4,), outputs=3, norm="batch")
    problem, split = cx.Problem(network, cx.Categorical()), Split(*blobs)
    training = cx.Training(epochs=4, batch_size=20)
    posterior = cx.fit(problem, cx.SWAG(samples=3), split, training=training)
    kernel = np.asarray(posterior.variables.params["0_dense"]["kernel"])
    bias = np.asarray(posterior.variables.params["0_dense"]["bias"])
    for draw in range(3):
        features = blobs[0] @ kernel[draw] + bias[draw]
        state = posterior.variables.state["1_batch_norm"]
        np.testing.assert_allclose(state["mean"][draw], features.mean(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(state["variance"][draw], features.var(0), rtol=1e-4)
    with pytest.raises(InputError, match=r"refresh=data\.train"):
        posterior.sample(jax.random.key(0), 2)
    drawn = posterior.sample(jax.random.key(0), 2, refresh=split)
    assert jax.tree.leaves(drawn.params)[0].shape[0] == 2


def test_captures_and_rates_by_hand():
    training = cx.Training(epochs=10, batch_size=5, learning_rate=0.2)
    assert regular_captures(0.55, None, training, 20) == (20, [24, 28, 32, 36, 40])
    assert regular_captures(0.5, 7, training, 20) == (20, [27, 34])
    rate = learning_rate_at(averaging_settings(training, 0.5, 0.1), 20)
    assert [round(float(rate(4 * epoch)), 6) for epoch in range(6)] == [
        0.2, 0.2, 0.2, 0.155, 0.065, 0.02,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": 1.0}, "start"),
        ({"every": 0}, "every"),
        ({"rank": 1}, "rank"),
        ({"scale": -1.0}, "scale"),
        ({"samples": 0}, "samples"),
        ({"modes": 0}, "modes"),
        ({"deviation": "mean"}, "deviation"),
        ({"averaging_rate": 2.0}, "averaging_rate"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        cx.SWAG(**options)


def test_too_few_collected_networks_are_refused(blobs):
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())
    with pytest.raises(InputError, match=r"collected 1 network\(s\) and a variance needs"):
        cx.fit(problem, cx.SWAG(), Split(*blobs), training=cx.Training(epochs=2, batch_size=20))
    training = cx.Training(epochs=4, batch_size=20, keep_best=True)
    with pytest.raises(InputError, match="keep_best"):
        cx.fit(problem, cx.SWAG(), Split(*blobs), training=training, validation=Split(*blobs))


def test_a_gaussian_without_columns_is_diagonal(float64):
    gaussian = LowRankGaussian(
        {"w": jnp.zeros(2)}, {"w": jnp.array([1.0, 2.0])}, {"w": jnp.zeros((0, 2))}
    )
    np.testing.assert_allclose(gaussian.covariance(), np.diag([1.0, 4.0]))
    exact = stats.norm(0, [1, 2]).logpdf([0.3, 0.4]).sum()
    assert float(gaussian.log_prob({"w": jnp.array([0.3, 0.4])})) == pytest.approx(exact)
