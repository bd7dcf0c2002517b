"""Numbers beyond single precision are refused before training, with the row or the column."""

import numpy as np
import pytest

import credax as cx
from credax.posterior import check_rows

PROBLEM = cx.Problem(cx.networks.MLP((), outputs=1), cx.Gaussian(1.0))


def fit(x, y, **units):
    split = cx.Split(x, y, **units)
    return cx.fit(PROBLEM, "single", split, training=cx.Training(1, 4), progress=False)


def rows(count=8):
    return np.random.default_rng(0).normal(size=(count, 2))


def test_inputs_beyond_float32_are_named_by_row():
    x = rows()
    x[5, 1] = 1e300
    with pytest.raises(cx.InputError, match=r"x holds 1e\+300 in row 5.*beyond single precision"):
        fit(x, x[:, 0])
    with pytest.raises(cx.InputError, match="in row 5"):
        check_rows(x, (2,))


def test_times_that_float32_cannot_tell_apart_are_named_by_column():
    x = rows()
    x[:, 1] += 1.7e9
    with pytest.raises(cx.InputError, match=r"column 1 of x varies by .*subtract its mean"):
        fit(x, x[:, 0])
    x[:, 1] = 1.7e9 + 1e6 * rows()[:, 1]  # eleven days: float32 tells two minutes apart
    fit(x, rows()[:, 0], inputs=cx.Standardise.of(x))


@pytest.mark.parametrize("factor", [1e20, 1e-21])
def test_targets_whose_variance_is_no_number_are_refused(factor):
    y = factor * rows()[:, 0]
    with pytest.raises(cx.InputError, match="y has a standard deviation of"):
        fit(rows(), y, targets=cx.Standardise.of(y))


def test_targets_beyond_float32_are_refused():
    with pytest.raises(cx.InputError, match="y holds 1e\\+40 in row 0"):
        fit(rows(), np.full(8, 1e40))
