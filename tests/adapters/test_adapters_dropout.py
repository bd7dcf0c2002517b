import jax
import jax.numpy as jnp
import numpy as np
import pytest
from adapter_networks import RATE, dropout

from credax.errors import InputError

pytestmark = pytest.mark.slow

DROPOUTS = ["equinox", "nnx", "nnx-rngs", "linen", "haiku"]


@pytest.mark.parametrize("library", DROPOUTS)
def test_training_drops_a_share_chosen_by_the_key_and_scales_the_rest(library):
    network = dropout(library)
    x = jnp.ones((200, 50))
    variables = network.init(jax.random.key(0), x)
    assert jax.tree.leaves(variables) == []
    run = jax.jit(lambda key: network.apply(variables, x, key=key, train=True)[0])
    keys = jnp.stack([jax.random.key(1), jax.random.key(1), jax.random.key(2)])
    one, again, other = np.asarray(jax.vmap(run)(keys))
    np.testing.assert_array_equal(one, again)
    assert np.any(one != other)
    np.testing.assert_array_equal(other, run(keys[2]))

    kept = one != 0
    np.testing.assert_allclose(one[kept], 1 / (1 - RATE), rtol=1e-6)
    # five standard deviations of the mean of 10,000 coins
    assert abs(kept.mean() - (1 - RATE)) < 5 * np.sqrt(RATE * (1 - RATE) / kept.size)
    assert len(np.unique(kept, axis=0)) == 200  # every row has a mask of its own


@pytest.mark.parametrize("library", DROPOUTS)
def test_evaluation_needs_no_key_and_ignores_one(library, x):
    network = dropout(library)
    variables = network.init(jax.random.key(0), x)
    np.testing.assert_array_equal(network.apply(variables, x)[0], x)
    np.testing.assert_array_equal(network.apply(variables, x, key=jax.random.key(1))[0], x)


@pytest.mark.parametrize("library", DROPOUTS)
def test_training_without_a_key_asks_for_one(library, x):
    network = dropout(library)
    variables = network.init(jax.random.key(0), x)
    with pytest.raises(InputError, match=r"key is None, but .* give apply a key"):
        network.apply(variables, x, train=True)
    with pytest.raises(InputError, match="key is None"):
        jax.jit(lambda v: network.apply(v, x, train=True))(variables)
