import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax.adapters import from_linen
from credax.errors import InputError
from credax.network import Variables

pytestmark = pytest.mark.slow


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool):
        x = nn.BatchNorm(use_running_average=not train)(nn.Dense(8)(x))
        x = nn.Dropout(0.5, deterministic=not train)(jnp.tanh(x))
        return nn.Dense(3)(x)


def test_init_and_apply_equal_linen_alone(x):
    network, module, key = from_linen(Block()), Block(), jax.random.key(0)
    variables = network.init(key, x)
    alone = module.init(key, x, train=False)
    jax.tree.map(np.testing.assert_array_equal, variables.params, alone["params"])
    jax.tree.map(
        np.testing.assert_array_equal, variables.state, {"batch_stats": alone["batch_stats"]}
    )
    np.testing.assert_array_equal(
        network.apply(variables, x)[0], module.apply(alone, x, train=False)
    )
    _, state = network.apply(variables, x, key=jax.random.key(1), train=True)
    _, updated = module.apply(
        alone, x, train=True, rngs={"dropout": jax.random.key(2)}, mutable=["batch_stats"]
    )
    jax.tree.map(np.testing.assert_array_equal, state, updated)


class Modes(nn.Module):
    def __call__(self, x, train, training, is_training, deterministic, use_running_average):
        modes = train, training, is_training, deterministic, use_running_average
        return jnp.array(modes, float)


class HiddenModes(nn.Module):
    def __call__(self, x, **keywords):
        return jnp.array([keywords[name] for name in sorted(keywords)], float)


def test_mode_arguments_are_found_and_given_the_right_way_round(x):
    network = from_linen(Modes())
    assert network.apply(Variables({}), x, train=True)[0].tolist() == [1, 1, 1, 0, 0]
    assert network.apply(Variables({}), x, train=False)[0].tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(("name", "training"), [("train", 1.0), ("deterministic", 0.0)])
def test_a_named_mode_argument_reaches_hidden_keywords(name, training, x):
    network = from_linen(HiddenModes(), train_argument=name)
    assert network.apply(Variables({}), x, train=True)[0].tolist() == [training]
    assert network.apply(Variables({}), x, train=False)[0].tolist() == [1 - training]


def test_several_streams_have_keys_of_their_own(x):
    class Noise(nn.Module):
        @nn.compact
        def __call__(self, x):
            one = jax.random.normal(self.make_rng("dropout"), x.shape)
            return one, jax.random.normal(self.make_rng("noise"), x.shape)

    network = from_linen(Noise(), streams=("dropout", "noise"))
    variables = network.init(jax.random.key(0), x)
    one, two = network.apply(variables, x, key=jax.random.key(1))[0]
    assert np.all(one != two)
    with pytest.raises(InputError, match="key is None, but Noise draws random numbers"):
        network.apply(variables, x)


def test_metadata_boxes_are_taken_off(x):
    kernel = nn.with_partitioning(nn.initializers.lecun_normal(), ("in", "out"))
    network = from_linen(nn.Dense(3, kernel_init=kernel))
    variables = network.init(jax.random.key(0), x)
    assert isinstance(variables.params["kernel"], jax.Array)
    plain = from_linen(nn.Dense(3)).init(jax.random.key(0), x)
    np.testing.assert_array_equal(variables.params["kernel"], plain.params["kernel"])
    wanted = x @ variables.params["kernel"] + variables.params["bias"]
    np.testing.assert_allclose(network.apply(variables, x)[0], wanted, rtol=1e-5, atol=1e-6)


class Integers(nn.Module):
    @nn.compact
    def __call__(self, x):
        return x + self.param("shift", lambda key: jnp.arange(4))


class NoCall(nn.Module):
    features: int = 3


class TwoInputs(nn.Module):
    def __call__(self, x, y):
        return x + y


@pytest.mark.parametrize(
    ("module", "keywords", "message"),
    [
        (nn.Dense, {}, r"module is Dense\(.*\); give a flax.linen.Module"),
        (lambda x: x, {}, r"module is <lambda>\(x\); give a flax.linen.Module"),
        (NoCall(), {}, "NoCall has no __call__ method"),
        (TwoInputs(), {}, r"TwoInputs.__call__ does not take \(x\)"),
        (
            nn.Dense(3),
            {"train_argument": "train"},
            r"train_argument is 'train', but Dense.__call__ takes \(inputs\)",
        ),
        (Block(), {"train_argument": "trian"}, "unknown train_argument 'trian'; did you mean"),
    ],
)
def test_bad_use_is_one_sentence(module, keywords, message):
    with pytest.raises(InputError, match=message):
        from_linen(module, **keywords)


def test_integer_parameters_are_refused(x):
    with pytest.raises(InputError, match=r"parameter 'shift' has dtype int32.*self.variable"):
        from_linen(Integers()).init(jax.random.key(0), x)


def test_state_that_changes_outside_training_is_refused(x):
    network = from_linen(nn.Sequential([nn.Dense(4), nn.BatchNorm(use_running_average=False)]))
    variables = network.init(jax.random.key(0), x)
    with pytest.raises(InputError, match="Sequential changes its state outside training"):
        network.apply(variables, x)
