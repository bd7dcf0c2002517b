"""Weight noise of each row's own: the same Gaussian as a shared draw, less noise in gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.gaussians import LowRankGaussian
from credax.methods.laplace.layers import find_layers
from credax.methods.variational.local_noise import noisy_outputs, signs

pytestmark = pytest.mark.slow

ESTIMATORS = ("shared", "local", "flipout")
LINE = cx.FunctionNetwork(lambda key, x: {"w": jnp.zeros((2, 1))}, lambda p, x: x @ p["w"])


def line_outputs(estimator, draws, x, mean=(0.5, 0.25), std=(0.1, 0.2)):
    """Outputs ``[draws, rows]`` of a linear layer under independent Gaussian weights."""
    problem = cx.Problem(LINE, cx.Gaussian(1.0), prior=cx.GaussianPrior(precision=1.0))
    column = lambda numbers: {"w": jnp.asarray(numbers)[:, None]}  # noqa: E731
    gaussian = LowRankGaussian(column(mean), column(std), {"w": jnp.zeros((0, 2, 1))})
    x = jnp.asarray(x)
    layers = find_layers(problem, cx.Variables(gaussian.mean, {}), x)

    def one(key):
        if estimator == "shared":
            return (x @ gaussian.draw(key)["w"])[:, 0]
        return noisy_outputs(problem, gaussian, lambda w: w, {}, x, key, layers, estimator)[:, 0]

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), draws)))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_distribution_of_one_row(float64, estimator):
    """Mean 0 and variance .17 for all three, within four standard errors."""
    draws = 40_000
    values = line_outputs(estimator, draws, [[1.0, -2.0]])[:, 0]
    assert abs(values.mean()) < 4 * np.sqrt(0.17 / draws)
    assert abs(values.var() - 0.17) < 4 * 0.17 * np.sqrt(2 / draws)


def test_rows_have_noise_of_their_own(float64):
    """Equal rows are equal under a shared draw and uncorrelated under the others."""
    rows = [[1.0, -2.0], [1.0, -2.0]]
    for estimator in ESTIMATORS:
        first, second = line_outputs(estimator, 4000, rows).T
        correlation = np.corrcoef(first, second)[0, 1]
        if estimator == "shared":
            assert correlation > 0.999
        else:
            assert abs(correlation) < 4 / np.sqrt(4000)


def test_signs_are_minus_and_plus_one():
    """Signs drawn as ``2 u - 1`` with real u in [0, 2) have mean 1 and second moment 7/3."""
    drawn = np.asarray(signs(jax.random.key(0), 10_000, jnp.float32))
    assert set(np.unique(drawn)) == {-1.0, 1.0}
    assert abs(drawn.mean()) < 4 / 100


def test_gradients_are_less_noisy(float64):
    """The variance of the gradient falls from shared to flipout to local."""
    network = cx.networks.MLP((8,), outputs=3)
    problem = cx.Problem(network, cx.Categorical(), weight_decay=1e-2)
    rng = np.random.default_rng(0)
    data = cx.Split(rng.normal(size=(32, 4)), rng.integers(0, 3, 32))
    training = cx.Training(batch_size=32)
    batch = problem.prepare(data.x, data.y)
    spread, means = {}, {}
    for estimator in ESTIMATORS:
        method = cx.MeanFieldVI(estimator=estimator, initial_scale=0.3)
        dynamics = method.dynamics(problem, data, training)
        state = dynamics.init(jax.random.key(1), problem.init(jax.random.key(1), data.x))

        def gradient(key, dynamics=dynamics, state=state):
            current = (state.free, state.points)
            found = jax.grad(lambda c: dynamics.loss(c, {}, batch, key, jnp.int32(0))[0])(current)
            return jnp.concatenate([g.ravel() for g in jax.tree.leaves(found[0]["mean"])])

        drawn = np.asarray(jax.jit(jax.vmap(gradient))(jax.random.split(jax.random.key(2), 1500)))
        spread[estimator], means[estimator] = drawn.var(0).sum(), drawn.mean(0)
        error = drawn.std(0) / np.sqrt(len(drawn))
    assert spread["local"] < spread["flipout"] < spread["shared"]
    gap = np.abs(means["local"] - means["flipout"])
    # Both are unbiased: a gap of the means is noise (the greater error is flipout's).
    assert np.mean(gap) < 4 * np.mean(error) * np.sqrt(spread["flipout"] / spread["local"] + 1)


def test_a_fit_with_noise_of_rows_learns(blobs):
    problem = cx.Problem(cx.networks.MLP((8,), outputs=3), cx.Categorical(), weight_decay=1e-2)
    training = cx.Training(epochs=40, batch_size=20, learning_rate=0.2)
    method = cx.MeanFieldVI(samples=10, estimator="flipout")
    posterior = cx.fit(problem, method, cx.Split(*blobs), training=training, progress=False)
    assert (np.asarray(posterior.predict(blobs[0]).label) == blobs[1]).mean() > 0.9


def test_what_has_no_rows_of_its_own_is_refused(blobs):
    data, training = cx.Split(*blobs), cx.Training(batch_size=20)
    normalised = cx.networks.MLP((4,), outputs=3, norm="batch")
    problem = cx.Problem(normalised, cx.Categorical(), weight_decay=1e-2)
    with pytest.raises(cx.InputError, match="batch statistics join its rows"):
        cx.MeanFieldVI(estimator="local").dynamics(problem, data, training)
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical(), weight_decay=1e-2)
    record = cx.MeanFieldVI(estimator="flipout", divergence="path")
    with pytest.raises(cx.InputError, match="divergence is 'path'"):
        record.dynamics(problem, data, training)
    with pytest.raises(cx.InputError, match="unknown estimator 'flipuot'; did you mean 'flipout'"):
        cx.MeanFieldVI(estimator="flipuot")
