"""Images with a label per pixel, scored by the same metrics as rows."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Integer, Key

from credax.errors import InputError
from credax.prediction import ClassPrediction, Prediction


def pixels(
    log_probs: Float[Array, "members batch *space classes"],
    y: Integer[Array, "..."],
    *,
    ignore_label: int | None = None,
    rate: float = 1.0,
    key: Key[Array, ""] | int | None = None,
) -> tuple[ClassPrediction, np.ndarray]:
    """Every pixel as a row, without those to ignore; or a random share ``rate`` of them.

    Metrics of the rows are then global: counts and rankings of all pixels together, never means
    over images. Metrics that sort (`aurc`, `auroc_correct`, `smooth_ece`) are commonly given a
    share only; the same ``key`` picks the same pixels.

    >>> log_probs = np.log(np.full((2, 1, 2, 2, 3), 1 / 3))
    >>> prediction, labels = pixels(log_probs, np.array([[[0, 1], [2, 255]]]), ignore_label=255)
    >>> prediction.log_probs.shape, labels.tolist()
    ((2, 3, 3), [0, 1, 2])
    """
    labels = np.asarray(y)
    if log_probs.ndim < 3 or log_probs.shape[1:-1] != labels.shape:
        raise InputError(
            f"y has shape {labels.shape} and log_probs {log_probs.shape}; log_probs has the axes "
            "of y between members and classes"
        )
    counted = np.ones(labels.size, bool) if ignore_label is None else labels != ignore_label
    kept = _chosen(counted.reshape(-1), rate, key, ignore_label)
    flat = log_probs.reshape(log_probs.shape[0], -1, log_probs.shape[-1])
    return ClassPrediction(flat[:, kept]), labels.reshape(-1)[kept]


def pixel_rows(
    prediction: Prediction,
    y: Any,
    *,
    ignore_label: int | None = None,
    rate: float = 1.0,
    key: Key[Array, ""] | int | None = None,
) -> tuple[Any, np.ndarray]:
    """`pixels` of any prediction on a grid, of classes or of numbers; NaN targets do not count.

    >>> p = ClassPrediction.from_probs(np.full((2, 1, 2, 2, 3), 1 / 3))
    >>> rows, labels = pixel_rows(p, np.array([[[0, 1], [2, 255]]]), ignore_label=255)
    >>> rows.num_members, rows.probs.shape, labels.tolist()
    (2, (3, 3), [0, 1, 2])
    """
    y = np.asarray(y)
    grid = grid_shape(prediction)
    if y.shape[: len(grid)] != grid:
        raise InputError(f"y has shape {y.shape}; this prediction needs a target for {grid} pixels")
    flat = y.reshape(-1, *y.shape[len(grid) :])
    counted = counted_pixels(flat, ignore_label)
    kept = _chosen(counted, rate, key, ignore_label)
    every = rate == 1 and len(kept) == len(flat)
    rows = flattened(prediction)
    return (rows, flat) if every else (rows.select(kept), flat[kept])


def counted_pixels(y: np.ndarray, ignore_label: int | None) -> Bool[np.ndarray, "..."]:
    """Which of the targets ``[pixels]`` or ``[pixels, targets]`` count."""
    if y.dtype.kind == "f":
        return np.asarray(np.isfinite(y.reshape(len(y), -1)).all(axis=1))
    return np.ones(len(y), bool) if ignore_label is None else np.asarray(y != ignore_label)


def grid_shape(prediction: Prediction) -> tuple[int, ...]:
    """The axes of a prediction between members and classes or targets."""
    if isinstance(prediction, ClassPrediction):
        return tuple(prediction.log_probs.shape[1:-1])
    return tuple(prediction.means.shape[1:-1])


def flattened(prediction: Any) -> Any:
    """Every pixel as a row; the numbers are not copied."""
    axes = len(grid_shape(prediction))
    pixels = int(np.prod(grid_shape(prediction), dtype=int))
    return jax.tree.map(
        lambda leaf: leaf.reshape(leaf.shape[0], pixels, *leaf.shape[1 + axes :]), prediction
    )


def boundary(
    y: Any, width: int = 2, ignore_label: int | None = None
) -> Bool[np.ndarray, "batch height width"]:
    """Pixels within ``width`` of one with another label, by rows or columns (a square window).

    ``y`` are labels ``[batch, height, width]``.
    Pixels to ignore have no label: nothing is a boundary to them.

    >>> boundary(np.array([[[0, 0, 0, 1]]]), 1).tolist()
    [[[False, False, True, True]]]
    """
    y = np.asarray(y)
    if y.ndim != 3 or width < 1:
        raise InputError(
            f"y has shape {y.shape} and width is {width}; give labels [batch, height, width] and "
            "a width of at least 1"
        )
    counted = np.ones(y.shape, bool) if ignore_label is None else y != ignore_label
    lowest, highest = (np.where(counted, y, fill) for fill in (np.iinfo(np.int32).max, -1))
    for axis in (1, 2):
        lowest, highest = (
            _over_window(values, width, axis, best)
            for values, best in ((lowest, np.minimum), (highest, np.maximum))
        )
    return counted & (lowest < highest)


def _over_window(values: np.ndarray, width: int, axis: int, best: Any) -> np.ndarray:
    pads = [(width, width) if a == axis else (0, 0) for a in range(values.ndim)]
    padded, size = np.pad(values, pads, mode="edge"), values.shape[axis]
    shifts = [np.take(padded, np.arange(s, s + size), axis) for s in range(2 * width + 1)]
    return best.reduce(shifts)


def _chosen(
    counted: np.ndarray, rate: float, key: Key[Array, ""] | int | None, ignore_label: int | None
) -> np.ndarray:
    """Positions of pixels that count, or of a random share of them."""
    if not 0 < rate <= 1:
        raise InputError(f"rate is {rate}; give a share above 0 and at most 1")
    kept = np.flatnonzero(counted)
    if rate < 1:
        if key is None:
            raise InputError(f"rate is {rate} and key is None; give a key so that the pick repeats")
        key = jax.random.key(key) if isinstance(key, int) else key
        chosen = np.asarray(jax.random.uniform(key, counted.shape) < rate)
        kept = kept[chosen[kept]]
    if not kept.size:
        raise InputError(
            f"no pixel is left: y has {counted.size}, ignore_label is {ignore_label} and rate "
            f"{rate}"
        )
    return kept
