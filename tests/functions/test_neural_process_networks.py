"""Networks of neural processes: sets have no order, padding no influence, bounds their side."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.functions.episodes import Episode, draw_context
from credax.functions.grid_network import Axis, GridNetwork
from credax.functions.process_descent import Form, ProcessDescent, Trained, latent_kl
from credax.functions.process_network import Points, SetNetwork
from credax.functions.set_layers import attend, init_attention

SIZES = {"hidden": 8, "encoder_layers": 2, "decoder_layers": 1}
NETWORKS = {
    "cnp": SetNetwork(**SIZES),
    "sum": SetNetwork(**SIZES, aggregate="sum"),
    "np": SetNetwork(**SIZES, latent_size=3),
    "anp": SetNetwork(**SIZES, latent_size=3, attention="multihead", heads=2, self_attention=True),
    "convcnp": GridNetwork(axes=(Axis(-2.0, 0.5, 9),), hidden=4, blocks=1, kernel_size=3),
}
PROBLEM = cx.Problem(cx.networks.MLP((1,), outputs=2), cx.HeteroscedasticGaussian())
RNG = np.random.default_rng(0)
X, V = RNG.uniform(-2, 2, (2, 6, 1)), RNG.normal(size=(2, 6, 1))
Z = RNG.normal(size=(2, 3))


def parameters(network, key=0):
    """Random parameters without the zeros of a new network, in double precision."""
    params = network.init(jax.random.key(key), 1, 1, 2)
    noise = lambda p: p + 0.1 * np.random.default_rng(1).normal(size=p.shape)  # noqa: E731
    return jax.tree.map(noise, params)


def outputs(network, params, x, v, mask, targets):
    points = Points(*map(jnp.asarray, (x, v, mask)))
    z = jnp.asarray(Z[:, : network.latent_size])
    if network.latent_size:
        q = network.latent(params, points)
        z = q.mean + q.std * z
    return np.asarray(
        network.outputs(params, network.condition(params, points), z, jnp.asarray(targets))
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_order_padding_and_empty_contexts(name, float64):
    """Fails where a sum runs over padding, or a position in the array matters."""
    network = NETWORKS[name]
    params = parameters(network)
    mask = np.array([[1, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0]], bool)
    targets = RNG.uniform(-2, 2, (2, 4, 1))
    found = outputs(network, params, X, V, mask, targets)
    order, other = np.array([4, 1, 5, 0, 3, 2]), np.array([2, 0, 3, 1])
    shuffled = outputs(network, params, X[:, order], V[:, order], mask[:, order], targets)
    np.testing.assert_allclose(shuffled, found, atol=1e-6)
    turned = outputs(network, params, X, V, mask, targets[:, other])
    np.testing.assert_allclose(turned, found[:, other], atol=1e-6)
    # What stands at points that are not there, and how many of them there are, changes nothing.
    wide = lambda a, value: np.concatenate([a, np.full((2, 3, 1), value)], axis=1)  # noqa: E731
    junk = [np.where(mask[..., None], a, 7.0) for a in (X, V)]
    padded = np.concatenate([mask, np.zeros((2, 3), bool)], axis=1)
    for value in (0.0, 50.0):
        again = outputs(network, params, *(wide(a, value) for a in junk), padded, targets)
        np.testing.assert_allclose(again, found, rtol=0, atol=1e-12)
    assert np.isfinite(found).all()


def test_uniform_attention_is_the_mean(float64):
    """Whole networks, and multihead attention whose queries have weight zero."""
    mean = SetNetwork(**SIZES, latent_size=3)
    uniform = SetNetwork(**SIZES, latent_size=3, attention="uniform", heads=2)
    params = parameters(mean)
    mask = RNG.random((2, 6)) < 0.7
    same = [outputs(network, params, X, V, mask, X) for network in (mean, uniform)]
    np.testing.assert_array_equal(*same)
    attention = init_attention(jax.random.key(2), 8)
    attention["query"] = jax.tree.map(jnp.zeros_like, attention["query"])
    values = jnp.asarray(RNG.normal(size=(2, 6, 8)))
    found = attend(attention, values[:, :3], values, values, jnp.asarray(mask), 2)
    whole = np.sum(np.where(mask[..., None], values, 0), 1) / mask.sum(1)[:, None]
    projected = whole @ attention["value"]["weight"] @ attention["out"]["weight"]
    np.testing.assert_allclose(found, np.repeat(np.asarray(projected)[:, None], 3, 1), atol=1e-12)


@pytest.mark.parametrize(
    ("how", "knows"), [("mean", False), ("mean_and_count", True), ("sum", True)]
)
def test_a_mean_does_not_know_how_many_points_there_are(how, knows, float64):
    """Every point twice: more evidence, of which a mean sees nothing at all."""
    network = SetNetwork(**SIZES, aggregate=how)
    params, mask = parameters(network), np.ones((2, 6), bool)
    once = outputs(network, params, X, V, mask, X)
    twice = [np.concatenate([a, a], axis=1) for a in (X, V, mask)]
    again = outputs(network, params, *twice, X)
    assert (np.abs(again - once).max() > 1e-3) == knows


def descent(network, objective="elbo", samples=1):
    form = Form(True, 1, 1, 2, 0, 3)
    training = cx.Training(1, 2, optimiser="adam", learning_rate=1e-3)
    return ProcessDescent(PROBLEM, training, 2, network, form, 0.1, objective, samples, 4)


def episode(context):
    present = np.ones((2, 6), bool)
    arrays = X, V, V[..., 0], present, context, present, np.ones(2)
    return Episode(*map(jnp.asarray, arrays))


def test_the_evidence_bound_is_below_the_likelihood(float64):
    """ELBO ≤ log mean_z p(y | z) for every task, within errors of many draws."""
    network = SetNetwork(**SIZES, latent_size=2)
    trained = Trained(parameters(network), {})
    own = episode(np.arange(6) < np.array([[2], [0]]))
    elbo, kl = descent(network, "elbo", 4096).objectives(trained, own, jax.random.key(0))
    npml, nothing = descent(network, "npml", 4096).objectives(trained, own, jax.random.key(1))
    assert (np.asarray(elbo) <= np.asarray(npml) + 0.01).all()
    assert (np.asarray(kl) > 0).all()
    assert not np.asarray(nothing).any()


def test_the_divergence_is_zero_where_all_points_are_context(float64):
    network = SetNetwork(**SIZES, latent_size=3)
    params, own = parameters(network), episode(np.ones((2, 6), bool))
    one, other = (network.latent(params, points) for points in (own.given, own.whole))
    np.testing.assert_allclose(latent_kl(one, other), 0, atol=1e-12)
    assert (np.asarray(one.std) >= 0.1).all()


def test_padding_changes_neither_loss_nor_gradient(float64):
    """With NaN where a task has no point, as in a data set of tasks."""
    from credax.functions.episodes import as_tasks

    network = SetNetwork(**SIZES, latent_size=3)
    trained, own = Trained(parameters(network), {}), descent(network)
    context = np.arange(6) < 2

    def found(pad):
        x = np.concatenate([X, np.zeros((2, pad, 1))], axis=1)
        y = np.concatenate([V[..., 0], np.full((2, pad), np.nan)], axis=1)
        batch = PROBLEM.prepare(jnp.asarray(x), jnp.asarray(y))
        x, y, present, weight = as_tasks(batch, True)
        given = jnp.asarray(np.concatenate([context, np.zeros(pad, bool)])) & present
        one = Episode(x, y[..., None], y, present, given, present, weight)
        return jax.jit(jax.grad(lambda t: own.loss(t, one, jax.random.key(0))[0]))(trained)

    for a, b in zip(jax.tree.leaves(found(0)), jax.tree.leaves(found(4)), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def test_contexts_are_random_subsets_of_points_that_are_there():
    present = jnp.asarray(np.arange(8) < np.array([[8], [3]]))
    keys = jax.random.split(jax.random.key(0), 400)
    drawn = np.asarray(jax.vmap(lambda k: draw_context(k, present, 1, 5))(keys))
    assert not drawn[:, ~np.asarray(present)].any()
    sizes = drawn.sum(-1)
    assert set(sizes[:, 0]) == {1, 2, 3, 4, 5}
    assert set(sizes[:, 1]) == {1, 2, 3}
    np.testing.assert_allclose(drawn[:, 0].mean(0), 3 / 8, atol=0.1)  # 4 standard errors
