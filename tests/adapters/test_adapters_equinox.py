import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax.adapters import from_equinox
from credax.errors import InputError

pytestmark = pytest.mark.slow


class Block(eqx.Module):
    layers: list
    norm: eqx.nn.BatchNorm
    order: jax.Array
    dropout: eqx.nn.Dropout

    def __init__(self, key, axis_name="batch"):
        one, two, three = jax.random.split(key, 3)
        self.layers = [eqx.nn.Linear(4, 8, key=one), eqx.nn.Linear(8, 3, key=two)]
        self.norm = eqx.nn.BatchNorm(8, axis_name, mode="batch")
        self.order = jax.random.randint(three, (8,), 0, 8)
        self.dropout = eqx.nn.Dropout(0.5)

    def __call__(self, x, state, *, key=None):
        x, state = self.norm(self.layers[0](x)[self.order], state)
        return self.layers[1](self.dropout(jnp.tanh(x), key=key)), state


def equinox_alone(x, key):
    """One training step written with Equinox alone: outputs, new state, module to evaluate."""
    module, state = eqx.nn.make_with_state(Block)(jax.random.key(0))
    step = jax.vmap(
        lambda row, key: module(row, state, key=key), axis_name="batch", out_axes=(0, None)
    )
    return *step(x, jax.random.split(key, len(x))), eqx.nn.inference_mode(module)


@pytest.mark.parametrize("make", [Block, eqx.nn.make_with_state(Block)], ids=["plain", "pair"])
def test_a_training_step_equals_equinox_alone(make, x):
    network = from_equinox(make)
    variables = network.init(jax.random.key(0), x)
    wanted, wanted_state, model = eqx.filter_jit(equinox_alone)(x, jax.random.key(1))
    step = jax.jit(lambda v: network.apply(v, x, key=jax.random.key(1), train=True))
    outputs, state = step(variables)
    np.testing.assert_allclose(outputs, wanted, rtol=1e-6, atol=1e-6)
    mean, variance = wanted_state.get(model.norm.batch_state_index)
    np.testing.assert_allclose(state["norm"]["batch_state_index"]["0"], mean, rtol=1e-6)
    np.testing.assert_allclose(state["norm"]["batch_state_index"]["1"], variance, rtol=1e-6)
    assert int(state["norm"]["batch_counter"]) == 1

    evaluated = jax.vmap(lambda row: model(row, wanted_state)[0])(x)
    outputs, _ = network.apply(variables._replace(state=state), x)
    np.testing.assert_allclose(outputs, evaluated, rtol=1e-5, atol=1e-6)


def test_integers_drawn_from_the_key_are_state_and_stay(x):
    network = from_equinox(Block)
    keys = jax.random.split(jax.random.key(5), 3)
    variables = jax.jit(jax.vmap(network.init, (0, None)))(keys, x)
    orders = variables.state["order"]
    assert len({tuple(order.tolist()) for order in orders}) == 3
    assert set(variables.params) == {"layers", "norm"}
    assert set(variables.params["norm"]) == {"weight", "bias"}
    state = jax.vmap(lambda v, key: network.apply(v, x, key=key, train=True)[1], in_axes=(0, None))(
        variables, keys[0]
    )
    np.testing.assert_array_equal(state["order"], orders)


def test_a_ready_module_is_refused_unless_fixed(x):
    module = eqx.nn.Linear(4, 3, key=jax.random.key(0))
    with pytest.raises(InputError, match=r"make is a ready module.*fixed=True"):
        from_equinox(module)
    network = from_equinox(module, fixed=True)
    variables = jax.vmap(network.init, (0, None))(jax.random.split(jax.random.key(1), 2), x)
    np.testing.assert_array_equal(variables.params["weight"], jnp.stack([module.weight] * 2))
    one = network.init(jax.random.key(9), x)
    np.testing.assert_allclose(network.apply(one, x)[0], jax.vmap(module)(x), rtol=1e-6)


