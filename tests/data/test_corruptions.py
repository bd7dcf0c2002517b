"""What holds for every corruption: units, randomness, order, programs, and what is refused."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest
from corruption_pictures import pictures

from credax import data
from credax.data import Split, corrupt, corrupted, corruptions
from credax.data.corruptions import EXTRA, MAIN, Corruption, describe, names
from credax.errors import InputError
from credax.standardise import Standardise

pytestmark = pytest.mark.slow

STANDARD = names("standard")
ROWS = 128  # one step of the program for small images
X = pictures(ROWS)

# Severities between which the mean absolute change must grow. Where the published strengths are not
# ordered by it: glass blurs away at 3 and 5 what it shuffled at 2 and 4; motion 3 and 4 share a
# deviation and differ in a tail that is out of reach; frost dims the image from 3 on while it
# brightens; spatter turns from water to mud at 4; saturate from paler to stronger at 3; elastic
# trades its affine part for a local one.
GROWS = dict.fromkeys(names(), ((1, 2, 3, 4, 5),)) | {
    "glass_blur": ((1, 4), (3, 5)),
    "motion_blur": ((1, 2, 3, 5), (1, 2, 4, 5)),
    "frost": ((1, 2, 3),),
    "spatter": ((1, 2, 3), (4, 5)),
    "saturate": ((1, 2), (3, 4, 5)),
    "elastic_transform": (),
}


@pytest.fixture(scope="module")
def cells():
    """Every standard corruption of the same images at every severity."""
    return {(k, s): corrupt(X, k, s, key=0) for k in STANDARD for s in (1, 2, 3, 4, 5)}


@pytest.mark.parametrize("kind", STANDARD)
def test_severity_zero_is_clean_and_others_change_every_picture(cells, kind):
    assert np.array_equal(corrupt(X, kind, 0, key=0), X)
    for severity in (1, 2, 3, 4, 5):
        changed = cells[kind, severity]
        assert changed.shape == X.shape
        assert changed.dtype == np.uint8
        # The clearest, least dense case is a drop of water or none on 16 by 16 pixels.
        touched = (changed != X).any(axis=(1, 2, 3)).mean()
        assert touched > (0.5 if kind == "spatter" else 0.99)


@pytest.mark.parametrize("kind", STANDARD)
def test_change_grows_with_severity(cells, kind):
    change = {s: np.abs(cells[kind, s].astype(float) - X).mean() for s in (1, 2, 3, 4, 5)}
    for chain in GROWS[kind]:
        for weaker, stronger in itertools.pairwise(chain):
            assert change[weaker] < change[stronger], (kind, change)
    assert min(change.values()) > 1
    assert max(change.values()) < 64, "more than a quarter of the range on average"


@pytest.mark.parametrize("kind", STANDARD)
def test_a_row_does_not_depend_on_the_others(cells, kind):
    whole = cells[kind, 5]
    order = np.random.default_rng(0).permutation(ROWS)
    assert np.array_equal(corrupt(X[order], kind, 5, key=0, ids=order), whole[order])
    assert np.array_equal(corrupt(X[7:10], kind, 5, key=0, ids=[7, 8, 9]), whole[7:10])


@pytest.mark.parametrize("kind", STANDARD)
def test_randomness_comes_from_key_and_severity(cells, kind):
    assert np.array_equal(corrupt(X, kind, 5, key=jax.random.key(0)), cells[kind, 5])
    other = np.array_equal(corrupt(X, kind, 5, key=1), cells[kind, 5])
    drawn = kind not in {
        *("brightness", "contrast", "saturate", "pixelate", "jpeg_compression"),
        *("gaussian_blur", "defocus_blur", "zoom_blur"),
    }
    assert other == (not drawn)
    same = np.repeat(X[:1], 2, axis=0)
    first, second = corrupt(same, kind, 5, key=0)
    assert np.array_equal(first, second) == (not drawn)


def test_kinds_and_severities_draw_apart():
    record = describe("gaussian_noise")
    same = dataclasses.replace(record, severities=((0.1,),) * 5)
    grey = np.full((1, 16, 16, 3), 128, np.uint8)
    draws = [corrupt(grey, same, severity, key=0) for severity in (1, 2)]
    draws.append(corrupt(grey, dataclasses.replace(same, name="another"), 1, key=0))
    noise = np.stack(draws).reshape(3, -1) - 128.0
    off_diagonal = np.corrcoef(noise)[np.triu_indices(3, 1)]
    # Independent noise correlates by 1 / sqrt(768) = 0.036.
    assert np.abs(off_diagonal).max() < 0.15


def test_double_precision_of_the_caller_changes_nothing(cells, float64):
    for kind in ("gaussian_noise", "snow", "contrast"):
        assert np.array_equal(corrupt(X, kind, 5, key=0), cells[kind, 5])


@pytest.mark.parametrize("kind", names())
@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 28, 1), (32, 32, 3), (64, 64, 3), (9, 13, 4)])
def test_every_shape_is_kept(kind, shape):
    record = describe(kind)
    parameters = jax.ShapeDtypeStruct((len(record.severities[0]),), np.float32)
    image = jax.ShapeDtypeStruct(shape, np.float32)
    changed = jax.eval_shape(record.function, jax.random.key(0), image, parameters)
    assert (changed.shape, changed.dtype) == (shape, np.float32)


@pytest.mark.parametrize(
    ("kind", "side"), [("jpeg", 8), ("frost", 8), ("brightness", 28), ("glass_blur", 28)]
)
def test_grey_pictures(kind, side):
    x = pictures(4, side, channels=1)
    changed = corrupt(x, kind, 5, key=0)
    assert (changed.shape, changed.dtype) == (x.shape, x.dtype)
    assert 1 < np.abs(changed.astype(float) - x).mean() < 90


@pytest.mark.parametrize("kind", ["zoom_blur", "elastic"])
def test_larger_pictures(kind):
    x = pictures(2, 64)
    changed = corrupt(x, kind, 3, key=0)
    assert changed.shape == x.shape
    assert 1 < np.abs(changed.astype(float) - x).mean() < 64


def test_one_program_serves_all_severities_and_row_counts():
    traced = []

    def function(key, image, parameters):
        traced.append(image.shape)
        return image * parameters[0]

    record = Corruption("counted", "counts its traces", function, ((0.5,),) * 5)
    for rows in (1, 5, 128, 300):
        for severity in (1, 2, 5):
            x = np.resize(X, (rows, 16, 16, 3))
            halved = corrupt(x, record, severity, key=severity)
            np.testing.assert_allclose(halved, x / 2, atol=0.5)
    assert traced == [(16, 16, 3)]
    corrupt(pictures(2, 20), record, 1, key=0)
    assert traced == [(16, 16, 3), (20, 20, 3)]


def test_units_and_types_come_back():
    digits = np.round(pictures(3, 8, 1) / 255 * 16).astype(np.uint8)
    assert corrupt(digits, "contrast", 3, key=0, maximum=16).max() <= 16
    exact = digits.mean(axis=(1, 2), keepdims=True) * 0.6 + 0.4 * digits
    for dtype in (np.float32, np.float64):
        same = corrupt(digits.astype(dtype), "contrast", 3, key=0, maximum=16)
        assert same.dtype == dtype
        np.testing.assert_allclose(same, exact, atol=1e-5)
    unit = corrupt((digits / 16).astype(np.float32), "contrast", 3, key=0)
    np.testing.assert_allclose(unit, exact / 16, atol=1e-6)
    rounded = corrupt(digits, "contrast", 3, key=0, maximum=16)
    np.testing.assert_allclose(rounded, exact, atol=0.5 + 1e-3)
    wide = corrupt(digits.astype(np.int64), "contrast", 3, key=0, maximum=16)
    assert np.array_equal(wide, rounded)
    assert wide.dtype == np.int64


def test_no_rows_are_no_rows():
    assert corrupt(X[:0], "fog", 3, key=0).shape == (0, 16, 16, 3)


def test_split_keeps_units_targets_and_standardisation():
    inputs = Standardise(4.9, 6.0)
    digits = np.round(pictures(5, 8, 1) / 255 * 16).astype(np.uint8)
    digits[0, 0, 0] = 16
    split = Split(digits, np.arange(5), inputs)
    cells = list(corrupted(split, ("contrast", "digits/contrast"), (0, 5), key=3))
    assert [cell for cell, _ in cells] == [
        ("contrast", 0), ("contrast", 5), ("digits/contrast", 0), ("digits/contrast", 5)
    ]  # fmt: skip
    one = list(corrupted(split, describe("contrast"), (5,), key=3))
    assert one[0][0] == ("contrast", 5)
    assert np.array_equal(one[0][1].x, cells[1][1].x)
    for (kind, severity), changed in cells:
        assert changed.inputs is inputs
        assert np.array_equal(changed.y, split.y)
        assert changed.x.dtype == np.uint8
        expected = corrupt(digits, kind, severity, key=3, maximum=16)
        assert np.array_equal(changed.x, expected)


def test_suites_of_grey_pictures_leave_saturation_out():
    grey = Split(pictures(2, 8, 1), np.arange(2))
    colour = Split(pictures(2, 8, 3), np.arange(2))
    kinds = lambda split: {k for (k, _), _ in corrupted(split, "standard", (0,))}  # noqa: E731
    assert kinds(colour) == set(STANDARD)
    assert kinds(grey) == set(STANDARD) - {"saturate"}
    with pytest.raises(InputError, match="saturate changes colours and x has one channel"):
        corrupted(grey, ["saturate"])


def test_white_is_found_in_the_data():
    white = corruptions.white_of
    assert white(np.array([0, 255], np.uint8)) == 255
    assert white(np.array([0, 16.0])) == 16
    assert white(np.array([0.2, 0.9])) == 1
    assert white(np.array([300], np.int32)) == 65535
    with pytest.raises(InputError, match="x reaches 70000; images have values"):
        white(np.array([70000]))


def test_registry():
    assert len(MAIN) == 15
    assert len(EXTRA) == 4
    assert MAIN + EXTRA == STANDARD == names()[:19]
    assert len(names("digits")) == 6
    assert set(names("fast")) < set(STANDARD)
    assert data.corruptions is corruptions
    for name in names():
        record = describe(name)
        assert record.name == name
        assert len(record.severities) == 5
        assert len({len(parameters) for parameters in record.severities}) == 1
        assert record.description
        assert "\n" not in record.description
    assert describe("JPEG") is describe("jpeg-compression")
    with pytest.raises(InputError, match="unknown corruption 'fogg'; did you mean 'fog'"):
        describe("fogg")
    with pytest.raises(InputError, match="unknown suite of corruptions 'fats'; did you mean 'fast"):
        names("fats")
    with pytest.raises(InputError, match="unknown corruption 'everything'"):
        corrupted(Split(X, np.zeros(ROWS)), "everything")


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (X[0], {}, r"x has shape \(16, 16, 3\); give images \[rows, height"),
        (X[:, :3], {}, "images of 3 by 16 pixels; give at least 4 by 4"),
        (X > 0, {}, "x has type bool; give images of integers or floats"),
        (X.astype(np.int32), {}, "type int32, which does not say what white is"),
        (X.astype(float), {}, "x goes from .* to .*; give values from 0 to maximum, which is 1"),
        (X - 300.0, {"maximum": 255}, "x goes from -.*; give values from 0 to maximum"),
        (X * np.nan, {}, "x goes from nan to nan"),
        (X, {"maximum": 0}, "maximum is 0; give the value of white"),
        (X, {"maximum": 256}, "maximum is 256; give the value of white in x of type uint8"),
        (X, {"maximum": 254.5}, "maximum is 254.5; give"),
        (X, {"severity": 6}, "severity is 6; give 1 to 5, or 0"),
        (X, {"severity": -1}, "severity is -1; give 1 to 5, or 0"),
        (X, {"ids": [1, 2]}, r"ids has shape \(2,\) and type int64; give one whole number for"),
        (X[:2], {"ids": [0.5, 1]}, "ids has shape .* and type float64"),
        (X[:2], {"ids": [-1, 1]}, "ids goes from -1 to 1; give numbers from 0"),
    ],
)
def test_what_is_refused(x, options, message):
    with pytest.raises(InputError, match=message):
        corrupt(x, **{"kind": "contrast", "severity": 1, "key": 0} | options)


def test_faults_are_found_before_the_first_cell():
    split = Split(X, np.zeros(ROWS))
    with pytest.raises(InputError, match="severity is 7"):
        corrupted(split, "fast", (1, 7))
    with pytest.raises(InputError, match="ids has shape"):
        corrupted(split, "fast", ids=[1])
    with pytest.raises(InputError, match=r"x goes from 0 to 255; .* maximum, which is 16"):
        corrupted(Split(np.resize(np.uint8([0, 255]), (1, 8, 8, 1)), np.zeros(1)), maximum=16)
