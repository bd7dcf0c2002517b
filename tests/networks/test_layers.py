"""Layers against their equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax.errors import InputError
from credax.network import Network, Variables
from credax.networks import (
    Activation,
    AvgPool,
    BatchNorm,
    Conv,
    Dense,
    Dropout,
    FilterResponseNorm,
    Flatten,
    GlobalAveragePool,
    GroupNorm,
    MaxPool,
    Residual,
    Sequential,
    initialisers,
)

KEY = jax.random.key(0)
NOTHING = Variables({}, {})


def normal(*shape, seed=1):
    return jax.random.normal(jax.random.key(seed), shape)


def test_dense_is_affine():
    x = normal(4, 3)
    variables = Dense(2).init(KEY, x)
    params = {"kernel": variables.params["kernel"], "bias": jnp.array([1.0, -1.0])}
    outputs, _ = Dense(2).apply(Variables(params, {}), x)
    np.testing.assert_allclose(outputs, x @ params["kernel"] + params["bias"], rtol=1e-6)


def test_ntk_dense_puts_the_scales_in_the_forward_pass():
    dense = Dense(400, parameterisation="ntk", weight_std=2.0, bias_std=0.5)
    x = normal(1, 500)
    variables = dense.init(KEY, x)
    kernel, bias = variables.params["kernel"], variables.params["bias"]
    np.testing.assert_allclose(
        dense.apply(variables, x)[0],
        2 / jnp.sqrt(500) * x @ kernel + 0.5 * bias,
        rtol=1e-4,
        atol=1e-5,
    )
    assert abs(kernel.std() - 1) < 0.01
    assert abs(bias.std() - 1) < 0.1


@pytest.mark.parametrize(
    ("name", "variance"), [("he", 2.0), ("lecun", 1.0), ("truncated", 0.77374), ("zeros", 0.0)]
)
def test_kernel_variance_times_fan_in(name, variance):
    kernel = initialisers.kernel(name, KEY, (400, 500), 400, jnp.float32)
    assert abs(float(kernel.var() * 400) - variance) < 0.02
    assert float(jnp.abs(kernel).max()) <= 2.3 * np.sqrt(2 / 400)


def test_unknown_names_are_explained():
    with pytest.raises(InputError, match="did you mean 'relu'"):
        Activation("rellu")
    with pytest.raises(InputError, match="did you mean 'lecun'"):
        Dense(2, initialiser="lecunn").init(KEY, jnp.ones((1, 2)))
    with pytest.raises(InputError, match="parameterisation"):
        Dense(2, parameterisation="mup")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "layer", [Dense(2), Conv(2), BatchNorm(), FilterResponseNorm(), GroupNorm()]
)
def test_integers_are_refused(layer):
    with pytest.raises(InputError, match="uint8"):
        layer.init(KEY, jnp.zeros((1, 4, 4, 2), jnp.uint8))


def test_dropout_keeps_the_mean_and_needs_a_key():
    x = jnp.ones((100, 200))
    outputs, _ = Dropout(0.3).apply(NOTHING, x, key=KEY, train=True)
    np.testing.assert_allclose(np.unique(outputs), [0, 1 / 0.7], rtol=1e-6)
    assert abs(float(outputs.mean()) - 1) < 0.02
    assert Dropout(0.3).apply(NOTHING, x)[0] is x
    with pytest.raises(InputError, match="key"):
        Dropout(0.3).apply(NOTHING, x, train=True)
    with pytest.raises(InputError, match="rate is 1"):
        Dropout(1.0)


def reduce_window(x, window, stride, padding, start, function):
    shape = (1, window, window, 1), (1, stride, stride, 1)
    return jax.lax.reduce_window(x, start, function, *shape, padding)


@pytest.mark.parametrize("options", [(2, None, "VALID"), (3, None, "VALID"), (3, 2, "SAME")])
def test_max_pool_and_its_derivatives(options):
    window, stride, padding = options
    x, dx = normal(2, 6, 7, 3), normal(2, 6, 7, 3, seed=2)

    def ours(x):
        return jnp.sum(jnp.sin(MaxPool(*options).apply(NOTHING, x)[0]))

    def theirs(x):
        pooled = reduce_window(x, window, stride or window, padding, -jnp.inf, jax.lax.max)
        return jnp.sum(jnp.sin(pooled))

    def derivatives(f):
        gradient = jax.grad(f)
        both = jnp.stack([x, dx])
        return f(x), gradient(x), jax.jvp(gradient, (x,), (dx,)), jax.vmap(gradient)(both)

    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
        jax.jit(derivatives, static_argnums=0)(ours),
        jax.jit(derivatives, static_argnums=0)(theirs),
    )


def test_max_pool_gives_ties_to_the_first():
    gradient = jax.grad(lambda x: MaxPool(2).apply(NOTHING, x)[0].sum())(jnp.ones((1, 2, 2, 1)))
    assert gradient[0, :, :, 0].tolist() == [[1, 0], [0, 0]]


def test_average_pools():
    x = normal(2, 4, 6, 3)
    pooled, _ = AvgPool(2).apply(NOTHING, x)
    np.testing.assert_allclose(pooled[1, 1, 2], x[1, 2:4, 4:6].mean((0, 1)), rtol=1e-5)
    same, _ = AvgPool(3, 1, "SAME").apply(NOTHING, x)
    np.testing.assert_allclose(same[0, 0, 0], x[0, :2, :2].mean((0, 1)), rtol=1e-5)
    np.testing.assert_allclose(GlobalAveragePool().apply(NOTHING, x)[0], x.mean((1, 2)), rtol=1e-5)


def test_batch_norm_standardises_and_averages_without_bias():
    norm, batches = BatchNorm(decay=0.9), [3 + 2 * normal(50, 4, 2, seed=s) for s in range(3)]
    variables = norm.init(KEY, batches[0])
    np.testing.assert_allclose(
        norm.apply(variables, batches[0])[0], batches[0] / np.sqrt(1 + 1e-5), rtol=1e-6
    )
    state = variables.state
    for batch in batches:
        outputs, state = norm.apply(Variables(variables.params, state), batch, train=True)
        np.testing.assert_allclose(outputs.mean((0, 1)), 0, atol=1e-5)
        np.testing.assert_allclose(outputs.var((0, 1)), 1, atol=1e-4)
    weights = np.array([0.9**2, 0.9, 1.0]) / (0.9**2 + 0.9 + 1)
    for name, expected in [
        ("mean", [b.mean((0, 1)) for b in batches]),
        ("variance", [b.var((0, 1)) for b in batches]),
    ]:
        np.testing.assert_allclose(state[name], weights @ np.array(expected), rtol=1e-5)
    trained = Variables(variables.params, state)
    outputs, unchanged = norm.apply(trained, batches[0])
    np.testing.assert_allclose(
        outputs,
        (batches[0] - state["mean"]) / jnp.sqrt(state["variance"] + 1e-5),
        rtol=1e-4,
        atol=1e-5,
    )
    jax.tree.map(np.testing.assert_array_equal, unchanged, state)


def test_batch_norm_has_the_derivatives_of_its_equation():
    with jax.enable_x64(True):
        keys = jax.random.split(KEY, 6)
        x, dx = (jax.random.normal(k, (6, 2, 3)) for k in keys[:2])
        params, dparams = (
            {"scale": jax.random.normal(a, (3,)), "shift": jax.random.normal(b, (3,))}
            for a, b in (keys[2:4], keys[4:6])
        )

        def ours(x, params):
            state = BatchNorm().init(KEY, x).state
            outputs, state = BatchNorm().apply(Variables(params, state), x, train=True)
            return jnp.sum(jnp.sin(outputs)) + jnp.sum(state["mean"] ** 3 + state["variance"] ** 2)

        def equation(x, params):
            mean, variance = x.mean((0, 1)), x.var((0, 1))
            outputs = params["scale"] * (x - mean) / jnp.sqrt(variance + 1e-5) + params["shift"]
            return jnp.sum(jnp.sin(outputs)) + jnp.sum(mean**3 + variance**2)

        def derivatives(f):
            gradient = jax.grad(f, (0, 1))
            return gradient(x, params), jax.jvp(gradient, (x, params), (dx, dparams))

        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9),
            jax.jit(derivatives, static_argnums=0)(ours),
            jax.jit(derivatives, static_argnums=0)(equation),
        )


def test_filter_response_norm_equation():
    x, norm = normal(2, 3, 3, 4), FilterResponseNorm()
    params = {"scale": jnp.full(4, 2.0), "shift": jnp.full(4, 0.1), "threshold": jnp.full(4, -0.5)}
    expected = 2 * x / jnp.sqrt((x**2).mean((1, 2), keepdims=True) + 1e-6) + 0.1
    outputs, _ = norm.apply(Variables(params, {}), x)
    np.testing.assert_allclose(outputs, jnp.maximum(expected, -0.5), rtol=1e-5)


@pytest.mark.parametrize(("asked", "used"), [(3, 3), (32, 6), (4, 3), (1, 1)])
def test_group_norm_standardises_each_group(asked, used):
    x, norm = normal(2, 5, 5, 6), GroupNorm(asked)
    outputs, _ = norm.apply(norm.init(KEY, x), x)
    grouped = outputs.reshape(2, 25, used, 6 // used)
    np.testing.assert_allclose(grouped.mean((1, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(grouped.var((1, 3)), 1, atol=1e-3)


def test_sequential_names_sort_in_order_and_compose():
    many = Sequential([Dense(2) for _ in range(11)])
    names = list(many.init(KEY, jax.ShapeDtypeStruct((1, 2), jnp.float32)).params)
    assert names == sorted(names)
    assert names[-1] == "10_dense"
    net = Sequential((Flatten(), Dense(3), Activation("tanh"), Sequential((Dense(2),))))
    x = normal(4, 2, 2)
    variables = net.init(KEY, x)
    first, second = variables.params["0_dense"], variables.params["1_sequential"]["0_dense"]
    expected = jnp.tanh(x.reshape(4, 4) @ first["kernel"]) @ second["kernel"]
    np.testing.assert_allclose(net.apply(variables, x)[0], expected, rtol=1e-5)
    assert isinstance(net, Network)


def test_sequential_hands_each_dropout_its_own_key():
    net = Sequential((Dropout(0.5), Dropout(0.5)))
    outputs, _ = net.apply(NOTHING, jnp.ones((1, 1000)), key=KEY, train=True)
    assert abs(float((outputs > 0).mean()) - 0.25) < 0.05


def test_residual_adds_the_shortcut():
    x = normal(4, 3)
    plain = Residual(Dense(3), activation="relu")
    variables = plain.init(KEY, x)
    expected = jax.nn.relu(x @ variables.params["body"]["kernel"] + x)
    np.testing.assert_allclose(plain.apply(variables, x)[0], expected, rtol=1e-5)
    projected = Residual(Dense(2), Dense(2, bias=False))
    variables = projected.init(KEY, x)
    kernels = variables.params["body"]["kernel"] + variables.params["shortcut"]["kernel"]
    np.testing.assert_allclose(projected.apply(variables, x)[0], x @ kernels, rtol=1e-4, atol=1e-5)
