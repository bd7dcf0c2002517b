"""The repulsion between whole vectors as samplers, on targets whose answer is known (float64)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax.methods.repulsive import kernels

pytestmark = pytest.mark.slow

MEAN = np.array([-0.68, 0.80])
COVARIANCE = np.array([[1.1, 0.8], [0.8, 3.35]])
PRECISION = np.linalg.inv(COVARIANCE)


def gaussian_score(x):
    return -(x - MEAN) @ PRECISION


def standard_score(x):
    return -x


@partial(jax.jit, static_argnames=("score", "estimator", "bandwidth", "steps"))
def flow(x, score, estimator, bandwidth, rate, steps, beta=1.0):
    """``x' = x + rate (score + beta repulsion)`` by the mixing matrices of `forces`."""
    alive = jnp.ones(len(x), bool)

    def move(_, x):
        gram = kernels.gram_of(x)
        d2 = kernels.distances_from_gram(gram)
        if estimator == "linear":
            scores, matrix = kernels.stein_linear(gram, alive)
            return x + rate * (scores @ score(x) + matrix @ x)
        h = kernels.spectral_bandwidth(d2, alive) if bandwidth == "spectral" else bandwidth
        kernel = kernels.kernel_of(d2, h, alive, x.shape[-1])
        if estimator == "stein":
            scores, matrix = kernels.stein(kernel)
            return x + rate * (scores @ score(x) + matrix @ x)
        return x + rate * (score(x) + beta * (kernels.ESTIMATORS[estimator](kernel) @ x))

    return jax.lax.fori_loop(0, steps, move, x)


def wide_start(members, dimension, seed=0, scale=1.5):
    return jnp.asarray(scale * np.random.default_rng(seed).normal(size=(members, dimension)))


def off_centre(members, seed=0):
    draws = np.random.default_rng(seed).normal(size=(members, 2))
    return jnp.asarray(np.array([-1.0, 5.0]) + np.sqrt(0.5) * draws)


def covariance(x):
    x = np.asarray(x)
    return (x - x.mean(0)).T @ (x - x.mean(0)) / len(x)


