"""Kernels against recorded values, closed forms, 30-digit arithmetic and edge cases."""

import infinite_cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax import infinite
from credax.errors import InputError
from credax.infinite.duals import Dual

DENSE, CONV = infinite_cases.load("dense"), infinite_cases.load("conv")
VALUES = {  # at q1 = 1.3, q2 = 0.7, c = 0.4: E φφ and E φ'φ'
    "relu": (infinite.ReLU(), 0.265378091518942, 0.318864669158736),
    "leaky": (infinite.LeakyReLU(0.1), 0.254956254130343, 0.358280382018576),
    "abs": (infinite.Abs(), 0.661512366075769, 0.275458676634943),
    "erf": (infinite.Erf(), 0.175479656091822, 0.450158158078553),
    "gelu": (infinite.GELU(), 0.188060676734996, 0.324817221804322),
    "sine": (infinite.Sine(), 0.15110733607621, 0.397704300017816),
    "radial": (infinite.RadialBasis(0.5), 0.548811636094026, 0.548811636094026),
    "exponential": (infinite.Exponential(), 4.05519996684467, 4.05519996684467),
    "gaussian": (infinite.Gaussian(0.5), 0.516397779494322, 0.0550824298127277),
    "square": (infinite.Monomial(2), 1.23, 1.6),
    "cube": (infinite.Monomial(3), 3.66, 11.07),
    "fourth": (infinite.Monomial(4), 18.5505, 58.56),
    "fifth": (infinite.Monomial(5), 110.7018, 463.7625),
}
QUADRATURES = {
    "tanh": (jnp.tanh, 0.150919764109141, 0.38526161055902),
    "softplus": (jax.nn.softplus, 0.751069986589193, 0.267205275723005),
    "silu": (jax.nn.silu, 0.149036773823555, 0.300153269147758),
}


def moments(layer, q1=1.3, q2=0.7, c=0.4) -> Dual:
    q1, q2, c = (np.full((1, 1), value) for value in (q1, q2, c))
    return layer.dual(c, q1, q2, q1 + q2 - 2 * c)


def assert_golden(build, name, arrays):
    """One call on both batches together gives every recorded block."""
    rows = len(arrays["x1"])
    found = build(name).kernels(np.concatenate([arrays["x1"], arrays["x2"]]))
    for kind, matrix in zip(("nngp", "ntk"), found, strict=True):
        np.testing.assert_array_equal(matrix, matrix.T)
        own, cross = matrix[:rows, :rows], matrix[:rows, rows:]
        for block, suffix in ((own, "11"), (cross, "12")):
            want = arrays[f"{name}/{kind}_{suffix}"]
            # The reference loses half the digits on the diagonal; 1e-8 is its error, not ours.
            np.testing.assert_allclose(block, want, rtol=1e-8, atol=1e-11 * np.abs(want).max())
        off = ~np.eye(rows, dtype=bool)
        want = arrays[f"{name}/{kind}_11"]
        atol = 1e-13 * np.abs(want).max()
        np.testing.assert_allclose(own[off], want[off], rtol=1e-12, atol=atol)


@pytest.mark.parametrize("name", infinite_cases.cases(DENSE))
def test_dense_kernels_equal_the_recorded_ones(name):
    assert_golden(infinite_cases.dense_case, name, DENSE)


@pytest.mark.parametrize("name", infinite_cases.cases(CONV))
def test_convolutional_kernels_equal_the_recorded_ones(name):
    assert_golden(infinite_cases.conv_case, name, CONV)


@pytest.mark.parametrize("name", VALUES)
def test_closed_forms(name):
    layer, covariance, derivative = VALUES[name]
    found = moments(layer)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-13)
    np.testing.assert_allclose(found.derivative, derivative, rtol=1e-13)
    own = [moments(layer, q, q, q).covariance for q in (1.3, 0.7)]
    np.testing.assert_allclose(found.distance, sum(own) - 2 * covariance, rtol=1e-12)


@pytest.mark.parametrize("name", VALUES)
def test_the_derivative_is_the_slope_in_the_covariance(name):
    layer, _, derivative = VALUES[name]
    up, down = (moments(layer, c=0.4 + step).covariance for step in (1e-5, -1e-5))
    np.testing.assert_allclose((up - down) / 2e-5, derivative, rtol=1e-8)


@pytest.mark.parametrize("name", QUADRATURES)
def test_quadrature_of_any_function(name, float64):
    function, covariance, derivative = QUADRATURES[name]
    found = jax.jit(infinite.Activation(function).dual)(
        *(jnp.full((1, 1), v) for v in (0.4, 1.3, 0.7, 1.2))
    )
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-13)
    np.testing.assert_allclose(found.derivative, derivative, rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "nngp", "ntk"),
    [
        ("relu", 1.2472412005603, 1.6057763665773),
        ("erf", 0.096025508076695, 0.017470661777785),
        ("gelu", 0.83238372687004, 1.0478508316686),
        ("sin", 0.14249904847683, 0.15848174231649),
    ],
)
def test_three_layers(name, nngp, ntk):
    net = infinite_cases.dense(name, 2, 2**0.5, 0.1**0.5)
    found = net.kernels([[1.0, 0.0, -1.0]], [[0.5, 2.0, 1.0]])
    np.testing.assert_allclose([*found.nngp[0], *found.ntk[0]], [nngp, ntk], rtol=2e-13)


def test_a_deep_linear_network_by_hand():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 3))
    nngp, ntk = infinite_cases.dense("identity", 4, 1.0, 0.0).kernels(x)
    np.testing.assert_allclose(nngp, x @ x.T / 3, atol=1e-15)
    np.testing.assert_allclose(ntk, 5 * x @ x.T / 3, atol=1e-14)


