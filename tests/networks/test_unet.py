"""U-Net: sizes, norms, places of the skip connections, structure read off its computation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import credax as cx
from credax.likelihoods.grid import PerPixel
from credax.networks import UNet
from credax.structure import trace

X = np.random.default_rng(0).normal(size=(2, 8, 12, 3)).astype(np.float32)


@pytest.mark.parametrize("norm", ["batch", "group", "frn", "none"])
def test_every_norm_gives_an_output_for_every_pixel(norm):
    network = UNet(3, channels=(2, 3, 4), norm=norm)
    variables = network.init(jax.random.key(0), X)
    outputs, state = network.apply(variables, X, train=True)
    assert outputs.shape == (2, 8, 12, 3)
    assert bool(state) == (norm == "batch")
    assert network.multiple == 4


def test_one_size_is_two_convolutions_and_a_head():
    network = UNet(2, channels=(3,), norm="none")
    variables = network.init(jax.random.key(0), X)
    assert [a.shape for a in jax.tree.leaves(variables.params)] == [
        *((3,), (3, 3, 3, 3), (3,), (3, 3, 3, 3)),
        *((2,), (3, 2)),
    ]


def test_the_input_reaches_the_output_past_the_smaller_sizes():
    """With the smaller sizes' part of the last block zero, the rest is that of one size alone."""
    network = UNet(2, channels=(2, 3), norm="none")
    variables = network.init(jax.random.key(1), X)
    params = dict(variables.params)
    path = next(name for name in params if name.endswith("skip"))
    after = sorted(params)[sorted(params).index(path) + 1]
    kernel = params[after]["kernel"]
    assert kernel.shape == (3, 3, 2 + 3, 2)  # the channels of this size first
    params[after] = {**params[after], "kernel": kernel.at[:, :, 2:].set(0)}
    other = {**params, path: jax.tree.map(lambda a: a + 1, params[path])}
    a, b = (network.apply(cx.network.Variables(p), X)[0] for p in (params, other))
    np.testing.assert_array_equal(a, b)


def test_structure_is_traced_through_the_concatenation():
    """`verify` compares a random symmetry's outputs in float64; a wrong axis would fail it."""
    network = UNet(2, channels=(2, 3))
    variables = network.init(jax.random.key(0), X)
    found = trace(network, variables, X[:1])
    assert len(found.groups) >= 5


def test_bad_options_and_sizes_are_refused(refused):
    refused(lambda: UNet(2, channels=()), "channels is")
    refused(lambda: UNet(2, norm="instance"), "norm")
    odd = jnp.ones((1, 6, 6, 3))
    network = UNet(2, channels=(2, 2, 2))
    refused(lambda: network.init(jax.random.key(0), odd), "multiples of 2 to the power")


@pytest.mark.parametrize("size", [4, 6])
def test_the_curvature_has_a_block_for_each_pixel(size):
    """Of few pixels exactly; of many the blocks are exact and what is beside them has mean zero."""
    likelihood = PerPixel(cx.Categorical(), ignore_label=255, observations=None)
    rng = np.random.default_rng(0)
    outputs = jnp.asarray(rng.normal(size=(size, size, 3)), jnp.float32)
    y = rng.integers(0, 3, (size, size))
    y[0, 0] = 255
    root = np.asarray(likelihood.curvature_root({}, outputs.ravel(), jnp.asarray(y)))
    found = root @ root.T
    p = np.asarray(jax.nn.softmax(outputs)).reshape(-1, 3)
    for pixel in range(size * size):
        own = slice(3 * pixel, 3 * pixel + 3)
        exact = (np.diag(p[pixel]) - np.outer(p[pixel], p[pixel])) * (pixel > 0)
        np.testing.assert_allclose(found[own, own], exact, atol=2e-6)
        found[own, own] = 0
    if size == 4:
        np.testing.assert_allclose(found, 0, atol=1e-6)
    assert root.shape[1] == (48 if size == 4 else 3)