def test_a_ready_pair_keeps_its_state(x):
    model, state = eqx.nn.make_with_state(Block)(jax.random.key(0))
    state = state.set(model.norm.batch_counter, jnp.array(7))
    network = from_equinox((model, state), fixed=True)
    variables = network.init(jax.random.key(1), x)
    assert int(variables.state["norm"]["batch_counter"]) == 7
    wanted = jax.vmap(lambda row: eqx.nn.inference_mode(model)(row, state)[0])(x)
    np.testing.assert_allclose(network.apply(variables, x)[0], wanted, rtol=1e-5, atol=1e-6)


def test_a_ready_module_without_its_state_is_refused():
    module, _ = eqx.nn.make_with_state(Block)(jax.random.key(0))
    with pytest.raises(InputError, match="initial state was taken out; give the whole pair"):
        from_equinox(module, fixed=True)


def test_python_and_numpy_numbers_become_arrays(x):
    class Counter(eqx.Module):
        scale: np.ndarray
        calls: eqx.nn.StateIndex

        def __call__(self, x, state):
            return self.scale * x, state.set(self.calls, state.get(self.calls) + 1)

    network = from_equinox(lambda key: Counter(np.float32([2.0]), eqx.nn.StateIndex(0)))
    variables = network.init(jax.random.key(0), x)
    outputs, state = network.apply(variables, x, train=True)
    np.testing.assert_array_equal(outputs, 2 * x)
    assert isinstance(variables.params["scale"], jax.Array)
    assert int(state["calls"]) == 1


def test_another_axis_name(x):
    network = from_equinox(lambda key: Block(key, "rows"), axis_name="rows")
    assert network.apply(network.init(jax.random.key(0), x), x)[0].shape == (7, 3)
    with pytest.raises(InputError, match=r"axis_name is 'batch', but a BatchNorm of Block.*'rows'"):
        from_equinox(lambda key: Block(key, "rows"))


def linear(key):
    return eqx.nn.Linear(4, 3, key=key)


class NoCall(eqx.Module):
    weight: jax.Array


class Holder(eqx.Module):
    value: object

    def __call__(self, x):
        return x


@pytest.mark.parametrize(
    ("make", "keywords", "message"),
    [
        (3, {}, r"make is of type int; give a function make\(key\) -> eqx.Module"),
        (lambda: None, {}, r"make is <lambda>\(\); give a function make\(key\)"),
        (lambda key: {}, {}, "make returned a dict; it must return an eqx.Module"),
        (linear, {"fixed": True}, r"make is linear\(key\); give a ready module with fixed=True"),
        (lambda key: NoCall(jnp.ones(2)), {}, "NoCall has no __call__ method"),
        (
            lambda key: Holder(eqx.nn.StateIndex(jnp.zeros(2))),
            {},
            r"Holder.__call__ does not take \(x, state\), because it has stateful layers",
        ),
        (lambda key: Holder(eqx.nn.Dropout(0.5)), {}, "Holder holds a Dropout.*takes no 'key'"),
        (lambda key: Holder(jnp.ones(2, complex)), {}, "array 'value' has dtype complex64"),
        (lambda key: Holder(key), {}, "array 'value' has dtype key<fry>.*pass a random key"),
    ],
)
def test_bad_use_is_one_sentence(make, keywords, message):
    with pytest.raises(InputError, match=message):
        from_equinox(make, **keywords)


def test_variables_of_another_network_are_refused(x):
    network = from_equinox(linear)
    variables = from_equinox(Block).init(jax.random.key(0), x)
    with pytest.raises(InputError, match="variables have no array 'weight'"):
        network.apply(variables, x)


def test_other_errors_come_through_as_they_are(x):
    network = from_equinox(linear)
    with pytest.raises(TypeError, match="dot_general"):
        network.apply(network.init(jax.random.key(0), x), x[:, :2])
