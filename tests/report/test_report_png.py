"""The PNG writer, read back by another program's reader."""

import base64
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from credax.errors import InputError
from credax.report.png import data_uri, encode_png, to_pixels, value_range

image = pytest.importorskip("PIL.Image")


def read(data):
    with image.open(io.BytesIO(data)) as picture:
        picture.load()
        pixels = np.asarray(picture)
    return pixels[..., None] if pixels.ndim == 2 else pixels


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 3, 4]), st.integers(0, 99))
def test_pixels_survive(height, width, channels, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)
    np.testing.assert_array_equal(read(encode_png(pixels)), pixels)


def test_data_uri_holds_the_same_file():
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    kind, _, body = data_uri(pixels).partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(body) == encode_png(pixels)


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((2, 2), np.uint8),
        np.zeros((2, 2, 2), np.uint8),
        np.zeros((0, 2, 1), np.uint8),
        np.zeros((2, 2, 1), np.float32),
    ],
)
def test_what_is_not_a_picture(pixels):
    with pytest.raises(InputError, match="pixels has shape"):
        encode_png(pixels)


def test_floats_become_pixels():
    unit = np.array([0.0, 0.5, 1.0]).reshape(1, 3, 1)
    assert value_range(unit) == (0.0, 1.0)
    assert to_pixels(unit, 0.0, 1.0).ravel().tolist() == [0, 128, 255]
    wide = np.array([-2.0, np.nan, 0.0, np.inf, 2.0]).reshape(1, 5, 1)
    assert value_range(wide) == (-2.0, 2.0)
    assert to_pixels(wide, -2.0, 2.0).ravel().tolist()[::2] == [0, 128, 255]
    assert to_pixels(wide, -2.0, 2.0).dtype == np.uint8
    constant = np.full((1, 1, 1), 7.0)
    assert to_pixels(constant, *value_range(constant)).tolist() == [[[0]]]
    assert value_range(np.full((1, 1, 1), np.nan)) == (0.0, 1.0)


def test_bytes_stay_as_they_are():
    pixels = np.array([[[3], [250]]], np.uint8)
    assert value_range(pixels) == (0.0, 255.0)
    assert to_pixels(pixels, 0, 255) is pixels


def test_dark_bytes_are_stretched():
    pixels = np.array([[[0], [8], [16]]], np.uint8)
    assert value_range(pixels) == (0.0, 16.0)
    assert to_pixels(pixels, 0, 16).ravel().tolist() == [0, 128, 255]
    assert value_range(np.zeros((1, 1, 1), np.uint8)) == (0.0, 1.0)
