import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax.adapters import from_haiku
from credax.errors import InputError

pytestmark = pytest.mark.slow


def block(x, is_training):
    x = hk.BatchNorm(True, True, 0.9)(hk.Linear(8)(x), is_training)
    x = jnp.tanh(x)
    return hk.Linear(3)(hk.dropout(hk.next_rng_key(), 0.5, x) if is_training else x)


def test_init_and_apply_equal_haiku_alone(x):
    network, alone = from_haiku(block), hk.transform_with_state(block)
    variables = network.init(jax.random.key(0), x)
    params, state = alone.init(jax.random.key(0), x, True)
    jax.tree.map(np.testing.assert_array_equal, tuple(variables), (params, state))
    outputs = network.apply(variables, x, key=jax.random.key(1), train=True)
    wanted = alone.apply(params, state, jax.random.key(1), x, True)
    jax.tree.map(np.testing.assert_array_equal, outputs, wanted)
    outputs, kept = network.apply(variables, x)
    np.testing.assert_array_equal(outputs, alone.apply(params, state, None, x, False)[0])
    assert kept is variables.state


def test_averages_before_training_are_those_of_the_x_given_to_init(x):
    network = from_haiku(lambda x, is_training: hk.BatchNorm(False, False, 0.9)(x, is_training))
    given = network.init(jax.random.key(0), x).state["batch_norm/~/mean_ema"]["average"]
    np.testing.assert_allclose(given[0], np.mean(x, 0), rtol=1e-5)
    struct = jax.ShapeDtypeStruct(x.shape, x.dtype)
    shaped = network.init(jax.random.key(0), struct).state["batch_norm/~/mean_ema"]["average"]
    np.testing.assert_array_equal(shaped, jnp.zeros((1, 4)))


def test_the_mode_can_hide_in_keywords(x):
    network = from_haiku(
        lambda x, **mode: x * mode["deterministic"], train_argument="deterministic"
    )
    variables = network.init(jax.random.key(0), x)
    np.testing.assert_array_equal(network.apply(variables, x, train=True)[0], 0 * x)
    np.testing.assert_array_equal(network.apply(variables, x)[0], x)


@pytest.mark.parametrize(
    ("function", "keywords", "message"),
    [
        (3, {}, r"function is of type int; give a function\(x\) that uses haiku"),
        (hk.transform(block), {}, "function is already transformed"),
        (hk.transform_with_state(block), {}, "function is already transformed"),
        (lambda x, y: x, {}, r"function is <lambda>\(x, y\); it must be callable as function\(x\)"),
        (lambda x: x, {"train_argument": "train"}, r"'train', but <lambda>\(x\) takes \(x\)"),
    ],
)
def test_bad_use_is_one_sentence(function, keywords, message):
    with pytest.raises(InputError, match=message):
        from_haiku(function, **keywords)


def test_integer_parameters_are_refused(x):
    network = from_haiku(lambda x: x + hk.get_parameter("shift", (4,), jnp.int32, jnp.ones))
    with pytest.raises(InputError, match=r"parameter '~/shift' has dtype int32.*hk.get_state"):
        network.init(jax.random.key(0), x)
