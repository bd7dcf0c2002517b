"""A picture cut into tiles gives the maps of the whole picture."""

import jax
import numpy as np
import pytest

import credax as cx
from credax.posterior import population
from credax.tiling import reach


def _members(likelihood, network, channels=3):
    problem = cx.Problem(network, likelihood)
    x = np.zeros((1, 16, 16, channels), np.float32)
    keys = jax.random.split(jax.random.key(1), 2)
    return population(problem, jax.vmap(lambda key: problem.init(key, x))(keys), x)


@pytest.fixture(scope="module")
def classes():
    network = cx.networks.UNet(3, channels=(3, 4), norm="batch")
    return _members(cx.PerPixel(cx.Categorical()), network)


PICTURES = np.random.default_rng(0).normal(size=(2, 48, 64, 3)).astype(np.float32)


@pytest.mark.parametrize("tile", [12, 24])
def test_tiles_equal_the_whole_picture(classes, tile):
    """A margin that is one pixel too small, or tiles off the network's grid, would differ."""
    whole = classes.predict_fn()(PICTURES)
    maps = cx.predict_tiled(classes, PICTURES, tile=tile)
    for name, values in (("mean", whole.probs), ("total", whole.total)):
        np.testing.assert_allclose(getattr(maps, name), values, rtol=2e-5, atol=1e-6)
    for name in ("aleatoric", "epistemic"):
        np.testing.assert_allclose(getattr(maps, name), getattr(whole, name), atol=2e-6)
    np.testing.assert_array_equal(maps.label, whole.label)


def test_the_reach_is_exact(classes):
    """By hand: two 3x3 at full size, two at half of it, two at full size: 2 + 2·2 + 2, and 1 for
    the place of a pixel in its cell of two."""
    assert reach(classes) == 9
    whole = np.asarray(classes.predict_fn()(PICTURES).probs)
    too_small = cx.predict_tiled(classes, PICTURES, tile=16, margin=4).mean
    assert np.abs(too_small - whole).max() > 1e-4


def test_numbers_with_a_learned_noise_have_maps():
    members = _members(cx.PerPixel(cx.Gaussian()), cx.networks.UNet(1, channels=(2, 3)))
    maps = cx.predict_tiled(members, PICTURES, tile=32)
    whole = members.predict_fn()(PICTURES)
    np.testing.assert_allclose(maps.mean, whole.mean, rtol=1e-5, atol=1e-6)
    assert maps.total.shape == (2, 48, 64)


def test_what_cannot_be_cut_is_refused(classes, refused):
    group = _members(cx.PerPixel(cx.Categorical()), cx.networks.UNet(2, (2, 3), norm="group"))
    refused(lambda: cx.predict_tiled(group, PICTURES, tile=16), "group norm")
    refused(lambda: cx.predict_tiled(classes, PICTURES[:, :47]), "multiples of 2")
    refused(lambda: cx.predict_tiled(classes, PICTURES, tile=15), "tile is 15")
    refused(lambda: cx.predict_tiled(classes, PICTURES[..., :2]), "x has shape")
    rows = cx.Problem(cx.networks.MLP((4,), outputs=2), cx.Categorical())
    variables = jax.vmap(lambda k: rows.init(k, PICTURES))(jax.random.split(jax.random.key(0)))
    plain = population(rows, variables, PICTURES)
    refused(lambda: cx.predict_tiled(plain, PICTURES), "use PerPixel")
