"""BatchNorm alone: its training outputs and running statistics against each library's formula."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from adapter_networks import EPSILON, LIBRARIES, MOMENTUM, STATEFUL, batch_norm

from credax.files import load_tree, save_tree

pytestmark = pytest.mark.slow

close = {"rtol": 2e-5, "atol": 2e-5}


def moments(x):
    x = np.asarray(x, np.float64)
    return x.mean(0), x.var(0)


def normalised(x, mean, variance):
    return (np.asarray(x, np.float64) - mean) / np.sqrt(variance + EPSILON)


def running_moments(library, batches):
    """Mean and (biased) variance that evaluation uses after training on ``batches``."""
    statistics = [np.stack(moments(batch)) for batch in batches]
    start = np.array([[0.0] * 4, [1.0] * 4]) if library != "haiku" else np.zeros((2, 4))
    if library == "equinox-ema":
        start = statistics[0]
    kept = start
    for batch in statistics[1 if library == "equinox-ema" else 0 :]:
        kept = MOMENTUM * kept + (1 - MOMENTUM) * batch
    if library in ("equinox", "haiku"):
        kept = kept / (1 - MOMENTUM ** len(batches))
    return kept


@pytest.mark.parametrize("library", STATEFUL)
def test_running_statistics_follow_the_library(library, x):
    network = batch_norm(library)
    struct = jax.ShapeDtypeStruct(x.shape, x.dtype)
    variables = network.init(jax.random.key(0), struct)
    batches = jnp.stack([x, 3 * x + 1, x**2])

    @jax.jit
    def train(state):
        def step(state, batch):
            outputs, state = network.apply(variables._replace(state=state), batch, train=True)
            return state, (outputs, network.apply(variables._replace(state=state), x)[0])

        return jax.lax.scan(step, state, batches)

    _, (trained, evaluated) = train(variables.state)
    for i, batch in enumerate(batches):
        running = running_moments(library, batches[: i + 1])
        # Equinox's "ema" normalises by the running average in training too
        used = running if library == "equinox-ema" else moments(batch)
        np.testing.assert_allclose(trained[i], normalised(batch, *used), **close)
        np.testing.assert_allclose(evaluated[i], normalised(x, *running), **close)


@pytest.mark.parametrize("library", LIBRARIES[1:])
def test_evaluation_changes_no_state_and_rows_do_not_see_each_other(library, x, tmp_path):
    network = batch_norm(library)
    variables = network.init(jax.random.key(0), x)
    trained = network.apply(variables, x, train=True)[1]
    assert jax.tree.structure(trained) == jax.tree.structure(variables.state)
    differences = jax.tree.map(lambda a, b: bool(jnp.any(a != b)), trained, variables.state)
    assert any(jax.tree.leaves(differences))
    save_tree(tmp_path / "state.safetensors", trained)
    restored, _ = load_tree(tmp_path / "state.safetensors", jax.eval_shape(lambda: trained))
    variables = variables._replace(state=jax.tree.map(jnp.asarray, restored))
    outputs, state = network.apply(variables, x, train=False)
    jax.tree.map(np.testing.assert_array_equal, state, trained)
    np.testing.assert_allclose(network.apply(variables, x[2:3])[0], outputs[2:3], **close)


@pytest.mark.parametrize("library", LIBRARIES[1:])
def test_state_has_member_axes_like_params(library, x):
    network = batch_norm(library)
    keys = jax.random.split(jax.random.key(0), 3)
    xs = jnp.stack([x, 2 * x, x + 1])
    variables = jax.vmap(network.init, (0, None))(keys, x)
    step = jax.jit(jax.vmap(lambda v, x: network.apply(v, x, train=True)))
    outputs, states = step(variables, xs)
    for i, key in enumerate(keys):
        alone, state = network.apply(network.init(key, x), xs[i], train=True)
        np.testing.assert_allclose(outputs[i], alone, **close)
        for a, b in zip(jax.tree.leaves(states), jax.tree.leaves(state), strict=True):
            np.testing.assert_allclose(a[i], b, **close)


@pytest.mark.parametrize("library", LIBRARIES[1:])
def test_gradients_flow_through_the_batch_statistics(library, x):
    network = batch_norm(library)
    variables = network.init(jax.random.key(0), x)

    def outputs(x):
        return jnp.sum(network.apply(variables, x, train=True)[0] * jnp.arange(28.0).reshape(7, 4))

    def by_hand(x):
        z = (x - x.mean(0)) / jnp.sqrt(x.var(0) + EPSILON)
        return jnp.sum(z * jnp.arange(28.0).reshape(7, 4))

    np.testing.assert_allclose(
        jax.jit(jax.grad(outputs))(x), jax.jit(jax.grad(by_hand))(x), rtol=1e-3, atol=1e-4
    )
