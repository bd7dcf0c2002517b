"""Finite-width kernels: recorded values, three routes, blocks, and the way to infinite width."""

from functools import partial

import infinite_cases
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax import infinite
from credax.errors import InputError
from credax.network import Variables

pytestmark = pytest.mark.slow

GOLDEN = infinite_cases.load("empirical")
CASES = sorted({"/".join(key.split("/")[:2]) for key in GOLDEN})


def network(case):
    kind, parameterisation = case.split("/")
    dense = lambda n: infinite.InfiniteDense(n, 1.3, 0.2, parameterisation)  # noqa: E731
    if kind == "conv_relu_gap":
        conv = infinite.InfiniteConv(4, (3, 3), 1, "zero", 1.3, 0.2, parameterisation)
        outputs = GOLDEN[f"{case}/f1"].shape[1]
        return infinite.serial(conv, infinite.ReLU(), infinite.GlobalAveragePool(), dense(outputs))
    activation = infinite.ReLU() if "relu" in kind else infinite.Erf()
    return infinite.serial(dense(8), activation, dense(8), activation, dense(3))


def params(case, template):
    """The recorded arrays by layer; convolutional cases name theirs otherwise."""
    names = ["conv{}", "{}"] if f"{case}/convW" in GOLDEN else ["{}0", "{}1", "{}2"]
    return {
        layer: {
            "kernel": jnp.asarray(GOLDEN[f"{case}/{name.format('W')}"]),
            "bias": jnp.asarray(GOLDEN[f"{case}/{name.format('b')}"].reshape(-1)),
        }
        for layer, name in zip(sorted(template), names, strict=True)
    }


def variables(case):
    net = network(case)
    x = jnp.asarray(GOLDEN[f"{case}/x1"])
    template = jax.eval_shape(net.init, jax.random.key(0), x).params
    return net, Variables(params(case, template), {}), template


@pytest.mark.parametrize("case", CASES)
def test_finite_networks_and_their_kernels_equal_the_recorded_ones(case, float64):
    net, start, template = variables(case)
    x1, x2 = GOLDEN[f"{case}/x1"], GOLDEN[f"{case}/x2"]
    close = lambda found, name: np.testing.assert_allclose(  # noqa: E731
        found, GOLDEN[f"{case}/{name}"], rtol=1e-10, atol=1e-12
    )
    close(net.apply(start, jnp.asarray(x1))[0], "f1")
    full = infinite.empirical_ntk(net, start, x1, x2)
    close(full, "ntk_full_12")
    other = infinite.empirical_ntk(net, start, x1, x2, method="vector_products")
    np.testing.assert_allclose(other, full, rtol=1e-12, atol=1e-13)
    third = infinite.empirical_ntk(net, start, x1, x2, method="structured")
    np.testing.assert_allclose(third, full, rtol=1e-12, atol=1e-13)
    if f"{case}/ntk_full_11" not in GOLDEN:
        return
    close(infinite.empirical_ntk(net, start, x1), "ntk_full_11")
    close(infinite.empirical_ntk(net, start, x1, x2, outputs="trace"), "ntk_trace_12")
    close(infinite.EmpiricalKernel(net, start).kernels(x1, x2).nngp, "nngp_trace_12")
    moved = params(f"{case}/moved", template)
    close(infinite.linearise(net, start)(moved, jnp.asarray(x1)), "moved/linearised_f1")
    close(infinite.taylor(net, start, 2)(moved, jnp.asarray(x1)), "moved/taylor2_f1")


