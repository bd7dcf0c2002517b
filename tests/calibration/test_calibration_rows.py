"""Calibration rows that are training or test rows are refused."""

import numpy as np
import pytest

from credax.calibration import (
    Temperature,
    calibrate,
    calibration_rows,
    check_rows,
    refuse_training_rows,
    row_digests,
)
from credax.data import Dataset, Split
from credax.errors import InputError
from credax.prediction import ClassPrediction


def images(rows, seed=0):
    rng = np.random.default_rng(seed)
    return Split(rng.integers(0, 256, (rows, 4, 4, 1), np.uint8), rng.integers(0, 3, rows))


def test_ids_that_overlap_are_refused():
    check_rows([7, 8], [1, 2, 3], [4, 5])
    check_rows(np.array(["a", "b"]), np.array(["c"]))
    with pytest.raises(InputError, match=r"1 of 2 calibration rows \(first: row 1\) are training"):
        check_rows([7, 3], [1, 2, 3])
    with pytest.raises(InputError, match=r"2 of 2 calibration rows \(first: row 0\) are test rows"):
        check_rows([4, 5], [1, 2, 3], [4, 5])
    check_rows([4, 5], [1, 2, 3], [4, 5], allow_overlap=True)


def test_training_rows_are_refused_by_their_contents():
    training, held = images(5000), images(50, seed=1)
    refuse_training_rows(held, training)
    with pytest.raises(InputError, match=r"50 of 50 calibration rows .* held out .*allow_overlap"):
        refuse_training_rows(training[:50], training)
    mixed = Split(
        np.concatenate([held.x, training.x[4321:4322]]), np.append(held.y, training.y[4321])
    )
    with pytest.raises(InputError, match=r"1 of 51 calibration rows \(first: row 50\)"):
        refuse_training_rows(mixed, training)
    refuse_training_rows(mixed, training, allow_overlap=True)


def test_a_different_label_is_a_different_row():
    training = images(10)
    refuse_training_rows(Split(training.x, training.y + 1), training)


def test_digests_see_numbers_not_types():
    one = Split(np.array([[0.5, -0.0], [1.0, 2.0]], np.float64), np.array([1, 2]))
    two = Split(np.array([[0.5, 0.0], [1.0, 2.0]], np.float32), np.array([[1.0], [2.0]]))
    with pytest.raises(InputError, match="2 of 2 calibration rows"):
        refuse_training_rows(one, two)
    assert (row_digests(one, dtype=np.float32) == row_digests(two)).all()
    assert len(np.unique(row_digests(images(1000)))) == 1000


def test_rows_on_disk_are_read_in_blocks(tmp_path):
    split = images(9000)
    path = tmp_path / "x.npy"
    np.save(path, split.x)
    mapped = Split(np.load(path, mmap_mode="r"), split.y)
    np.testing.assert_array_equal(row_digests(mapped), row_digests(split))


def test_honestly_repeated_rows_pass_and_leaks_among_them_do_not():
    """A table of four different rows repeats itself; a copy of the training rows is still found."""
    rng = np.random.default_rng(0)

    def table(rows, values):
        return Split(rng.integers(0, values, (rows, 1)).astype(float), np.zeros(rows))

    refuse_training_rows(table(100, 4), table(1000, 4))
    # About one row in ten has a twin here; a calibration set of training rows has them all.
    training, held = table(1000, 10_000), table(200, 10_000)
    refuse_training_rows(held, training)
    with pytest.raises(InputError, match="200 of 200 calibration rows"):
        refuse_training_rows(training[:200], training)


def test_repeated_rows_pass_in_a_small_test_split_too():
    """Training rows that all come twice explain two common rows that the test split cannot."""

    def data(common):
        def split(values):
            return Split(np.asarray(values, float)[:, None], np.zeros(len(values)))

        twice, test = np.repeat(np.arange(2000), 2), np.arange(5000, 5100)
        own = np.append(test[:common], np.arange(9000, 9100 - common))
        return Dataset("table", split(twice), split(test), split(own), task="regression")

    assert len(calibration_rows(data(common=2))) == 100
    with pytest.raises(InputError, match=r"20 of 100 calibration rows .* are test rows"):
        calibration_rows(data(common=20))


def dataset(validation):
    return Dataset("toy", images(100), images(20, seed=1), validation)


def test_a_data_set_without_validation_rows_is_refused():
    with pytest.raises(InputError, match=r"'toy' has no validation split .*never the test rows"):
        calibration_rows(dataset(None))


def test_the_validation_split_must_be_its_own():
    own = images(30, seed=2)
    assert calibration_rows(dataset(own)) is own
    with pytest.raises(InputError, match=r"20 of 20 calibration rows .* are test rows"):
        calibration_rows(dataset(images(20, seed=1)))
    with pytest.raises(InputError, match="are training rows"):
        calibration_rows(dataset(images(100)))
    assert calibration_rows(dataset(images(100)), allow_overlap=True) is not None
    held = dataset(None).with_validation(0.2)
    assert len(calibration_rows(held)) == 20


def test_calibrate_checks_the_rows_it_is_given():
    split = images(40)
    p = ClassPrediction.from_logits(np.random.default_rng(0).standard_normal((1, 40, 3)))
    fitted = calibrate("temperature", p, split, training=images(50, seed=4))
    assert fitted.temperature == Temperature().fit(p, split.y).temperature
    assert calibrate(Temperature(), p, split.y).temperature == fitted.temperature
    with pytest.raises(InputError, match="40 of 40 calibration rows"):
        calibrate("temperature", p, split, training=split)
    assert calibrate("temperature", p, split, training=split, allow_overlap=True) is not None
    with pytest.raises(InputError, match="rows has no inputs to compare"):
        calibrate("temperature", p, split.y, training=split)
    with pytest.raises(InputError, match="apply_to came beside a record"):
        calibrate(Temperature(), p, split.y, apply_to="mixture")
    with pytest.raises(InputError, match="unknown calibrator 'temprature'; did you mean"):
        calibrate("temprature", p, split.y)
    assert calibrate("temperature", p, split.y, apply_to="mixture").apply_to == "mixture"


def test_objects_cannot_be_compared():
    split = Split(np.array([[None], ["a"]], object), np.zeros(2))
    with pytest.raises(InputError, match="rows of Python objects cannot be compared"):
        row_digests(split)
