import jax
import numpy as np
import pytest

from credax.errors import InputError
from credax.training.augment import augment, check_augmentations, crop, flip

X = np.random.default_rng(0).integers(1, 255, (64, 6, 5, 2), dtype=np.uint8)


def test_flip_mirrors_about_half_of_the_pictures():
    flipped = np.asarray(flip(jax.random.key(0), X))
    same = (flipped == X).all((1, 2, 3))
    np.testing.assert_array_equal(flipped[~same], X[~same][:, :, ::-1])
    assert flipped.dtype == np.uint8
    assert abs((~same).sum() - 32) <= 4 * 4  # binomial(64, 1/2): standard error 4


def test_crop_is_a_window_of_the_padded_picture():
    cropped = np.asarray(crop(jax.random.key(1), X, padding=2))
    padded = np.pad(X, ((0, 0), (2, 2), (2, 2), (0, 0)))
    corners = set()
    for picture, around in zip(cropped, padded, strict=True):
        found = [
            (i, j)
            for i in range(5)
            for j in range(5)
            if np.array_equal(picture, around[i : i + 6, j : j + 5])
        ]
        assert len(found) == 1
        corners |= set(found)
    assert len(corners) > 15  # 25 places, 64 draws: the mean is 23.2, standard error 1.3


def test_augmentations_are_drawn_independently():
    both = np.asarray(augment(("flip", "crop"), jax.random.key(0), X))
    again = np.asarray(augment(("flip", "crop"), jax.random.key(0), X))
    np.testing.assert_array_equal(both, again)
    assert (both != np.asarray(augment(("flip", "crop"), jax.random.key(1), X))).any()


def test_names_and_shapes_are_checked():
    with pytest.raises(InputError, match="did you mean 'flip'"):
        check_augmentations(("flp",), (8, 8, 1))
    with pytest.raises(InputError, match="images"):
        check_augmentations(("flip",), (8,))
