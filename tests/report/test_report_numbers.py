"""Ticks, decimals, durations and sizes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from credax.errors import InputError
from credax.report import numbers

sizes = st.floats(1e-9, 1e9)


@given(st.floats(-1e6, 1e6), sizes)
def test_ticks_are_round_even_and_inside(low, span):
    high = low + span
    if not span > 1e-6 * abs(low):
        return
    values = numbers.ticks(low, high)
    assert 2 <= len(values) <= 9
    assert all(low - 1e-6 * span <= v <= high + 1e-6 * span for v in values)
    steps = np.diff(values)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-6)
    mantissa = steps[0] / 10 ** math.floor(math.log10(steps[0]) + 1e-6)
    assert min(abs(mantissa - m) for m in (1, 2, 5)) < 1e-5
    # No round value of the same step was left out at either end.
    assert values[0] - steps[0] < low
    assert values[-1] + steps[0] > high


@given(st.floats(-1e6, 1e6), sizes)
def test_labels_tell_ticks_apart(low, span):
    if not span > 1e-2 * abs(low):
        return
    labels = numbers.tick_labels(numbers.ticks(low, low + span))
    assert len(set(labels)) == len(labels)
    assert max(map(len, labels)) <= len("−5.96×10⁻⁸")


@given(sizes, st.floats(1.5, 1e12))
def test_logarithmic_ticks_rise_inside_the_axis(low, ratio):
    values = numbers.log_ticks(low, low * ratio)
    assert len(values) <= 12
    assert list(values) == sorted(set(values))
    assert all(low * 0.999 <= v <= low * ratio * 1.001 for v in values)
    if ratio >= 10:
        assert len(values) >= 1


def test_negative_zero_is_zero():
    assert str(numbers.ticks(-1.0, 1.0)[2]) != "-0.0"
    assert numbers.tick_labels(numbers.ticks(-1.0, 1.0)) == ["−1.0", "−0.5", "0.0", "0.5", "1.0"]


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan, 1)])
def test_axes_that_have_no_ticks(low, high):
    with pytest.raises(InputError, match="low < high"):
        numbers.ticks(low, high)
    with pytest.raises(InputError, match="low < high"):
        numbers.log_ticks(low, high)


def test_column_decimals_follow_values_and_errors():
    assert numbers.column_decimals([]) == 4
    assert numbers.column_decimals([math.nan, 0.0]) == 4
    assert numbers.column_decimals([12345.0]) == 0
    assert numbers.column_decimals([0.05]) == 4
    assert numbers.column_decimals([0.5], [3e-5]) == 6
    assert numbers.column_decimals([0.5], [1e-9, 0.0]) == 6


def test_words_for_times_and_sizes():
    assert numbers.duration(59.97) == "1 min 00 s"
    assert numbers.duration(3599.7) == "1 h 00 min"
    assert numbers.duration(0.0) == "0 s"
    assert numbers.size(0) == "0 B"
    assert numbers.size(999_999) == "1000 kB"
    assert numbers.size(3e15) == "3000 TB"
    assert numbers.duration(math.nan) == numbers.size(math.inf) == numbers.MISSING
    assert numbers.short(0.0) == "0.000"
    assert numbers.short(-1234.5678) == "−1235"
