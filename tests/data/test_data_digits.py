import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from credax.data import load
from credax.data.holdout import hold_out
from credax.errors import MissingExtra


def test_digits_are_scikit_learns_in_a_fixed_split():
    data = load("digits")
    assert data.train.x.shape == (1200, 8, 8, 1)
    assert data.test.x.shape == (597, 8, 8, 1)
    assert data.train.x.dtype == np.uint8
    assert data.train.x.max() == 16
    published = load_digits()
    rows = sorted(zip(map(bytes, published.images.astype(np.uint8)), published.target, strict=True))
    ours = [(bytes(x), y) for s in (data.train, data.test) for x, y in zip(s.x, s.y, strict=True)]
    assert sorted(ours) == rows
    np.testing.assert_array_equal(load("digits").test.x, data.test.x)


def test_classes_are_in_proportion_and_units_are_of_the_training_rows():
    data = load("digits")
    whole = np.bincount(np.concatenate([data.train.y, data.test.y]))
    assert np.abs(np.bincount(data.test.y) - whole * 597 / 1797).max() < 1
    assert data.train.inputs.mean.shape == ()
    standard = np.asarray(data.train.inputs(data.train.x))
    assert standard.mean() == pytest.approx(0, abs=1e-5)
    assert standard.std() == pytest.approx(1, abs=1e-5)


def test_without_scikit_learn_the_error_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtra, match=r"scikit-learn.*pip install 'credax\[data\]'"):
        load("digits")


@pytest.mark.parametrize("rows", [1, 7, 50, 99])
@pytest.mark.parametrize("seed", [0, 1])
def test_hold_out_takes_exactly_the_rows_in_proportion(rows, seed):
    y = np.repeat([0, 1, 2], [10, 30, 60])
    held = hold_out(y, rows, stratify=True, seed=seed)
    assert held.sum() == rows
    assert np.abs(np.bincount(y[held], minlength=3) - rows * np.array([0.1, 0.3, 0.6])).max() < 1
    assert hold_out(y, rows, stratify=False, seed=seed).sum() == rows
