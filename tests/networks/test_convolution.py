"""Every implementation of convolution against XLA's own, in float64, to second order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax.errors import InputError
from credax.networks import Conv, convolve, using_implementation


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


# height, width, inputs, outputs, window, stride, padding
SHAPES = [
    (5, 6, 8, 3, 3, 1, "SAME"),
    (6, 5, 8, 2, 3, 2, "SAME"),
    (7, 6, 1, 2, 5, 1, "VALID"),
    (3, 3, 9, 2, 5, 1, "SAME"),
    (4, 4, 2, 3, 1, 2, "SAME"),
    (6, 6, 8, 2, 2, 1, "SAME"),
    (6, 6, 8, 2, 3, 2, "CENTRED"),
]


def every_derivative(implementation, x, kernel, bias, dx, dkernel, stride, padding):
    def loss(x, kernel):
        y = convolve(x, kernel, bias, stride=stride, padding=padding, implementation=implementation)
        return jnp.sum(jnp.tanh(y) ** 2)

    gradient = jax.grad(loss, (0, 1))
    direction = (dx, dkernel)
    return {
        "value": loss(x, kernel),
        "gradient": gradient(x, kernel),
        "forward over reverse": jax.jvp(gradient, (x, kernel), direction),
        "reverse over forward": jax.grad(lambda *p: jax.jvp(loss, p, direction)[1], (0, 1))(
            x, kernel
        ),
        "reverse over reverse": jax.grad(
            lambda *p: sum(jnp.vdot(a, b) for a, b in zip(gradient(*p), direction, strict=True)),
            (0, 1),
        )(x, kernel),
        "mapped": jax.vmap(gradient)(jnp.stack([x, dx]), jnp.stack([kernel, dkernel])),
        "mapped kernels": jax.vmap(gradient, (None, 0))(x, jnp.stack([kernel, dkernel])),
    }


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(s, marks=[pytest.mark.slow] if n > 0 else [], id=str(s))
        for n, s in enumerate(SHAPES)
    ],
)
def test_all_derivatives_agree_with_native(float64, shape):
    height, width, inputs, outputs, window, stride, padding = shape
    keys = jax.random.split(jax.random.key(0), 5)
    x, dx = (jax.random.normal(k, (2, height, width, inputs)) for k in keys[:2])
    kernel, dkernel = (jax.random.normal(k, (window, window, inputs, outputs)) for k in keys[2:4])
    bias = jax.random.normal(keys[4], (outputs,))
    run = jax.jit(every_derivative, static_argnums=(0, 6, 7))
    expected = run("native", x, kernel, bias, dx, dkernel, stride, padding)
    for implementation in ("gemm", "mixed"):
        got = run(implementation, x, kernel, bias, dx, dkernel, stride, padding)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10), got, expected
        )


@pytest.mark.parametrize(
    ("stride", "padding", "window"), [(1, "SAME", 3), (2, "SAME", 3), (2, "VALID", 2)]
)
def test_reverse_mode_of_any_order_agrees_with_native(float64, stride, padding, window):
    """Value, gradients, gradients of those along random directions, and once more."""
    rng = np.random.default_rng(2)
    x, dx = rng.standard_normal((2, 2, 5, 6, 8))
    kernel, dkernel = rng.standard_normal((2, window, window, 8, 3))

    def derivatives(how):
        def value(x, kernel):
            outputs = convolve(x, kernel, stride=stride, padding=padding, implementation=how)
            return jnp.sum(jnp.sin(outputs))

        def along(function):
            def slope(x, kernel):
                by_x, by_kernel = jax.grad(function, (0, 1))(x, kernel)
                return jnp.sum(by_x * dx) + jnp.sum(by_kernel * dkernel)

            return slope

        second = along(value)
        third = along(second)
        return [jax.value_and_grad(f, (0, 1))(x, kernel) for f in (value, second, third)]

    got, expected = (jax.jit(derivatives, static_argnums=0)(how) for how in ("reverse", "native"))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), got, expected)


def test_a_convolution_by_hand():
    x = jnp.arange(9.0).reshape(1, 3, 3, 1)
    kernel = jnp.array([[1.0, 0], [0, 2]]).reshape(2, 2, 1, 1)
    y = convolve(x, kernel, jnp.array([0.5]), padding="VALID")
    assert y[0, :, :, 0].tolist() == [[0 + 8 + 0.5, 1 + 10 + 0.5], [3 + 14 + 0.5, 4 + 16 + 0.5]]


@pytest.mark.slow
def test_hessian_of_one_kernel_is_the_linear_one():
    x = jax.random.normal(jax.random.key(0), (1, 3, 3, 1))
    kernel = jax.random.normal(jax.random.key(1), (3, 3, 1, 1))

    def square(kernel):
        return 0.5 * jnp.sum(convolve(x, kernel, implementation="mixed") ** 2)

    jacobian = jax.jacobian(lambda k: convolve(x, k, implementation="native"))(kernel)
    jacobian = jacobian.reshape(9, 9)
    hessian = jax.hessian(square)(kernel).reshape(9, 9)
    np.testing.assert_allclose(hessian, jacobian.T @ jacobian, rtol=1e-4, atol=1e-4)


def primitives(x, kernel, **options):
    return str(jax.make_jaxpr(lambda a, b: convolve(a, b, **options))(x, kernel))


def test_auto_is_a_matrix_product_on_cpu_and_can_be_overridden():
    x, kernel = jnp.ones((1, 4, 4, 8)), jnp.ones((3, 3, 8, 2))
    assert "conv_general_dilated" not in primitives(x, kernel)
    with using_implementation("native"):
        assert "conv_general_dilated" in primitives(x, kernel)
        assert "conv_general_dilated" not in primitives(x, kernel, implementation="gemm")
    assert "conv_general_dilated" not in primitives(x, kernel)


def test_groups_are_separate_convolutions():
    keys = jax.random.split(jax.random.key(0), 2)
    x = jax.random.normal(keys[0], (2, 4, 4, 4))
    kernel = jax.random.normal(keys[1], (3, 3, 2, 6))
    parts = [convolve(x[..., :2], kernel[..., :3]), convolve(x[..., 2:], kernel[..., 3:])]
    got = convolve(x, kernel, groups=2)
    np.testing.assert_allclose(got, jnp.concatenate(parts, -1), rtol=1e-5, atol=1e-5)


def test_nan_in_gives_nan_out():
    x = jnp.ones((1, 3, 3, 8)).at[0, 1, 1, 0].set(jnp.nan)
    assert bool(jnp.isnan(convolve(x, jnp.ones((3, 3, 8, 1)))).all())


def test_bad_options_name_the_remedy():
    with pytest.raises(InputError, match="did you mean 'mixed'"):
        convolve(jnp.ones((1, 3, 3, 1)), jnp.ones((3, 3, 1, 1)), implementation="mixd")
    with pytest.raises(InputError, match="did you mean 'native'"), using_implementation("nativ"):
        pass
    with pytest.raises(InputError, match="SAME, VALID"):
        Conv(3, padding="FULL")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="must divide both the 3 input channels"):
        Conv(4, groups=2).init(jax.random.key(0), jnp.ones((1, 4, 4, 3)))


def test_centred_padding_is_zeros_on_both_sides(float64):
    """At stride 2 on even sizes SAME pads the far edge only; other libraries pad both."""
    rng = np.random.default_rng(0)
    x, kernel = rng.standard_normal((1, 6, 6, 1)), rng.standard_normal((3, 3, 1, 1))
    padded = np.pad(x[0, :, :, 0], 1)
    expected = [
        [np.sum(padded[i : i + 3, j : j + 3] * kernel[:, :, 0, 0]) for j in (0, 2, 4)]
        for i in (0, 2, 4)
    ]
    for implementation in ("native", "gemm", "mixed"):
        y = convolve(x, kernel, stride=2, padding="CENTRED", implementation=implementation)
        np.testing.assert_allclose(y[0, :, :, 0], expected, rtol=1e-12)
    same = convolve(x, kernel, stride=2)
    assert same.shape == (1, 3, 3, 1)
    assert not np.allclose(same[0, :, :, 0], expected)


@pytest.mark.parametrize("stride", [1, 2])
def test_groups_agree_with_native_and_can_be_mapped(float64, stride):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 7, 7, 4))
    kernels = rng.standard_normal((3, 5, 5, 2, 6))

    def gradient(kernel, implementation):
        def loss(kernel):
            y = convolve(x, kernel, groups=2, stride=stride, implementation=implementation)
            return jnp.sum(jnp.tanh(y))

        return jax.value_and_grad(loss)(kernel)

    expected = [gradient(kernel, "native") for kernel in kernels]
    for implementation in ("gemm", "mixed"):
        got = jax.vmap(lambda k, how=implementation: gradient(k, how))(kernels)
        for member, (value, slope) in enumerate(expected):
            np.testing.assert_allclose(got[0][member], value, rtol=1e-10)
            np.testing.assert_allclose(got[1][member], slope, rtol=1e-9, atol=1e-11)
