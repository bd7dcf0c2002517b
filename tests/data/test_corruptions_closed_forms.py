"""Each corruption against its formula, or another library's way of computing the same."""

import colorsys
import dataclasses
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from corruption_pictures import assert_rounds, flat, pictures
from PIL import Image
from scipy import ndimage, stats

from credax.data import corrupt
from credax.data.corruptions import describe, digital, filters, noise

pytestmark = pytest.mark.slow

X = pictures(128)
ROUNDING = 1 / 12 / 255**2  # variance that rounding to bytes adds


def at(kind, *parameters):
    """The corruption with these parameters as severity 1."""
    return dataclasses.replace(describe(kind), severities=(parameters,) * 5)


def noise_of(kind, level, severity):
    x = flat(level)
    return (corrupt(x, kind, severity, key=0) / 255.0 - x / 255.0).ravel()


@pytest.mark.parametrize(("severity", "sigma"), [(1, 0.04), (5, 0.10)])
def test_gaussian_noise_has_its_variance(severity, sigma):
    errors = noise_of("gaussian_noise", 128, severity)
    variance = sigma**2 + ROUNDING
    standard_error = variance * np.sqrt(2 / errors.size)
    assert abs(errors.var() - variance) < 4 * standard_error
    assert abs(errors.mean()) < 4 * np.sqrt(variance / errors.size)


@pytest.mark.parametrize(("severity", "sigma"), [(1, 0.06), (5, 0.2)])
def test_speckle_noise_grows_with_the_light(severity, sigma):
    for level in (51, 128):
        errors = noise_of("speckle_noise", level, severity)
        variance = (sigma * level / 255) ** 2 + ROUNDING
        assert abs(errors.var() - variance) < 4 * variance * np.sqrt(2 / errors.size)


@pytest.mark.parametrize(("severity", "photons"), [(1, 500), (5, 50)])
def test_shot_noise_has_the_variance_of_counts(severity, photons):
    for level in (0.05, 0.4):
        x = np.full((128, 16, 16, 3), level, np.float32)
        counts = photons * corrupt(x, "shot_noise", severity, key=0).astype(float).ravel()
        np.testing.assert_allclose(counts, np.round(counts), atol=1e-3)
        mean = level * photons
        # The fourth central moment of a Poisson count is 3 mean^2 + mean.
        assert abs(counts.var() - mean) < 4 * np.sqrt((2 * mean**2 + mean) / counts.size)
        assert abs(counts.mean() - mean) < 4 * np.sqrt(mean / counts.size)


def test_poisson_quantiles_are_those_of_scipy():
    levels = (np.arange(20000, dtype=np.float32) + 0.5) / 20000
    means = np.array([0.0, 0.3, 2.0, 3.9, 4.1, 10.0, 60.0, 500.0], np.float32)
    counts = jax.jit(noise.poisson_quantile)(
        jnp.tile(levels, (len(means), 1)), jnp.tile(means[:, None], (1, len(levels)))
    )
    truth = stats.poisson.ppf(levels[None].astype(float), means[:, None].astype(float))
    truth[means == 0] = 0
    wrong = (np.asarray(counts) != truth).mean(axis=1)
    assert np.abs(np.asarray(counts) - truth).max() <= 1
    # Summed below a mean of 4 (float32 levels touch a step now and then), expanded above.
    assert wrong[means < 4].max() <= 2e-4
    assert wrong[means > 4].max() < 1.6e-3


@pytest.mark.parametrize(("severity", "share"), [(1, 0.01), (5, 0.07)])
def test_impulse_noise_replaces_its_share_by_both_ends(severity, share):
    changed = corrupt(flat(128), "impulse_noise", severity, key=0)
    assert set(np.unique(changed)) == {0, 128, 255}
    for end in (0, 255):
        error = np.sqrt(share / 2 * (1 - share / 2) / changed.size)
        assert abs((changed == end).mean() - share / 2) < 4 * error


@pytest.mark.parametrize(("severity", "factor"), [(1, 0.75), (5, 0.15)])
def test_contrast_is_about_the_mean_of_each_channel(severity, factor):
    mean = X.mean(axis=(1, 2), keepdims=True)
    assert_rounds(corrupt(X, "contrast", severity, key=0), mean + factor * (X - mean))


def test_brightness_is_the_value_of_hsv():
    changed = corrupt(X, "brightness", 5, key=0)[:6]
    truth = np.empty(changed.shape)
    for index in np.ndindex(changed.shape[:3]):
        hue, saturation, value = colorsys.rgb_to_hsv(*(X[index] / 255.0))
        truth[index] = colorsys.hsv_to_rgb(hue, saturation, min(value + 0.3, 1.0))
    assert_rounds(changed, 255 * truth)
    assert_rounds(corrupt(X[..., :1], "brightness", 5, key=0), X[..., :1] + 0.3 * 255)
    black = corrupt(flat(0, 1), "brightness", 5, key=0)
    assert_rounds(black, np.full(black.shape, 0.3 * 255))


