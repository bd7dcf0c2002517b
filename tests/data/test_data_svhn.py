import numpy as np
import pytest
from data_files import SHARED, colour, with_shared
from scipy.io import savemat

from credax.data import load
from credax.errors import InputError


def write_mat(path, pictures, labels):
    """As published: rows on the last axis, labels in a column, digit 0 as label 10."""
    labels = np.where(labels == 0, 10, labels).astype(np.uint8)[:, None]
    savemat(path, {"X": np.moveaxis(pictures, 0, -1), "y": labels})


def test_the_published_files_come_back_with_ten_as_zero(tmp_path):
    x, _ = colour(12)
    y = np.arange(12) % 10
    write_mat(tmp_path / "train_32x32.mat", x[:8], y[:8])
    write_mat(tmp_path / "test_32x32.mat", x[8:], y[8:])
    data = load("svhn", tmp_path, download=False)
    np.testing.assert_array_equal(data.train.x, x[:8])
    np.testing.assert_array_equal(data.train.y, y[:8])
    np.testing.assert_array_equal(data.test.y, y[8:])
    np.testing.assert_allclose(data.test.inputs.mean, np.array([0.4377, 0.4438, 0.4728]) * 255)
    np.testing.assert_allclose(data.test.inputs.scale, np.array([0.1980, 0.2010, 0.1970]) * 255)


def test_without_the_train_file_train_is_empty(tmp_path):
    x, y = colour(3)
    (tmp_path / "SVHN").mkdir()
    write_mat(tmp_path / "SVHN" / "test_32x32.mat", x, y)
    data = load("svhn", tmp_path, download=False)
    assert (len(data.train), len(data.test)) == (0, 3)


@pytest.mark.parametrize("real", [False, *(True for _ in with_shared("svhn_test_5000.npz"))])
def test_an_npz_of_test_digits(tmp_path, real):
    root = SHARED if real else tmp_path
    if not real:
        x, y = colour(7)
        np.savez(root / "svhn_test_5000.npz", x=x, y=y)
    data = load("svhn", root, download=False)
    stored = np.load(root / "svhn_test_5000.npz")
    np.testing.assert_array_equal(data.test.x, stored["x"])
    np.testing.assert_array_equal(data.test.y, stored["y"])
    assert data.train.x.shape == (0, 32, 32, 3)


def test_an_npz_with_both_splits(tmp_path):
    x, y = colour(7)
    np.savez(tmp_path / "svhn.npz", x_train=x[:4], y_train=y[:4], x_test=x[4:], y_test=y[4:])
    data = load("svhn", tmp_path, download=False)
    np.testing.assert_array_equal(data.train.x, x[:4])


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "not a readable MATLAB file"),
        (b"x" * 400, "not a readable MATLAB file"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8)}, "no X"),
        ({"X": np.zeros((32, 32), np.uint8), "y": [1]}, "no X"),
        ({"X": np.zeros((32, 31, 3, 2), np.uint8), "y": [1, 2]}, "(2, 32, 31, 3)"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [1, 2, 3]}, "y of shape (3,)"),
        ({"X": np.zeros((32, 32, 3, 2)), "y": [1, 2]}, "float64"),
        ({"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [1, 12]}, "row 1 of the test split is 12"),
    ],
)
def test_damage_is_one_sentence_that_names_the_file(tmp_path, contents, message):
    path = tmp_path / "test_32x32.mat"
    if isinstance(contents, dict):
        savemat(path, contents)
    else:
        path.write_bytes(contents)
    with pytest.raises(InputError) as caught:
        load("svhn", tmp_path, download=False)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_cut_mat_file_is_named(tmp_path):
    path = tmp_path / "test_32x32.mat"
    write_mat(path, *colour(3))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(InputError, match=r"test_32x32\.mat is not a readable MATLAB file"):
        load("svhn", tmp_path, download=False)


def test_an_npz_without_labels_says_what_it_has(tmp_path):
    np.savez(tmp_path / "svhn_test.npz", x=colour(2)[0])
    with pytest.raises(InputError, match=r"has the arrays x; it needs"):
        load("svhn", tmp_path, download=False)
