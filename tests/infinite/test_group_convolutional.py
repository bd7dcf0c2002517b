"""Group-convolutional networks: their finite selves, their kernels, and whose mean they share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax import groups, infinite
from credax.errors import InputError

pytestmark = pytest.mark.slow
RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4, 4, 2))


def plain(net):
    """The convolutional network of one orientation, with the same readout."""
    return infinite.serial(
        *net.plain.layers, infinite.InfiniteDense(1, net.weight_std, net.bias_std)
    )


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("padding", ["zero", "circular", "valid"])
def test_the_kernel_is_the_mean_of_the_plain_one_over_turns(order, padding):
    net = infinite.GroupConvolutional((4,), order=order, padding=padding)
    turns = groups.picture_rotations(4, order, channels=2)
    averaged = groups.GroupAveraged(plain(net), turns)
    for pair in ((X,), (X[:2], X[1:])):
        found = net.kernels(*pair)
        wanted = [total / order for total in averaged.kernels(*pair)]
        np.testing.assert_allclose(found.nngp, wanted[0], rtol=1e-12)
        np.testing.assert_allclose(found.ntk, wanted[1], rtol=1e-12)
    np.testing.assert_array_equal(net.kernels(X).ntk, net.kernels(X).ntk.T)


def test_its_ensemble_has_the_mean_of_plain_networks_trained_on_orbits():
    """After equal times: the loss of the augmented set is a sum over four times as many rows."""
    net, y = infinite.GroupConvolutional((4, 4)), RNG.standard_normal(3)
    turns = groups.quarter_turns(4, channels=2)
    whole = groups.augment(X, y, turns)
    points = RNG.standard_normal((2, 4, 4, 2))
    ours = infinite.EnsembleDynamics(net, X, y, learning_rate=0.4)
    theirs = infinite.EnsembleDynamics(plain(net), whole.x, whole.y, learning_rate=0.1)
    for time in (0.0, 1.0, 50.0):
        np.testing.assert_allclose(ours.mean(points, time), theirs.mean(points, time), atol=1e-10)


@pytest.mark.parametrize("order", [2, 4])
def test_finite_networks_are_exactly_invariant(order, float64):
    net = infinite.GroupConvolutional((3, 5), outputs=2, order=order)
    start = net.init(jax.random.key(0), jnp.asarray(X))
    outputs = net.apply(start, jnp.asarray(X))[0]
    for g in range(4):
        turned = net.apply(start, jnp.rot90(jnp.asarray(X), g, axes=(1, 2)))[0]
        gap = np.abs(turned - outputs).max()
        assert gap < 1e-13 if g % (4 // order) == 0 else gap > 1e-3
    flipped = net.apply(start, jnp.asarray(X[:, :, ::-1]))[0]
    assert np.abs(flipped - outputs).max() > 1e-3


def test_finite_networks_have_these_kernels():
    """200 draws at width 32: within 4.5 standard errors and 2/width of the largest entry."""
    net = infinite.GroupConvolutional((32, 32))
    x = RNG.standard_normal((2, 3, 3, 1))
    mean, error = infinite.monte_carlo_kernel(net, x, 200, jax.random.key(0))
    for found, wanted, bar in zip(mean, net.kernels(x), error, strict=True):
        assert (np.abs(found - wanted) < 4.5 * bar + 2 / 32 * np.abs(wanted).max()).all()
    plain_kernel = plain(net).kernels(x).ntk
    assert np.abs(mean.ntk - plain_kernel).max() > 9 * error.ntk.max()  # it could have failed


def test_what_cannot_turn_is_refused():
    for options, words in (
        ({"order": 8}, "order"),
        ({"window": 2}, "odd windows"),
        ({"features": ()}, "at least one"),
        ({"padding": "same"}, "padding"),
    ):
        with pytest.raises(InputError, match=words):
            infinite.GroupConvolutional(**{"features": (4,), **options})
    with pytest.raises(InputError, match="square pictures"):
        infinite.GroupConvolutional((4,)).kernels(np.ones((2, 3, 4, 1)))