@pytest.mark.parametrize(("severity", "gain", "offset"), [(2, 0.1, 0.0), (5, 2.5, 0.2)])
def test_saturate_is_the_saturation_of_hsv(severity, gain, offset):
    changed = corrupt(X, "saturate", severity, key=0)[:6]
    truth = np.empty(changed.shape)
    for index in np.ndindex(changed.shape[:3]):
        hue, saturation, value = colorsys.rgb_to_hsv(*(X[index] / 255.0))
        stronger = min(saturation * gain + offset, 1.0) if saturation else 0.0
        truth[index] = colorsys.hsv_to_rgb(hue, stronger, value)
    assert_rounds(changed, 255 * truth)
    grey = flat(90, 1)
    assert np.array_equal(corrupt(grey, "saturate", 5, key=0), grey)


@pytest.mark.parametrize(("severity", "sigma"), [(1, 0.4), (5, 1.0)])
def test_gaussian_blur_is_that_of_scipy(severity, sigma):
    truth = ndimage.gaussian_filter(
        X.astype(float), (0, sigma, sigma, 0), mode="reflect", truncate=8
    )
    assert_rounds(corrupt(X, "gaussian_blur", severity, key=0), truth)


def test_gaussian_blur_scales_with_large_pictures_only():
    for side, sigma in ((8, 1.0), (64, 2.0)):
        x = pictures(2, side, 1)
        truth = ndimage.gaussian_filter(x.astype(float), (0, sigma, sigma, 0), truncate=8)
        assert_rounds(corrupt(x, "gaussian_blur", 5, key=0), truth)


@pytest.mark.parametrize(
    ("severity", "radius", "edge"), [(2, 0.4, 0.5), (4, 1, 0.2), (5, 1.5, 0.1)]
)
def test_defocus_is_a_disc_with_a_soft_edge(severity, radius, edge):
    grid = np.arange(-5, 6)
    disc = (grid[:, None] ** 2 + grid**2 <= radius**2).astype(float)
    kernel = ndimage.gaussian_filter(disc / disc.sum(), edge, truncate=8)
    truth = ndimage.correlate(X.astype(float), kernel[None, :, :, None], mode="reflect")
    assert_rounds(corrupt(X, "defocus_blur", severity, key=0), truth)


@pytest.mark.parametrize(
    "kind", ["gaussian_blur", "defocus_blur", "glass_blur", "motion_blur", "zoom_blur", "pixelate"]
)
def test_blurs_keep_constants(kind):
    x = flat(77)
    assert np.array_equal(corrupt(x, kind, 5, key=0), x)


@pytest.mark.parametrize("kind", ["gaussian_blur", "defocus_blur"])
def test_symmetric_blurs_keep_the_total(kind):
    changed = corrupt(X, kind, 5, key=0).astype(float)
    # Rounding 256 values has a standard deviation of 0.018 of their mean.
    np.testing.assert_allclose(changed.mean(axis=(1, 2)), X.mean(axis=(1, 2)), rtol=0, atol=0.1)


def test_gaussian_matrix_is_doubly_stochastic():
    build = jax.jit(filters.gaussian_matrix, static_argnums=0)
    for sigma in (0.0, 0.4, 1.2, 3.0):
        matrix = np.asarray(build(8, jnp.float32(sigma)))
        np.testing.assert_allclose(matrix.sum(axis=0), 1, rtol=1e-6)
        np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-6)


def test_glass_moves_pixels_and_loses_none():
    changed = corrupt(X, at("glass_blur", 0.0, 1, 2), 1, key=0)
    as_sets = lambda x: np.sort(x.reshape(len(x), -1, 3).view("u1,u1,u1")[..., 0])  # noqa: E731
    assert np.array_equal(as_sets(changed), as_sets(X))
    marks = np.zeros((128, 16, 16, 3), np.uint8)
    marks[..., 0], marks[..., 1] = np.mgrid[:16, :16]
    moved = corrupt(marks, at("glass_blur", 0.0, 1, 1), 1, key=0).astype(int) - marks
    # Two pairings along each axis: at most two pixels either way, about one on average.
    assert np.abs(moved[..., :2]).max() == 2
    assert 0.5 < np.sqrt((moved[..., :2] ** 2).sum(axis=-1).mean()) < 2