@pytest.mark.parametrize("distance", [0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2])
def test_close_pairs_keep_their_digits(distance):
    """Θ of two ReLU layers, against 50 digits."""
    mpmath = pytest.importorskip("mpmath")
    mpmath.mp.dps = 50
    one, other = np.array([[1.0, 0.0]]), np.array([[1.0, distance]])
    found = infinite_cases.dense("relu", 2, 1.0, 0.0).kernels(one, other).ntk[0, 0]
    d = mpmath.mpf(float(other[0, 1]))
    q1, q2, c = mpmath.mpf(1) / 2, (1 + d**2) / 2, mpmath.mpf(1) / 2
    tangent = c
    for _ in range(2):
        root = mpmath.sqrt(abs(q1 * q2 - c**2))
        angle = mpmath.atan2(root, c)
        slope = (mpmath.pi - angle) / (2 * mpmath.pi)
        c, q1, q2 = (root + (mpmath.pi - angle) * c) / (2 * mpmath.pi), q1 / 2, q2 / 2
        tangent = c + slope * tangent
    assert abs(found - float(tangent)) <= 4e-16 * float(tangent) * 4


@pytest.mark.parametrize("name", sorted(infinite_cases.ACTIVATIONS))
@pytest.mark.parametrize("bias_std", [0.0, 0.3])
def test_equal_opposite_and_zero_inputs(name, bias_std):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((3, 4))
    x = np.concatenate([x, x, -x, np.zeros((1, 4)), 1e-200 * x])
    for matrix in infinite_cases.dense(name, 2, 1.5, bias_std).kernels(x):
        assert np.isfinite(matrix).all()
        np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_allclose(matrix[:3], matrix[3:6], rtol=1e-14, atol=1e-15)
        values = np.linalg.eigvalsh(matrix)
        assert values[0] >= -1e-12 * values[-1]


@pytest.mark.slow
def test_gradients_by_the_inputs_are_finite(float64):
    net = infinite_cases.dense("relu", 2, 1.5, 0.0)
    x = jnp.array([[1.0, 2.0], [1.0, 2.0], [-1.0, -2.0], [0.0, 0.0]])
    slope = jax.grad(lambda x: net.pair_state(x, x).tangent.sum())(x)
    assert np.isfinite(slope).all()


def test_blocks_and_the_compiled_path_give_the_same(monkeypatch):
    rng = np.random.default_rng(2)
    x, other = rng.standard_normal((7, 5)), rng.standard_normal((4, 5))
    net = infinite_cases.dense("relu", 2, 1.5, 0.1)
    whole, cross = net.kernels(x), net.kernels(x, other)
    small = net.kernels(x, memory_limit=2000)
    np.testing.assert_allclose(small, whole, rtol=1e-14)
    np.testing.assert_allclose(net.kernels(x, other, memory_limit=2000), cross, rtol=1e-14)
    monkeypatch.setattr("credax.infinite.kernel.SMALL", 0)
    compiled = net.kernels(x)
    assert compiled.nngp.dtype == np.float64
    np.testing.assert_array_equal(compiled.ntk, compiled.ntk.T)
    np.testing.assert_allclose(compiled, whole, rtol=1e-14)
    assert not jax.config.jax_enable_x64


def test_what_has_no_kernel_is_refused():
    x = np.ones((2, 4, 4, 1))
    relu, dense = infinite.ReLU(), infinite.InfiniteDense(1)
    with pytest.raises(InputError, match="not Gaussian"):
        infinite.serial(infinite.InfiniteDense(4), relu, relu, dense).kernels(np.ones((2, 3)))
    normal = infinite.serial(infinite.InfiniteDense(4), relu, infinite.LayerNorm(), dense)
    with pytest.raises(InputError, match="LayerNorm"):
        normal.kernels(np.ones((2, 3)))
    with pytest.raises(InputError, match="positions"):
        infinite.serial(infinite.InfiniteConv(3), relu, dense).kernels(x)
    with pytest.raises(InputError, match="memory_limit"):
        infinite.serial(
            infinite.InfiniteConv(3), relu, infinite.GlobalAveragePool(), dense
        ).kernels(x, memory_limit=1000)
    with pytest.raises(InputError, match="row 1"):
        infinite.serial(dense).kernels([[1.0, 2.0], [np.nan, 0.0]])


def test_too_few_nodes_are_told():
    net = infinite.serial(
        infinite.InfiniteDense(4, 3.0), infinite.Activation(jnp.tanh, 8), infinite.InfiniteDense(1)
    )
    with pytest.warns(infinite.QuadratureInaccurate, match="more nodes"):
        net.kernels([[3.0, 1.0]])


def test_a_zero_output_has_no_initial_spread_and_the_same_ntk():
    net = infinite_cases.dense("relu", 1, 1.5, 0.1)
    x = np.random.default_rng(0).standard_normal((3, 2))
    zero, scaled = infinite.zero_output(net), net.network(0.5)
    np.testing.assert_array_equal(zero.kernels(x).nngp, 0)
    np.testing.assert_array_equal(zero.kernels(x).ntk, net.kernels(x).ntk)
    np.testing.assert_allclose(scaled.kernels(x).ntk, net.kernels(x).ntk / 4)
    variables = zero.init(jax.random.key(0), jnp.asarray(x, jnp.float32))
    np.testing.assert_array_equal(zero.apply(variables, jnp.asarray(x, jnp.float32))[0], 0)
