"""Monte Carlo dropout and batch norm: exact distributions, fixed masks, running statistics."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.methods.dropout.dropout_posterior import DropoutPosterior
from credax.methods.dropout.masks import Own, inserted_masks
from credax.networks import Activation, BatchNorm, Conv, Dense, Dropout, Flatten, Sequential
from credax.posterior import population

pytestmark = pytest.mark.slow

TRAINING = cx.Training(epochs=2, batch_size=20)


def posterior_of(layers, params, x, draws, rate=None):
    """A dropout posterior around given parameters of one network."""
    problem = cx.Problem(Sequential(layers), cx.Gaussian(1.0))
    one = cx.Variables(params, {})
    variables = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], one)
    masks = Own() if rate is None else inserted_masks(problem, x, rate)
    seeds = jax.random.key_data(jax.random.split(jax.random.key(0), (1, draws)))
    return DropoutPosterior(population(problem, variables, x), seeds, masks)


@pytest.mark.parametrize("rate", [None, 0.2])
def test_a_linear_layer(rate):
    """w = (1, 2), x = (1, -1), p = .2: mean -1 and variance 1.25 (inverted).

    By a dropout layer of the network's own, and by masks inserted before its kernel.
    """
    draws, x = 40_000, np.array([[1.0, -1.0]], np.float32)
    params = {"0_dense": {"kernel": np.array([[1.0], [2.0]], np.float32)}}
    dense = Dense(1, bias=False)
    layers = (Dropout(0.2), dense) if rate is None else (dense,)
    members = posterior_of(layers, params, x, draws, rate).predict(x).members
    means = np.asarray(members, float)[:, 0]
    assert means.mean() == pytest.approx(-1, abs=4 * np.sqrt(1.25 / draws))
    fourth = np.mean((means - means.mean()) ** 4) - 1.25**2
    assert means.var() == pytest.approx(1.25, abs=4 * np.sqrt(fourth / draws))
    assert abs(means.var() - 0.8) > 0.3  # without scaling up: mean -.8, variance .8


def test_the_likelihood_of_regression():
    """logsumexp_s(-τ/2 (y - ŷ_s)²) - log S - log(2π)/2 + log(τ)/2, with τ = 1."""
    x = np.array([[1.0, -1.0], [0.5, 2.0]], np.float32)
    params = {"0_dense": {"kernel": np.array([[1.0], [2.0]], np.float32)}}
    posterior = posterior_of((Dropout(0.2), Dense(1, bias=False)), params, x, 50)
    prediction, y = posterior.predict(x), np.array([0.3, -1.0], np.float32)
    each = np.asarray(prediction.members)
    exact = logsumexp(-0.5 * (y - each) ** 2, axis=0) - np.log(50) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(prediction.log_prob(y), exact, rtol=1e-5)


LAYERS = (Dense(16), BatchNorm(), Activation("relu"), Dropout(0.3), Dense(3))


@pytest.fixture(scope="module", params=[None, 0.2])
def dropped(blobs, request):
    """With a layer of the network's own, and with inserted masks."""
    problem = cx.Problem(Sequential(LAYERS), cx.Categorical(), weight_decay=1e-3)
    method = cx.MCDropout(rate=request.param, samples=6, modes=2)
    return cx.fit(problem, method, Split(*blobs), training=TRAINING, progress=False)


def test_masks_are_the_same_in_any_batch_and_order(dropped, blobs):
    """A member is one function of its input."""
    x = blobs[0]
    whole = np.asarray(dropped.predict(x).log_probs)
    assert whole.shape == (12, 60, 3)
    np.testing.assert_array_equal(whole, dropped.predict(x).log_probs)
    np.testing.assert_allclose(dropped.predict(x, batch_size=7).log_probs, whole, atol=1e-5)
    order = np.random.default_rng(0).permutation(60)
    np.testing.assert_allclose(dropped.predict(x[order]).log_probs, whole[:, order], atol=1e-5)
    twice = dropped.predict(np.repeat(x[:1], 5, axis=0)).log_probs
    np.testing.assert_allclose(twice, np.repeat(twice[:, :1], 5, axis=1), atol=1e-6)
    assert np.ptp(whole, axis=0).max() > 0.01
    other = dropped.predict(x, key=jax.random.key(9)).log_probs
    assert np.abs(np.asarray(other) - whole).max() > 0.01


def test_masks_of_rows_differ_on_request(dropped, blobs):
    each = DropoutPosterior(dropped.networks, dropped.seeds, Own(consistent=False))
    rows = np.asarray(each.predict(np.repeat(blobs[0][:1], 20, axis=0)).log_probs)
    assert np.ptp(rows, axis=1).max() > 0.01


