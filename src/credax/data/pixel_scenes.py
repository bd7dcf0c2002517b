"""Generated pictures whose truth is known at every pixel: shapes on textures, and depths."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from credax.data.dataset import Dataset, Split
from credax.data.folder import channel_units
from credax.data.holdout import checked_seed
from credax.data.pixel_form import IGNORE, PixelForm
from credax.data.source import Source
from credax.errors import InputError
from credax.standardise import Standardise

CLASSES = ("background", "disc", "square")
BORDER = 1.2
"""Pixels over which the probability of a shape's label falls from 0.73 to 0.27, from its border."""
_COLOURS = np.array([[70, 90, 150], [190, 120, 70], [90, 180, 100], [200, 60, 190]], float)
_WAVES = np.array([[0.11, 0.05], [0.03, 0.17], [0.21, 0.13], [0.38, -0.36]])
_RIPPLE, _GRAIN = 18.0, 4.0


class Scenes(NamedTuple):
    """Pictures, targets, and the truth that targets were drawn from."""

    x: np.ndarray
    """Bytes ``[rows, size, size, 3]``."""
    y: np.ndarray
    """Labels, or noisy depths, ``[rows, size, size]``."""
    truth: Float[np.ndarray, "..."]
    """Probabilities of the classes ``[rows, size, size, 3]``, or the depth without noise."""
    noise: Float[np.ndarray, "rows height width"]
    """Entropy of the true probabilities in nats, or the variance of the noise."""
    unseen: np.ndarray
    """Pixels with a texture that is in no training picture."""


def draw_shapes(seed: int, rows: int, *, size: int = 32, unseen: bool = False) -> Scenes:
    """A disc and a square on a textured ground, whose borders are ambiguous.

    At signed distance ``d`` from its border a shape has the probability ``σ(-d / 1.2)``: the
    colours are mixed by it and the label of each pixel is drawn from it, so that the label noise
    is known, ``H[p]``. With ``unseen`` a patch of another texture lies in every picture; its
    pixels have the label to ignore.

    >>> scenes = draw_shapes(0, 2, size=16)
    >>> scenes.x.shape, scenes.truth.shape, bool(np.allclose(scenes.truth.sum(-1), 1))
    ((2, 16, 16, 3), (2, 16, 16, 3), True)
    """
    rng = np.random.default_rng([checked_seed("seed", seed), 11])
    down, across = _axes(size)
    disc = _disc(rng, rows, size)
    square = _square(rng, rows, size)
    disc, square = (1 / (1 + np.exp(np.clip(d / BORDER, -60, 60))) for d in (disc, square))
    p = np.stack([(1 - disc) * (1 - square), disc, (1 - disc) * square], axis=-1)
    label = (rng.random(p.shape[:-1])[..., None] > np.cumsum(p, -1)[..., :-1]).sum(-1)
    phase = rng.uniform(0, 2 * np.pi, (rows, len(_COLOURS), 1, 1))
    angle = 2 * np.pi * (_WAVES[:, :1, None] * down + _WAVES[:, 1:, None] * across)
    wave = _RIPPLE * np.sin(angle + phase)
    textures = _COLOURS[:, None, None] + wave[..., None]
    x = np.einsum("rhwk,rkhwc->rhwc", p, textures[:, : len(CLASSES)])
    other = np.zeros(p.shape[:-1], bool)
    if unseen:
        other = _disc(rng, rows, size) < 0
        x = np.where(other[..., None], textures[:, -1], x)
        label = np.where(other, IGNORE, label)
    x = x + _GRAIN * rng.normal(size=x.shape)
    entropy = -np.sum(p * np.log(np.maximum(p, 1e-300)), axis=-1)
    return Scenes(_bytes(x), label.astype(np.int32), p, entropy, other)