def test_motion_leaves_a_trail_to_one_side_within_45_degrees():
    x = np.zeros((128, 33, 33, 1), np.uint8)
    x[:, 16, 8] = 255
    trail = corrupt(x, "motion_blur", 5, key=0)[..., 0].astype(float)
    weight = trail.sum(axis=(1, 2))
    # Bytes of a faint trail: each of some 20 pixels may be rounded by a half.
    np.testing.assert_allclose(weight, 255, atol=10)
    down, right = np.mgrid[:33, :33]
    right = ((right - 8) * trail).sum(axis=(1, 2)) / weight
    down = ((down - 16) * trail).sum(axis=(1, 2)) / weight
    assert trail[:, :, :8].max() == 0
    angle = np.degrees(np.arctan2(down, right))
    assert np.abs(angle).max() < 46
    # Uniform on (-45, 45): mean 0 and deviation 26 degrees, standard errors 2.3 and 1.2.
    assert abs(angle.mean()) < 9.2
    assert abs(angle.std() - 26) < 5
    # The mean of |N(0, sigma)| is 0.8 sigma; the first of the discrete steps weighs double that.
    length = np.hypot(right, down)
    assert 1.2 < length.mean() / (33 / 32) < 2.0


def test_zoom_is_the_mean_of_enlargements():
    x = X[:2].astype(float)
    centred = np.arange(16) - 7.5
    zooms = 1 + 0.01 * np.arange(26)
    total = x.copy()
    for zoom in zooms:
        rows, columns = np.meshgrid(*2 * [centred / zoom + 7.5], indexing="ij")
        for picture, sums in zip(x, total, strict=True):
            for channel in range(3):
                sums[..., channel] += ndimage.map_coordinates(
                    picture[..., channel], [rows, columns], order=1
                )
    truth = total / (len(zooms) + 1)
    changed = corrupt(X, "zoom_blur", 5, key=0)[:2]
    # The enlargements are spread over the same range in 5 steps rather than 26.
    assert np.abs(changed - truth).mean() < 1.5
    assert np.abs(changed - truth).mean() < 0.15 * np.abs(truth - x).mean()


def test_pixelate_is_block_means():
    halves = corrupt(X, at("pixelate", 0.5), 1, key=0)
    blocks = X.reshape(128, 8, 2, 8, 2, 3).mean(axis=(2, 4))
    assert_rounds(halves, blocks.repeat(2, axis=1).repeat(2, axis=2))
    for severity in (1, 3, 5):
        once = corrupt(X, "pixelate", severity, key=0)
        assert np.array_equal(corrupt(once, "pixelate", severity, key=0), once)


@pytest.mark.parametrize(("severity", "share"), [(1, 0.95), (3, 0.85), (5, 0.65)])
def test_pixelate_is_the_box_of_pillow(severity, share):
    changed = corrupt(X, "pixelate", severity, key=0)[:8]
    small = 2 * [int(16 * share)]
    for ours, clean in zip(changed, X, strict=False):
        box = Image.fromarray(clean).resize(small, Image.Resampling.BOX)
        theirs = np.asarray(box.resize((16, 16), Image.Resampling.BOX)).astype(float)
        # Pillow rounds in between, once along each axis.
        assert np.abs(ours - theirs).max() <= 1


def pillow_jpeg(picture, quality):
    out = io.BytesIO()
    Image.fromarray(picture.squeeze()).save(out, "JPEG", quality=quality)
    with Image.open(out) as read:
        return np.asarray(read).reshape(picture.shape)


def decibels(first, second):
    return 10 * np.log10(255**2 / ((first.astype(float) - second) ** 2).mean())


@pytest.mark.parametrize("shape", [(16, 16, 3), (28, 28, 1), (21, 27, 3)])
def test_jpeg_is_that_of_pillow(shape):
    height, width, channels = shape
    x = np.ascontiguousarray(pictures(16, max(shape), channels)[:, :height, :width])
    for quality in (80, 40, 20):
        ours = corrupt(x, at("jpeg", quality), 1, key=0)
        theirs = np.stack([pillow_jpeg(picture, quality) for picture in x])
        # Measured 48 to 58 dB: the arithmetic of the codec, not its loss (20 to 35 dB).
        assert decibels(ours, theirs) > 45
        assert abs(decibels(ours, x) - decibels(theirs, x)) < 0.1


def test_jpeg_at_full_quality_changes_little():
    grey = pictures(4, 28, channels=1)
    assert np.abs(corrupt(grey, at("jpeg", 100), 1, key=0) - grey.astype(float)).max() <= 2
    # Colour is halved even at full quality: smooth images stay, edges of pure colour bleed.
    smooth = ndimage.gaussian_filter(X.astype(float), (0, 2, 2, 0)).astype(np.uint8)
    assert decibels(corrupt(smooth, at("jpeg", 100), 1, key=0), smooth) > 38


