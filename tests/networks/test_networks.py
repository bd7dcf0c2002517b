"""Whole networks: shapes, published sizes, modes, precision, names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax import networks
from credax.errors import InputError
from credax.network import Network, count_params

KEY = jax.random.key(0)

SMALL = {
    "mlp": networks.MLP((7, 5), outputs=3, norm="batch"),
    "ntk mlp": networks.MLP((7,), outputs=3, activation="tanh", parameterisation="ntk"),
    "layer mlp": networks.MLP([6], outputs=3, norm="layer"),  # pyright: ignore[reportArgumentType]
    "cnn": networks.CNN(3, channels=(4, 8), dense=6),
    "lenet5": networks.LeNet5(3, activation="relu", pool="max"),
    "basic": networks.ResNet(3, widths=(4, 8), blocks=(1, 1), stem=4),
    "padded": networks.ResNet(3, widths=(4, 8), blocks=(1, 1), stem=4, padded_shortcuts=True),
    "bottleneck": networks.ResNet(
        3, widths=(8, 16), blocks=(1, 1), stem=4, block="bottleneck", norm="group"
    ),
    "preactivated": networks.ResNet(
        3, widths=(4, 8), blocks=(2, 1), stem=4, block="preactivated", dropout=0.2
    ),
    "frn": networks.ResNet(3, widths=(4, 8), blocks=(1, 1), stem=4, norm="frn"),
    "frn silu": networks.ResNet(
        3, (4, 8), (1, 1), 4, norm="frn", activation="silu", padding="CENTRED"
    ),
    "optunet": networks.OptuNet(3, activation="leaky-relu", padding="SAME"),
}


QUICK = {"mlp", "ntk mlp", "layer mlp", "cnn", "padded"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in SMALL]
)
def test_a_network_keeps_its_promises(name):
    network, size = SMALL[name], 16
    x = jax.random.normal(KEY, (4, size, size, 1))
    keys = jax.random.split(KEY, 2)
    example = jax.ShapeDtypeStruct((1, size, size, 1), x.dtype)
    # Not compiled as a whole: kernels of one shape, in all networks, share their small programs.
    variables = network.init(keys[0], example)
    both = jax.vmap(lambda key: network.init(key, x))(keys)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b[0]), variables, both)
    assert isinstance(network, Network)
    assert network == SMALL[name]
    assert jax.tree.leaves(network) == []

    apply = jax.jit(lambda v, x: network.apply(v, x))
    outputs, state = apply(variables, x)
    assert outputs.shape == (4, 3)
    jax.tree.map(np.testing.assert_array_equal, state, variables.state)
    np.testing.assert_allclose(apply(variables, x[1:2])[0][0], outputs[1], rtol=1e-4, atol=1e-5)

    def loss(params):
        outputs, state = network.apply(
            type(variables)(params, variables.state), x, key=KEY, train=True
        )
        return jnp.sum(jax.nn.log_softmax(outputs)[:, 0]), state

    gradient, state = jax.jit(jax.grad(loss, has_aux=True))(variables.params)
    leaves = jax.tree.leaves(gradient)
    assert all(bool(jnp.isfinite(leaf).all()) for leaf in leaves)
    assert all(bool(jnp.any(leaf != 0)) for leaf in leaves) or "frn" in name
    assert jax.tree.structure(state) == jax.tree.structure(variables.state)
    if variables.state:
        assert any(
            bool(jnp.any(a != b))
            for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(variables.state), strict=True)
        )


# Convolutions, norms (two numbers per channel) and head, added up by hand or as published.
PUBLISHED = {
    "mlp": (28, 1, 784 * 64 + 64 + 64 * 64 + 64 + 650),
    "lenet5": (28, 1, 61_706),
    "optunet": (28, 1, 2 * 16 + 10 * 25 + 33 + 40),
    "cnn": (28, 1, 320 + 18_496 + 3136 * 128 + 128 + 1290),
    "resnet18": (32, 3, 11_173_962),
    "resnet20": (32, 3, 269_722),
    "resnet50": (32, 3, 23_520_842),
    "wide-resnet-16-4": (32, 3, 2_748_890),
    "wide-resnet-28-10": (32, 3, 36_479_194),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_are_the_published_ones(name):
    side, channels, expected = PUBLISHED[name]
    x = jax.ShapeDtypeStruct((2, side, side, channels), jnp.float32)
    network = networks.build(name, 10)
    variables = jax.eval_shape(network.init, KEY, x)
    assert count_params(variables) == expected


def test_preactivated_resnet18_has_no_norm_on_shortcuts_but_a_last_one():
    x = jax.ShapeDtypeStruct((1, 32, 32, 3), jnp.float32)
    plain, pre = (
        jax.eval_shape(networks.build(name, 10).init, KEY, x)
        for name in ("resnet18", "preact-resnet18")
    )
    norms = 2 * (64 + 2 * 2 * 64 + 2 * 2 * (128 + 256 + 512) + 128 + 256 + 512)
    pre_norms = 2 * ((64 + 3 * 64) + (64 + 3 * 128) + (128 + 3 * 256) + (256 + 3 * 512) + 512)
    assert count_params(plain) - count_params(pre) == norms - pre_norms


SLOW = pytest.mark.slow


@pytest.mark.parametrize("name", ["mlp", "cnn", "lenet5", pytest.param("resnet20", marks=SLOW)])
def test_zero_head_gives_zero_outputs(name):
    x = jax.random.normal(KEY, (2, 16, 16, 1))
    network = networks.build(name, 4, zero_head=True)
    outputs, _ = jax.jit(network.apply)(network.init(KEY, x), x)
    np.testing.assert_array_equal(outputs, 0)


def test_ntk_zero_head_gives_zero_outputs():
    network = networks.MLP((5,), 2, zero_head=True, parameterisation="ntk")
    x = jnp.ones((3, 4))
    np.testing.assert_array_equal(network.apply(network.init(KEY, x), x)[0], 0)


@pytest.mark.parametrize("name", ["mlp", "cnn", "padded", "frn"])
def test_float64_in_float64_throughout(name):
    with jax.enable_x64(True):
        x = jax.ShapeDtypeStruct((2, 16, 16, 1), jnp.float64)
        network = SMALL[name]
        variables = jax.eval_shape(network.init, KEY, x)
        results = jax.eval_shape(lambda v, x: network.apply(v, x, train=True), variables, x)
        assert {a.dtype for a in jax.tree.leaves((variables, results))} == {x.dtype}


def test_relu_before_or_after_pooling_is_the_same_network():
    x = jax.random.normal(KEY, (2, 8, 8, 1))
    network = networks.CNN(2, channels=(3,), dense=4)
    variables = network.init(KEY, x)
    params = variables.params
    y = jax.nn.relu(networks.convolve(x, params["0_conv"]["kernel"], implementation="native"))
    y = y.reshape(2, 4, 2, 4, 2, 3).max((2, 4)).reshape(2, -1)
    y = jax.nn.relu(y @ params["1_dense"]["kernel"]) @ params["2_dense"]["kernel"]
    np.testing.assert_allclose(network.apply(variables, x)[0], y, rtol=1e-4, atol=1e-5)


def test_every_name_builds_and_is_described():
    for name in networks.names():
        assert isinstance(networks.build(name, 3), Network)
        assert networks.describe(name)
        assert "outputs" not in networks.options(name)


def test_build_takes_options_and_explains_wrong_ones():
    assert networks.build("mlp", 2, hidden=8) == networks.MLP((8,), 2)
    assert networks.build("wide-resnet-22-2", 5) == networks.WideResNet(22, 2, 5)
    assert networks.build("wide-resnet", 5, depth=10, widen=1, norm="frn") == networks.WideResNet(
        10, 1, 5, norm="frn"
    )
    with pytest.raises(InputError, match="did you mean 'resnet20'"):
        networks.build("resnet-20", 10)
    with pytest.raises(InputError, match=r"option of network 'mlp' 'hiden'; did you mean 'hidden'"):
        networks.build("mlp", 10, hiden=(3,))
    with pytest.raises(InputError, match="did you mean 'batch'"):
        networks.build("resnet20", 10, norm="batchnorm")
    with pytest.raises(InputError, match="depth is 15"):
        networks.build("wide-resnet-15-4", 10)
    with pytest.raises(InputError, match="did you mean 'relu'"):
        networks.build("cnn", 10, activation="relo")
    with pytest.raises(InputError, match="dropout"):
        networks.ResNet(2, widths=(4,), blocks=(1,), stem=4, dropout=0.1)
    with pytest.raises(InputError, match="one number per stage"):
        networks.ResNet(2, widths=(4, 8), blocks=(1,), stem=4)