def draw_depths(seed: int, rows: int, *, size: int = 32, unseen: bool = False) -> Scenes:
    """A floor that recedes with boxes on it; haze tells the depth, the colour its noise.

    Depth is 2 to 8 units. ``y = depth + noise N(0, 1)``, the standard deviation of which is 4 % of
    the depth on blue and 16 % on red surfaces. With ``unseen`` a patch of another texture covers
    part of every picture; its depth is not known (NaN).

    >>> scenes = draw_depths(0, 2, size=16)
    >>> scenes.y.shape, bool((scenes.noise > 0).all())
    ((2, 16, 16), True)
    """
    rng = np.random.default_rng([checked_seed("seed", seed), 12])
    down, across = _axes(size)
    depth = np.broadcast_to(8 - 5.5 * down / (size - 1), (rows, size, size)).copy()
    red = np.zeros(depth.shape, bool)
    red |= np.sin(2 * np.pi * across / size + rng.uniform(0, 6.28, (rows, 1, 1))) > 0.6
    for _ in range(2):
        box = _square(rng, rows, size) < 0
        near = rng.uniform(2, 6, (rows, 1, 1))
        depth = np.where(box, near, depth)
        red = np.where(box, rng.random((rows, 1, 1)) < 0.5, red)
    haze = np.exp(-depth / 5)[..., None]
    surface = np.where(red[..., None], [255.0, 80.0, 60.0], [60.0, 120.0, 255.0])
    x = haze * surface + (1 - haze) * 200.0
    other = np.zeros(depth.shape, bool)
    deviation = np.where(red, 0.16, 0.04) * depth
    y = np.maximum(depth + deviation * rng.normal(size=depth.shape), 0.01)
    if unseen:
        other = _disc(rng, rows, size) < 0
        wave = np.sin(2 * np.pi * (_WAVES[-1, 0] * down + _WAVES[-1, 1] * across))
        x = np.where(other[..., None], _COLOURS[-1] + 40 * wave[..., None], x)
        y = np.where(other, np.nan, y)
    x = x + _GRAIN * rng.normal(size=x.shape)
    return Scenes(_bytes(x), y.astype(np.float32), depth, deviation**2, other)


def shapes(*, seed: int = 0, train: int = 200, test: int = 100, size: int = 32) -> Dataset:
    """`draw_shapes` as a data set of three classes; test pictures have no unseen texture."""
    first, second = (
        draw_shapes(2 * seed + part, rows, size=size)
        for part, rows in enumerate(_rows(train, test, size))
    )
    units, form = channel_units(first.x), PixelForm(size, size, 3)
    train_rows, test_rows = (Split(s.x, s.y, units, pixels=form) for s in (first, second))
    return Dataset("pixels/shapes", train_rows, test_rows, class_names=CLASSES, preparation=form)


def depths(*, seed: int = 0, train: int = 200, test: int = 100, size: int = 32) -> Dataset:
    """`draw_depths` as a data set; test pictures have no unseen texture."""
    first, second = (
        draw_depths(2 * seed + part, rows, size=size)
        for part, rows in enumerate(_rows(train, test, size))
    )
    units, form = channel_units(first.x), PixelForm(size, size, 3, None)
    targets = Standardise(np.mean(first.y), np.std(first.y))
    train_rows, test_rows = (Split(s.x, s.y, units, targets, pixels=form) for s in (first, second))
    return Dataset(
        "pixels/depth",
        train_rows,
        test_rows,
        task="regression",
        target_names=("depth",),
        preparation=form,
    )


SOURCES = (
    Source(
        "pixels/shapes",
        "a class at every pixel: shapes with ambiguous borders, label noise known",
        "classification",
        (32, 32, 3),
        shapes,
    ),
    Source(
        "pixels/depth",
        "a depth at every pixel: boxes in haze, noise known",
        "regression",
        (32, 32, 3),
        depths,
    ),
)


def _rows(train: int, test: int, size: int) -> tuple[int, int]:
    for name, rows in (("train", train), ("test", test)):
        if rows < 1:
            raise InputError(f"{name} is {rows}; give at least one picture")
    if size < 8:
        raise InputError(f"size is {size}; give at least 8 pixels")
    return train, test


def _axes(size: int) -> tuple[np.ndarray, np.ndarray]:
    down, across = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    return down.astype(float), across.astype(float)


def _place(rng: np.random.Generator, rows: int, size: int) -> tuple[np.ndarray, ...]:
    """Centres and radii of shapes that lie mostly inside."""
    centre = rng.uniform(0.2, 0.8, (2, rows, 1, 1)) * size
    return centre[0], centre[1], rng.uniform(0.14, 0.28, (rows, 1, 1)) * size


def _disc(rng: np.random.Generator, rows: int, size: int) -> np.ndarray:
    """Signed distance from a disc's border, negative inside."""
    down, across = _axes(size)
    y, x, radius = _place(rng, rows, size)
    return np.hypot(down - y, across - x) - radius


def _square(rng: np.random.Generator, rows: int, size: int) -> np.ndarray:
    """Distance from a square's border in the larger of both directions, negative inside."""
    down, across = _axes(size)
    y, x, radius = _place(rng, rows, size)
    return np.maximum(np.abs(down - y), np.abs(across - x)) - radius


def _bytes(x: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x), 0, 255).astype(np.uint8)