def test_blocks_products_and_slices_agree():
    net = infinite_cases.dense("erf", 1, 1.5, 0.1, width=6)
    x = np.random.default_rng(0).standard_normal((5, 3))
    start = net.init(jax.random.key(0), jnp.ones((1, 3)))
    full = infinite.empirical_ntk(net, start, x)
    assert full.dtype == np.float64
    blocks = infinite.empirical_ntk(net, start, x, memory_limit=2 * 16 * 31)
    np.testing.assert_allclose(blocks, full, rtol=0, atol=1e-14 * np.abs(full).max())
    np.testing.assert_array_equal(full, full.transpose(1, 0, 3, 2))
    vector = np.random.default_rng(1).standard_normal((5, 1))
    product = infinite.ntk_vector_product(net, start, x, vector)
    np.testing.assert_allclose(product, np.einsum("abij,bj->ai", full, vector), rtol=1e-12)
    diagonal = infinite.empirical_ntk(net, start, x, outputs="diagonal")
    np.testing.assert_array_equal(diagonal[..., 0], full[..., 0, 0])
    with pytest.raises(InputError, match="memory_limit"):
        infinite.empirical_ntk(net, start, x, memory_limit=10)
    assert not jax.config.jax_enable_x64


def test_structured_kernels_of_every_layer(float64):
    """Strides, masks, pooling, norms, shortcuts, dense layers at positions, both scalings."""
    x = np.random.default_rng(0).standard_normal((3, 5, 5, 2))
    relu, mask = infinite.ReLU(), ((0, 1, 0), (1, 1, 1), (0, 1, 0))
    for scaling in ("ntk", "standard"):
        conv = partial(infinite.InfiniteConv, 3, bias_std=0.2, parameterisation=scaling)
        dense = partial(
            infinite.InfiniteDense, weight_std=1.3, bias_std=0.2, parameterisation=scaling
        )
        net = infinite.serial(
            conv(stride=2),
            infinite.residual(relu, conv(padding="circular", support=mask)),
            infinite.LayerNorm(1e-3),
            infinite.Erf(),
            dense(4),
            relu,
            infinite.AveragePool(),
            infinite.Flatten(),
            infinite.parallel_sum(dense(3), infinite.serial(dense(5), relu, dense(3))),
        )
        start = net.init(jax.random.key(0), jnp.asarray(x))
        full = infinite.empirical_ntk(net, start, x)
        found = infinite.empirical_ntk(net, start, x, method="structured")
        np.testing.assert_allclose(found, full, rtol=1e-11, atol=1e-12)
        blocks = infinite.empirical_ntk(net, start, x, method="structured", memory_limit=30_000)
        np.testing.assert_allclose(blocks, full, rtol=1e-11, atol=1e-12)
    with pytest.raises(InputError, match=r"made by infinite\.serial"):
        infinite.empirical_ntk(infinite.zero_output(net), start, x, method="structured")


def test_the_mean_over_draws_is_the_infinite_kernel_and_the_spread_falls_with_the_width():
    """60 draws: the mean within 4.5 standard errors plus 2/width; errors fall as width^-1/2."""
    x = np.random.default_rng(0).standard_normal((3, 4))
    errors = []
    for width in (16, 256):
        net = infinite_cases.dense("relu", 2, 1.4, 0.1, width=width)
        mean, error = infinite.monte_carlo_kernel(net, x, 60, jax.random.key(0))
        exact = net.kernels(x)
        for found, wanted, bar in zip(mean, exact, error, strict=True):
            slack = 2 / width * np.abs(wanted).max()
            assert (np.abs(found - wanted) < 4.5 * bar + slack).all()
        errors.append(error.ntk.mean())
    assert 2.5 < errors[0] / errors[1] < 6.5  # 4 expected


def test_a_prior_over_functions():
    net = infinite_cases.dense("relu", 1, 1.5, 0.1)
    prior = infinite.ProcessPrior(net, jitter=1e-3)
    x = np.random.default_rng(0).standard_normal((4, 2))
    covariance = prior.covariance(x)
    np.testing.assert_allclose(covariance - net.kernels(x).nngp, 1e-3 * np.eye(4), atol=1e-15)
    values = prior.sample(0, x, 3)
    from scipy.stats import multivariate_normal

    expected = multivariate_normal(np.zeros(4), covariance).logpdf(values)
    np.testing.assert_allclose(prior.log_prob(values, x), expected, rtol=1e-10)
    twice = np.concatenate([x, x])
    with pytest.raises(InputError, match="jitter"):
        infinite.ProcessPrior(net).log_prob(np.zeros(8), twice)
