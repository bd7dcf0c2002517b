"""A picture and its targets move together."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from credax.training.augment import augment_rows

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("names", [("flip",), ("crop",), ("scale",), ("flip", "crop", "scale")])
def test_targets_follow_the_picture(names):
    """The picture's channel is its label: after any change they still agree where both are known.

    Bilinear interpolation mixes labels at borders, so of scaled pictures the pixels are compared
    whose value is whole.
    """
    label = (RNG.random((8, 4, 4)) < 0.5).astype(np.int32).repeat(4, 1).repeat(4, 2)
    x = jnp.asarray(label[..., None], jnp.float32) + 1
    moved, y = augment_rows(names, jax.random.key(1), x, jnp.asarray(label), 255.0)
    moved, y = np.asarray(moved)[..., 0], np.asarray(y)
    whole = (np.abs(moved - np.rint(moved)) < 1e-5) & (y != 255)
    assert whole.mean() > 0.5
    assert not np.array_equal(y, label)
    np.testing.assert_array_equal(np.rint(moved[whole]) - 1, y[whole])
    if names in (("crop",), ("scale",)):
        assert (y == 255).any()
        assert (moved[y == 255] == 0).all()


def test_numbers_from_outside_are_missing():
    y = jnp.ones((4, 8, 8))
    _, moved = augment_rows(("crop",), jax.random.key(0), jnp.ones((4, 8, 8, 1)), y, np.nan)
    assert np.isnan(moved).any()
    assert np.nanmax(moved) == 1


def test_labels_of_rows_stay_as_they_are():
    x = jnp.asarray(RNG.normal(size=(4, 8, 8, 1)), jnp.float32)
    _, y = augment_rows(("flip", "crop"), jax.random.key(0), x, jnp.arange(4))
    np.testing.assert_array_equal(y, np.arange(4))