def distance(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def test_svgd_with_the_linear_kernel_is_exact_on_gaussians(float64):
    """Liu and Wang 2018: mean and 1/M covariance, once there are more members than dimensions."""
    x = flow(off_centre(20), gaussian_score, "linear", None, 0.01, 5000)
    np.testing.assert_allclose(np.mean(x, 0), MEAN, atol=1e-5)
    np.testing.assert_allclose(covariance(x), COVARIANCE, atol=1e-5)


def test_wgd_settles_at_the_covariance_less_half_the_bandwidth(float64):
    """N(mu, S - (h/2) I) at a fixed bandwidth; beta S - (h/2) I when the repulsion is beta."""
    sd = np.sqrt(np.diag(COVARIANCE))
    plain = flow(off_centre(200), gaussian_score, "kde", 0.5, 0.05, 2000)
    assert (np.abs(np.mean(plain, 0) - MEAN) < 0.1 * sd).all()
    shrunk = COVARIANCE - 0.25 * np.eye(2)
    assert distance(covariance(plain), shrunk) <= 0.10
    assert distance(covariance(plain), shrunk) < distance(covariance(plain), COVARIANCE)
    double = flow(off_centre(200), gaussian_score, "kde", 0.5, 0.05, 2000, beta=2.0)
    assert distance(covariance(double), 2 * COVARIANCE - 0.25 * np.eye(2)) <= 0.17
    blob = flow(off_centre(200), gaussian_score, "blob", 0.5, 0.05, 2000)
    assert distance(covariance(blob), COVARIANCE) <= 0.06


@pytest.mark.parametrize(
    ("dimension", "expected", "mean_field"),
    [(2, 0.712, 0.769), (5, 0.403, 0.514), (10, 0.224, 0.330)],
)
def test_median_bandwidth_shrinks_an_isotropic_gaussian(float64, dimension, expected, mean_field):
    x = flow(wide_start(100, dimension), standard_score, "kde", "median", 0.1, 600)
    variance = np.trace(covariance(x)) / dimension
    assert abs(variance - expected) < 0.03
    assert variance < mean_field


def test_more_members_come_nearer_to_the_mean_field_value(float64):
    """1 / (1 + m_d / ln M), m_2 = 2 ln 2: .777 of .805 at M = 300 against .712 of .769 at 100."""
    x = flow(wide_start(300, 2), standard_score, "kde", "median", 0.2, 120)
    variance, limit = np.trace(covariance(x)) / 2, 1 / (1 + 2 * np.log(2) / np.log(300))
    assert abs(variance - 0.777) < 0.03
    assert 0 < limit - variance < 0.769 - 0.712


def test_the_spectral_score_of_five_points(float64):
    """Five points, width 1.35 (not 1.0), scores for one, two and three eigenfunctions."""
    x = np.array([-1.5, -0.5, 0.0, 0.7, 1.6])[:, None]
    points = np.array([-1.0, 0.0, 1.0])[:, None]
    d2 = np.square(x - x.T)
    h = kernels.spectral_bandwidth(jnp.asarray(d2), jnp.ones(5, bool))
    np.testing.assert_allclose(np.sqrt(h / 2), 1.35, atol=1e-9)
    inner, across = np.exp(-d2 / h), np.exp(-np.square(points - x.T) / h)
    score = jax.jit(kernels.spectral_score, static_argnames=("ridge", "keep"))
    values = [3.37848474, 1.21273318, 0.36348626, 0.04400950, 0.00128632]
    np.testing.assert_allclose(np.linalg.eigvalsh(inner)[::-1], values, atol=1e-8)
    expected = {
        0.5: [0.00029585, 0.00035957, 0.00030816],
        0.9: [0.90458249, 0.06887693, -0.84345914],
        0.99: [0.91867431, 0.03896012, -0.83801331],
    }
    for keep, scores in expected.items():
        matrix = score(across, inner, h, ridge=0.0, keep=keep)
        np.testing.assert_allclose((matrix @ x)[:, 0], scores, atol=1e-8)


def test_spectral_scores_of_gaussian_samples(float64):
    """RMSE to -x on |x| < 1.5, mean of five seeds; keeping every eigenpair is worse."""

    @partial(jax.jit, static_argnames="keep")
    def repulsion(x, keep):
        d2, alive = kernels.distances_from_gram(kernels.gram_of(x)), jnp.ones(200, bool)
        kernel = kernels.kernel_of(d2, kernels.spectral_bandwidth(d2, alive), alive)
        return kernels.spectral_stein(kernel, keep=keep) @ x

    errors = {0.95: [], None: []}
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=(200, 1))
        inside = np.abs(x[:, 0]) < 1.5
        for keep, found in errors.items():
            found.append(np.sqrt(np.mean(np.square(repulsion(x, keep) - x)[inside])))
    assert np.mean(errors[0.95]) <= 0.3
    assert np.mean(errors[0.95]) < np.mean(errors[None])


def test_better_estimators_have_less_bias(float64):
    """Covariance error on the correlated target: SSGE .013, SGE .151, KDE .205."""
    start = off_centre(100)
    error = {
        "kde": flow(start, gaussian_score, "kde", 0.5, 0.1, 200),
        "sge": flow(start, gaussian_score, "sge", 0.5, 0.05, 400),
        "ssge": flow(start, gaussian_score, "ssge", "spectral", 0.1, 150),
    }
    error = {name: distance(covariance(x), COVARIANCE) for name, x in error.items()}
    assert error["ssge"] < error["sge"] < error["kde"]
    assert error["ssge"] < 0.05


def two_modes(x):
    left, right = -jnp.square(x + 3) / 2, -jnp.square(x - 3) / 2
    share = jax.nn.sigmoid(right - left)
    return -(1 - share) * (x + 3) - share * (x - 3)


def test_both_modes_are_kept(float64):
    start = wide_start(100, 1, scale=4.0)
    x = np.asarray(flow(start, two_modes, "kde", "median", 0.1, 600))[:, 0]
    assert 0.35 <= np.mean(x > 0) <= 0.65
    alone = np.asarray(flow(start, two_modes, "kde", 1.0, 0.1, 600, beta=0.0))[:, 0]
    assert max(alone[alone > 0].var(), alone[alone < 0].var()) < 1e-4
    assert min(x[x > 0].var(), x[x < 0].var()) > 0.1