def test_running_averages_are_used(dropped, blobs):
    """The known defect: training mode as a whole normalises by the batch it predicts."""
    x = blobs[0]
    alone = np.asarray(dropped.predict(x[:1]).log_probs)
    among = np.asarray(dropped.predict(x).log_probs)[:, :1]
    np.testing.assert_allclose(alone, among, atol=1e-5)
    # Row by row a batch's own statistics would not differ either; only running ones are looked at.
    state = jax.tree.map(lambda leaf: leaf + 0.5, dropped.variables.state)
    variables = cx.Variables(dropped.variables.params, state)
    networks = dataclasses.replace(dropped.networks, variables=variables)
    moved = dataclasses.replace(dropped, networks=networks).predict(x).log_probs
    assert np.abs(np.asarray(moved) - np.asarray(dropped.predict(x).log_probs)).max() > 1e-2
    network = jax.tree.map(lambda leaf: leaf[0], dropped.variables)
    key = jax.random.wrap_key_data(dropped.seeds[0, 0])
    apply = dropped.problem.outputs
    defective = [apply(network, x[:n], key=key, train=True)[0][0] for n in (2, 60)]
    assert np.abs(np.asarray(defective[0]) - np.asarray(defective[1])).max() > 1e-2


def test_rate_zero_is_the_network(blobs):
    """By masks that keep everything: a rate of 1e-9 never drops and scales by one."""
    layers = (Dense(8), Activation("relu"), Dropout(1e-9), Dense(3))
    problem = cx.Problem(Sequential(layers), cx.Categorical())
    for rate in (None, 0.0):
        method = cx.MCDropout(rate=rate, samples=3)
        posterior = cx.fit(problem, method, Split(*blobs), training=TRAINING, progress=False)
        plain = posterior.networks.predict(blobs[0]).log_probs
        np.testing.assert_allclose(
            posterior.predict(blobs[0]).log_probs, np.repeat(plain, 3, axis=0), atol=1e-5
        )
    single = cx.fit(problem, cx.Single(), Split(*blobs), training=TRAINING, progress=False)
    for a, b in zip(
        jax.tree.leaves(posterior.variables), jax.tree.leaves(single.variables), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_inserted_masks_mask_inputs_of_every_kernel():
    """x (W * r) = (x * r) W by hand for two dense layers; drawn networks carry their masks."""
    problem = cx.Problem(cx.networks.MLP((5,), outputs=3), cx.Categorical())
    x = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    variables = problem.init(jax.random.key(1), x)
    masks = inserted_masks(problem, x, 0.4)
    key = jax.random.key(2)
    drawn = masks.draw(key)
    first, second = (np.asarray(drawn[f"params/{i}_dense/kernel"]) for i in range(2))
    assert (first.shape, second.shape) == ((2,), (5,))
    assert set(np.round(np.concatenate([first, second]), 5)) <= {0.0, np.float32(1.66667)}
    params = variables.params
    hidden = np.maximum((x * first) @ params["0_dense"]["kernel"] + params["0_dense"]["bias"], 0)
    exact = (hidden * second) @ params["1_dense"]["kernel"] + params["1_dense"]["bias"]
    np.testing.assert_allclose(masks.outputs(problem, variables, x, key), exact, atol=1e-5)


def test_training_masks_come_in_groups(blobs):
    """Each of the groups has its own masks; any batch size has groups, at most as many as asked."""
    problem = cx.Problem(cx.networks.MLP((5,), outputs=3), cx.Categorical())
    method = cx.MCDropout(rate=0.5, mask_groups=4)
    dynamics = method.dynamics(problem, Split(*blobs), TRAINING).inner
    x = np.repeat(blobs[0][:1], 20, axis=0)
    batch = problem.prepare(x, np.zeros(20, int))
    variables = problem.init(jax.random.key(0), x)
    outputs, _ = dynamics.outputs(variables, batch.x, jax.random.key(3))
    rows = np.asarray(outputs).reshape(4, 5, 3)
    np.testing.assert_allclose(rows, np.repeat(rows[:, :1], 5, axis=1), atol=1e-6)
    assert len(np.unique(rows[:, 0].round(5), axis=0)) > 1
    for size, groups in ((20, 5), (7, 7), (16, 8), (11, 1)):
        training = cx.Training(epochs=1, batch_size=size)
        made = cx.MCDropout(mask_groups=8).dynamics(problem, Split(*blobs), training)
        assert made.inner.groups == groups


def test_a_network_without_dropout_is_refused(blobs):
    split, method = Split(*blobs), cx.MCDropout(rate=None)
    for network in (cx.networks.MLP((4,), outputs=3), Sequential((Dropout(0.0), Dense(3)))):
        with pytest.raises(InputError, match="no dropout of its own"):
            cx.fit(cx.Problem(network, cx.Categorical()), method, split, training=TRAINING)


def test_a_network_with_nothing_to_drop_is_refused(blobs):
    shift = cx.FunctionNetwork(
        lambda key, x: jnp.zeros(3), lambda p, x: jnp.zeros((len(x), 3), x.dtype) + p
    )
    problem = cx.Problem(shift, cx.Categorical())
    with pytest.raises(InputError, match="there is nothing to drop; use one with dense"):
        cx.MCDropout().dynamics(problem, Split(*blobs), TRAINING)


NORMALISED = cx.networks.MLP((6,), outputs=3, norm="batch")


def normalised(blobs, **options):
    problem = cx.Problem(NORMALISED, cx.Categorical(), weight_decay=1e-3)
    method = cx.MCBatchNorm(**options)
    return cx.fit(problem, method, Split(*blobs), training=TRAINING, key=4, progress=False)


def test_all_rows_leave_no_spread(blobs):
    """With all rows in each minibatch there is no variance."""
    posterior = normalised(blobs, samples=4, rows=60)
    each = np.asarray(posterior.predict(blobs[0]).log_probs)
    np.testing.assert_allclose(each, np.repeat(each[:1], 4, axis=0), atol=1e-5)
    kernel = np.asarray(posterior.variables.params["0_dense"]["kernel"])[0]
    bias = np.asarray(posterior.variables.params["0_dense"]["bias"])[0]
    features = blobs[0] @ kernel + bias
    state = posterior.variables.state["1_batch_norm"]
    np.testing.assert_allclose(state["mean"][0], features.mean(0), atol=1e-5)
    np.testing.assert_allclose(state["variance"][0], features.var(0), rtol=1e-4)


def test_the_spread_falls_with_the_batch(blobs):
    """The variance of drawn means is (1/b)(1 - (b - 1)/(N - 1)) times the rows' variance."""
    for size in (5, 20):
        posterior = normalised(blobs, samples=400, rows=size)
        params = jax.tree.map(lambda leaf: np.asarray(leaf[0]), posterior.variables.params)
        features = blobs[0] @ params["0_dense"]["kernel"] + params["0_dense"]["bias"]
        exact = features.var(0) / size * (1 - (size - 1) / 59)
        found = np.asarray(posterior.variables.state["1_batch_norm"]["mean"]).var(0)
        np.testing.assert_allclose(found / exact, 1, atol=4 * np.sqrt(2 / 400))


def test_several_posteriors_do_not_know_each_other(blobs):
    """A list of layers that records share would hand the first one's members on."""
    first, second = (normalised(blobs, samples=2, rows=10) for _ in range(2))
    for a, b in zip(
        jax.tree.leaves(first.variables), jax.tree.leaves(second.variables), strict=True
    ):
        assert len(a) == len(b) == 2
        np.testing.assert_array_equal(a, b)


def test_pictures(blobs):
    """Statistics of convolutions; a later fit changes nothing."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(24, 8, 8, 1)).astype(np.float32), np.arange(24) % 2
    network = Sequential((Conv(4), BatchNorm(), Activation("relu"), Flatten(), Dense(2)))
    problem = cx.Problem(network, cx.Categorical())
    method = cx.MCBatchNorm(samples=2, rows=6)
    training = cx.Training(epochs=1, batch_size=8)
    pictures = cx.fit(problem, method, Split(x, y), training=training, progress=False)
    before = np.asarray(pictures.predict(x).log_probs)
    normalised(blobs, samples=2, rows=10)
    np.testing.assert_array_equal(before, pictures.predict(x).log_probs)
    assert np.ptp(before, axis=0).max() > 0


@pytest.mark.parametrize(
    ("method", "network", "words"),
    [
        (cx.MCBatchNorm(), cx.networks.MLP((4,), outputs=3), "no batch normalisation"),
        (cx.MCBatchNorm(rows=61), NORMALISED, "rows is 61"),
    ],
)
def test_what_cannot_be_drawn_is_refused(blobs, method, network, words):
    problem = cx.Problem(network, cx.Categorical())
    with pytest.raises(InputError, match=words):
        cx.fit(problem, method, Split(*blobs), training=TRAINING)
    with pytest.raises(InputError, match="samples"):
        cx.MCBatchNorm(samples=0)
    with pytest.raises(InputError, match="samples"):
        cx.MCDropout(samples=0)
    with pytest.raises(InputError, match="rate"):
        cx.MCDropout(rate=1.0)
