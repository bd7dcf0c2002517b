"""A DeepLab-like network: convolutions with holes, sizes, norms, structure, tiles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax.network import Variables
from credax.networks import Conv, DeepLab, Dilated
from credax.networks.atrous import Enlarge, Parallel
from credax.structure import trace

X = np.random.default_rng(0).normal(size=(2, 8, 12, 3)).astype(np.float32)
SMALL = {"widths": (2, 4), "blocks": (1, 1), "stem": 2, "features": 3, "rates": (1, 2)}


@pytest.mark.parametrize(("rate", "shape"), [(2, (8, 12)), (3, (9, 12)), (3, (8, 11))])
def test_a_convolution_with_holes_is_that_of_xla(rate, shape):
    x = np.random.default_rng(1).normal(size=(2, *shape, 3)).astype(np.float32)
    layer = Dilated(Conv(4, bias=False), rate)
    variables = layer.init(jax.random.key(0), x)
    expected = jax.lax.conv_general_dilated(
        jnp.asarray(x), variables.params["kernel"], (1, 1), "SAME", rhs_dilation=(rate, rate),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    np.testing.assert_allclose(layer.apply(variables, x)[0], expected, atol=1e-5)


@pytest.mark.parametrize("norm", ["batch", "group", "frn"])
def test_every_norm_gives_an_output_for_every_pixel(norm):
    network = DeepLab(5, norm=norm, **SMALL)
    variables = network.init(jax.random.key(0), X)
    outputs, state = network.apply(variables, X, train=True)
    assert outputs.shape == (2, 8, 12, 5)
    assert bool(state) == (norm == "batch")
    assert network.multiple == 2


def test_branches_stand_side_by_side():
    network = Parallel((Conv(2, 1), Conv(3, 3)))
    variables = network.init(jax.random.key(0), X)
    outputs, _ = network.apply(variables, X)
    own = Conv(3, 3).apply(Variables(variables.params["1"]), X)[0]
    assert outputs.shape[-1] == 5
    np.testing.assert_array_equal(outputs[..., 2:], own)


def test_enlarging_keeps_constants():
    x = jnp.full((1, 3, 2, 1), 0.7)
    np.testing.assert_allclose(Enlarge(4).apply(Variables({}), x)[0], 0.7, rtol=1e-6)


def test_structure_is_traced():
    """`verify` compares a random symmetry's outputs in float64; a wrong axis would fail it."""
    network = DeepLab(2, norm="group", **{**SMALL, "rates": (1,)})
    found = trace(network, network.init(jax.random.key(0), X), X[:1])
    assert len(found.groups) >= 2


def test_bad_options_are_refused(refused):
    refused(lambda: DeepLab(2, rates=()), "rates is")
    refused(lambda: DeepLab(2, features=0), "features is 0")
    refused(lambda: DeepLab(2, norm="instance"), "norm")