def test_fog_spans_its_whole_range_over_white():
    for severity, weight in ((1, 0.2), (5, 1.5)):
        foggy = corrupt(flat(255), "fog", severity, key=0)
        low, high = foggy.min(axis=(1, 2, 3)), foggy.max(axis=(1, 2, 3))
        assert_rounds(low, np.full(128, 255 / (1 + weight)))
        assert_rounds(high, np.full(128, 255.0))
        assert np.array_equal(foggy[..., 0], foggy[..., 2])


def test_frost_is_white_blue_and_covers_black_by_its_weight():
    ice = corrupt(flat(0), "frost", 5, key=0).astype(float)
    assert ice.max() <= 0.45 * 255 + 0.5
    assert 0.3 < ice[..., 2].mean() / (0.45 * 255) < 0.7
    assert (ice[..., 2] >= ice[..., 0]).all()
    assert (ice.reshape(128, -1).std(axis=1) > 8).all(), "crystals, not a veil"


def test_snow_falls_twice_and_whitens_by_its_mix():
    snow = corrupt(flat(0), "snow", 3, key=0)
    assert np.array_equal(snow, snow[:, ::-1, ::-1])
    assert_rounds(snow.min(), 0.1 * 0.5 * 255)
    flakes = snow.astype(float).mean() - snow.min()
    assert 1 < flakes < 40


def test_water_brightens_and_mud_covers():
    wet = corrupt(X, "spatter", 3, key=0)
    assert (wet >= X).all()
    muddy = corrupt(flat(255), "spatter", 5, key=0)
    covered = (muddy < 255).any(axis=-1)
    assert 0.005 < covered.mean() < 0.2
    shade = muddy[covered].astype(float)
    # Every covered pixel lies between mud and the white behind it, at least 0.8 of the way.
    mud = np.array([63.0, 42.0, 20.0])
    assert (shade >= mud - 0.5).all()
    assert (shade <= 0.8 * mud + 0.2 * 255 + 0.5).all()


def test_sampling_is_that_of_scipy():
    rng = np.random.default_rng(0)
    image = rng.uniform(size=(7, 9, 2)).astype(np.float32)
    rows, columns = rng.uniform(-6, 14, (2, 7, 9)).astype(np.float32)
    ours = jax.jit(digital.sample)(image, rows, columns)
    for channel in range(2):
        truth = ndimage.map_coordinates(
            image[..., channel].astype(float), [rows, columns], order=1, mode="reflect"
        )
        np.testing.assert_allclose(ours[..., channel], truth, atol=1e-5)


def test_elastic_moves_three_points_by_its_affine_part():
    still = corrupt(X, at("elastic_transform", 0.0, 0.0, 0.0), 1, key=0)
    assert np.array_equal(still, X)
    ramps = np.zeros((128, 16, 16, 3), np.uint8)
    ramps[..., 0], ramps[..., 1] = 10 * np.mgrid[:16, :16]
    affine = corrupt(ramps, at("elastic_transform", 0.0, 0.0, 0.05), 1, key=0).astype(float)
    moved = (affine - ramps)[..., :2] / 10
    inner = moved[:, 4:12, 4:12]
    # An affine map of ramps has no second differences, up to the rounding of tenths of a pixel.
    assert np.abs(np.diff(inner, 2, axis=1)).max() <= 0.2 + 1e-6
    corners = moved[:, [13, 13, 3], [13, 3, 3]]
    assert np.abs(corners).max() <= 0.05 * 16 + 0.05 + 1e-6
    # Uniform on (-0.8, 0.8): deviation 0.46.
    assert abs(corners.std() - 0.8 / np.sqrt(3)) < 0.05


def test_shift_moves_one_pixel_and_repeats_the_edge():
    x = X[..., :1]
    moved = corrupt(x, "digits/shift", 5, key=0)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    choices = [
        padded[:, 1 + i : 17 + i, 1 + j : 17 + j] for i, j in ((-1, 0), (1, 0), (0, -1), (0, 1))
    ]
    which = np.stack([(moved == choice).all(axis=(1, 2, 3)) for choice in choices])
    assert which.any(axis=0).all()
    # 128 fair draws of four: 32 each, deviation 4.9.
    assert (which.sum(axis=1) > 12).all()
    blended = corrupt(x, "digits/shift", 1, key=0)
    options = [0.8 * x + 0.2 * choice for choice in choices]
    near = np.stack(
        [np.abs(blended - option).max(axis=(1, 2, 3)) <= 0.5 + 1e-3 for option in options]
    )
    assert near.any(axis=0).all()