def test_stein_direction_is_its_definition(float64):
    """``(1/M) Σ_j [K_ij score_j + ∇_j K_ji]``, the gradient by automatic differentiation."""
    x = wide_start(6, 3)
    h, alive = 1.7, jnp.ones(6, bool)
    kernel = kernels.kernel_of(kernels.distances_from_gram(kernels.gram_of(x)), h, alive)
    scores, matrix = kernels.stein(kernel)
    found = scores @ standard_score(x) + matrix @ x
    k = lambda a, b: jnp.exp(-jnp.sum(jnp.square(a - b)) / h)  # noqa: E731
    pairs = jax.vmap(jax.vmap(jax.grad(k, argnums=0), (0, None)), (None, 0))(x, x)
    values = jax.vmap(jax.vmap(k, (0, None)), (None, 0))(x, x)
    exact = (values @ standard_score(x) + pairs.sum(1)) / 6
    np.testing.assert_allclose(found, exact, atol=1e-12)


@pytest.mark.parametrize("estimator", ["kde", "blob", "sge", "ssge"])
def test_dead_members_are_not_there(float64, estimator):
    x = wide_start(6, 3)
    alive = np.array([True, False, True, True, False, True])
    few = x[alive]

    @jax.jit
    def repulsion(x, alive):
        x = jnp.where(alive[:, None], x, 0.0)
        d2 = kernels.distances_from_gram(kernels.gram_of(x))
        return kernels.ESTIMATORS[estimator](kernels.kernel_of(d2, "median", alive)) @ x

    found = np.asarray(repulsion(x, jnp.asarray(alive)))
    np.testing.assert_allclose(found[alive], repulsion(few, jnp.ones(4, bool)), atol=1e-10)
    assert not found[~alive].any()


# --- the heat bandwidth --------------------------------------------------------------------------


def test_heat_residual_is_the_heat_equation(float64):
    """``Δq(x_i) + Σ_j ∇_(x_j) q(x_i) . ∇ log q(x_j)`` by automatic differentiation, times h/2."""
    x, h = wide_start(5, 2), 1.3

    def density(point, centres):
        return jnp.sum(jnp.exp(-jnp.square(point - centres).sum(-1) / h))

    @jax.jit
    def both(x):
        drift = jax.vmap(lambda p: jax.grad(lambda u: jnp.log(density(u, x)))(p))(x)
        spread = jax.vmap(lambda p: jnp.trace(jax.hessian(density)(p, x)))(x)
        carried = jax.vmap(lambda p: jnp.sum(jax.grad(density, 1)(p, x) * drift))(x)
        d2 = kernels.distances_from_gram(kernels.gram_of(x))
        return spread + carried, kernels.heat_residual(d2, jnp.asarray(h), jnp.ones(5, bool), 2)

    exact, found = both(x)
    np.testing.assert_allclose(found, 0.5 * h * exact, atol=1e-10)


def test_heat_bandwidth_scales_with_the_members_and_ignores_the_dead(float64):
    x = wide_start(30, 2)
    d2 = kernels.distances_from_gram(kernels.gram_of(x))
    heat = jax.jit(lambda d2, alive: kernels.heat_bandwidth(d2, alive, 2))
    everyone = jnp.ones(30, bool)
    np.testing.assert_allclose(heat(100 * d2, everyone), 100 * heat(d2, everyone), rtol=1e-9)
    alive = np.arange(30) < 25
    fewer = jax.jit(lambda d2: kernels.heat_bandwidth(d2, jnp.ones(25, bool), 2))
    found = heat(jnp.where(alive[:, None] & alive[None], d2, 0.0), jnp.asarray(alive))
    np.testing.assert_allclose(found, fewer(d2[:25, :25]), rtol=1e-9)


@pytest.mark.parametrize("dimension", [1, 2])
def test_heat_bandwidth_has_less_bias_than_the_median(float64, dimension):
    start = wide_start(50, dimension)
    variance = {
        rule: np.trace(covariance(flow(start, standard_score, "kde", rule, 0.1, 400))) / dimension
        for rule in ("median", "heat")
    }
    assert variance["median"] + 0.01 < variance["heat"] < 1


def test_heat_bandwidth_in_many_dimensions_stays_inside_its_grid(float64):
    """The residual of a normal density explodes with the dimension; its share does not."""

    @jax.jit
    def ratio(x):
        d2, alive = kernels.distances_from_gram(kernels.gram_of(x)), jnp.ones(10, bool)
        return kernels.heat_bandwidth(d2, alive, 2000) / kernels.median_bandwidth(d2, alive, False)

    assert 0.3 < ratio(wide_start(10, 2000)) < 3
