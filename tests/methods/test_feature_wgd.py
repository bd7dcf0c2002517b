"""Feature repulsion: the shared classifier, and the projected repulsion against its definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.methods.repulsive.embeddings import Embedding
from credax.methods.repulsive.function_prior import FunctionPrior
from credax.methods.repulsive.repulsive import StepContext
from credax.methods.repulsive.updates import ProjectedUpdate
from credax.problem import Batch

pytestmark = pytest.mark.slow

PROBLEM = cx.Problem(cx.networks.MLP((8, 4), outputs=3), cx.Categorical(), weight_decay=1e-3)


@pytest.fixture(scope="module")
def trained(blobs):
    x, y = blobs
    training = cx.Training(epochs=3, batch_size=16)
    record = cx.FeatureWGD(members=3)
    return cx.fit(PROBLEM, record, Split(x, y), training=training, progress=False)


def test_all_members_share_one_classifier(trained):
    params = trained.variables.params
    head = PROBLEM.network.layers.names[-1]
    for leaf in jax.tree.leaves(params[head]):
        np.testing.assert_array_equal(leaf[0], leaf[1])
        np.testing.assert_array_equal(leaf[0], leaf[2])
    body = [leaf for name in params if name != head for leaf in jax.tree.leaves(params[name])]
    assert any(np.abs(leaf[0] - leaf[1]).max() > 1e-3 for leaf in body)


@pytest.mark.parametrize("bandwidth", ["squared_median", "median"])
@pytest.mark.parametrize("axes", ["leading", "trailing"])
def test_projected_force_by_its_definition(float64, axes, bandwidth):
    rng = np.random.default_rng(0)
    members, rows, width, kept = 4, 3, 5, 2
    z, slopes = rng.normal(size=(2, members, rows, width))
    batch = Batch(jnp.zeros((rows, 2)), jnp.zeros(rows, int), jnp.ones(rows))
    # to_space gives the likelihood's gradient of the mean loss; the repulsion uses that of the sum
    embedding = Embedding(None, jnp.asarray(z), {}, None, lambda out: jnp.asarray(slopes) / rows)
    context = StepContext(PROBLEM, batch, jax.random.split(jax.random.key(0), members), None, 60)
    update = ProjectedUpdate(kept, axes, bandwidth).update(
        embedding, jnp.ones(members, bool), context
    )
    flat, gradient = z.reshape(members, -1), slopes.reshape(members, -1)
    values, vectors = np.linalg.eigh(gradient @ gradient.T)
    order = np.argsort(values)[-kept:] if axes == "leading" else np.argsort(values)[:kept]
    basis = gradient.T @ vectors[:, order] / np.sqrt(values[order])
    np.testing.assert_allclose(basis.T @ basis, np.eye(kept), atol=1e-10)
    places = flat @ basis
    expected = np.zeros_like(flat)
    for i in range(members):
        d2 = ((places[i] - places) ** 2).sum(1)
        h = np.median(d2) ** (2 if bandwidth == "squared_median" else 1) / np.log(members) + 1e-12
        k = np.exp(-d2 / h)
        expected[i] = -basis @ ((2 / h) * (places[i] - k @ places / k.sum()))
    np.testing.assert_allclose(update.cotangent.reshape(members, -1), expected, rtol=1e-8)


def test_cauchy_prior_is_the_gradient_of_its_logarithm(float64):
    z = jnp.asarray(np.random.default_rng(1).normal(size=(2, 3, 4)) * 5)
    exact = jax.grad(lambda u: -jnp.sum(jnp.log1p(0.3 * jnp.square(u))))(z)
    np.testing.assert_allclose(
        FunctionPrior("cauchy", 0.3).score(z, None, jnp.ones(2, bool)), exact, atol=1e-12
    )


def test_a_network_without_a_known_last_layer_is_refused(blobs):
    x, y = blobs
    network = cx.FunctionNetwork(lambda k, x: {"w": jnp.zeros((2, 3))}, lambda p, x: x @ p["w"])
    problem = cx.Problem(network, cx.Categorical())
    training = cx.Training(epochs=1, batch_size=16)
    with pytest.raises(InputError, match="last layer is not known"):
        cx.fit(problem, cx.FeatureWGD(members=2), Split(x, y), training=training, progress=False)
