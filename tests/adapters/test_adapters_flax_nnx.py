import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from credax.adapters import from_nnx
from credax.errors import InputError
from credax.network import Variables


class Block(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(4, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.order = nnx.Variable(jax.random.randint(rngs.params(), (8,), 0, 8))
        self.calls = nnx.Variable(0)
        self.last = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x):
        self.calls.set_value(self.calls.get_value() + 1)
        hidden = jnp.tanh(self.norm(self.first(x)))[:, self.order[...]]
        return self.last(self.dropout(hidden))


def test_evaluation_and_statistics_equal_nnx_alone(x):
    network = from_nnx(Block)
    variables = network.init(jax.random.key(0), x)
    module = Block(nnx.Rngs(jax.random.key(0)))
    module.eval()
    np.testing.assert_allclose(network.apply(variables, x)[0], module(x), rtol=1e-6, atol=1e-6)
    module.train()
    module(x)
    _, state = network.apply(variables, x, key=jax.random.key(1), train=True)
    np.testing.assert_allclose(state["norm"]["mean"], module.norm.mean[...], rtol=1e-6)
    np.testing.assert_allclose(state["norm"]["var"], module.norm.var[...], rtol=1e-6)


def test_only_param_variables_are_trained_and_streams_are_neither(x):
    network = from_nnx(Block)
    keys = jax.random.split(jax.random.key(0), 3)
    variables = jax.jit(jax.vmap(network.init, (0, None)))(keys, x)
    assert set(variables.params) == {"first", "norm", "last"}
    assert set(variables.state) == {"norm", "order", "calls"}
    assert len({tuple(order.tolist()) for order in variables.state["order"]}) == 3


def test_a_python_number_in_a_variable_is_carried_through_a_scan(x):
    network = from_nnx(Block)
    variables = network.init(jax.random.key(0), x)

    def step(state, key):
        return network.apply(variables._replace(state=state), x, key=key, train=True)[::-1]

    state, _ = jax.lax.scan(step, variables.state, jax.random.split(jax.random.key(1), 4))
    assert int(state["calls"]) == 4


def test_every_stream_has_its_own_key(x):
    class Two(nnx.Module):
        def __init__(self, rngs):
            self.one = nnx.Dropout(0.5, rngs=rngs)
            self.two = nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, x):
            return jnp.stack([self.one(x), self.two(x)])

    one, two = from_nnx(Two).apply(
        Variables({}), jnp.ones((9, 9)), key=jax.random.key(0), train=True
    )[0]
    assert np.any(one != two)


def test_streams_with_a_shape_are_seeded_in_that_shape(x):
    class Split(nnx.Module):
        def __init__(self, rngs):
            self.streams = nnx.Rngs(rngs.noise()).split(3)

        def __call__(self, x):
            keys = self.streams.default.key[...]
            return x + jax.vmap(lambda key: jax.random.normal(key, x.shape))(keys)

    network = from_nnx(Split)
    outputs, _ = network.apply(network.init(jax.random.key(0), x), x, key=jax.random.key(1))
    assert np.any(outputs[0] != outputs[1])


def test_a_shared_layer_has_one_set_of_parameters(x):
    class Tied(nnx.Module):
        def __init__(self, rngs):
            self.once = nnx.Linear(4, 4, rngs=rngs)
            self.again = self.once

        def __call__(self, x):
            return self.again(self.once(x))

    network = from_nnx(Tied)
    variables = network.init(jax.random.key(0), x)
    assert len(jax.tree.leaves(variables.params)) == 2
    bias, kernel = sorted(jax.tree.leaves(variables.params), key=jnp.ndim)
    wanted = (x @ kernel + bias) @ kernel + bias
    np.testing.assert_allclose(network.apply(variables, x)[0], wanted, rtol=1e-5, atol=1e-6)


def test_a_call_that_takes_the_mode_is_given_it(x):
    class Mode(nnx.Module):
        def __init__(self, rngs):
            self.scale = nnx.Param(jnp.ones(()))

        def __call__(self, x, *, train, deterministic):
            return x + 2.0 * train + 1.0 * deterministic

    network = from_nnx(Mode)
    variables = network.init(jax.random.key(0), x)
    np.testing.assert_array_equal(network.apply(variables, x, train=True)[0], x + 2)
    np.testing.assert_array_equal(network.apply(variables, x, train=False)[0], x + 1)


def holder(make_value):
    class Holder(nnx.Module):
        def __init__(self, rngs):
            self.value = make_value()

        def __call__(self, x):
            return x

    return Holder


class NoCall(nnx.Module):
    def __init__(self, rngs):
        self.layer = nnx.Linear(2, 2, rngs=rngs)


class TwoInputs(nnx.Module):
    def __init__(self, rngs):
        pass

    def __call__(self, x, y):
        return x + y


@pytest.mark.parametrize(
    ("make", "message"),
    [
        ("net", r"make is of type str; give a function make\(rngs\) -> nnx.Module"),
        (lambda: None, r"make is <lambda>\(\); give a function make\(rngs\)"),
        (lambda rngs: 3, "make returned a int; it must return an nnx.Module"),
        (NoCall, "NoCall has no __call__ method"),
        (TwoInputs, r"TwoInputs.__call__ does not take \(x\)"),
        (holder(lambda: nnx.Param(jnp.arange(3))), "parameter 'value' has dtype int32"),
        (holder(lambda: jnp.ones(3)), "Holder keeps a bare array at 'value'; wrap it as nnx.Var"),
    ],
)
def test_bad_use_is_one_sentence(make, message):
    with pytest.raises(InputError, match=message):
        from_nnx(make)


def test_a_ready_module_is_refused():
    with pytest.raises(InputError, match=r"make is a ready Linear.*make\(rngs\) that builds it"):
        from_nnx(nnx.Linear(4, 3, rngs=nnx.Rngs(0)))
