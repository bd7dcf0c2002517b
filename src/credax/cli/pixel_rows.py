"""Runs with a target at every pixel: scores over all pixels, and a sample of them for figures."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from credax.data import Split
from credax.metrics.pixel_scores import score_pixels
from credax.metrics.segmentation import pixel_rows
from credax.posterior import Posterior
from credax.prediction import ClassPrediction, Prediction, concatenate
from credax.report.result import Maps

MOST_PIXELS = 100_000
"""Pixels whose members' predictions are kept for figures and calibration."""
_ENTRIES = 2**24
_SHOWN = 3


class PixelsFound(NamedTuple):
    """A sample of pixels as rows, their targets, scores over all pixels, and maps to draw."""

    prediction: Prediction
    y: np.ndarray
    scores: dict[str, float]
    maps: Maps | None


def predict_pixels(
    posterior: Posterior, split: Split, class_names: tuple[str, ...] = ()
) -> PixelsFound:
    """Predict all pictures, a few at a time, and score every pixel that counts."""
    assert split.pixels is not None
    form, sample, errors = split.pixels, [], []
    total = max(1, int(form.counts(split.y).sum()))
    rate = min(1.0, MOST_PIXELS / total)

    def batches() -> Iterator[tuple[Prediction, np.ndarray]]:
        for start, prediction in batches_of(posterior, split.x):
            y = split.y[start : start + _rows(prediction)]
            errors.append(_errors(prediction, y, form.counts(y)))
            if form.counts(y).any():
                own: Any = {"rate": rate, "key": start} if rate < 1 else {}
                sample.append(_some(prediction, y, form.ignore_label, own))
            yield prediction, y

    scores = score_pixels(batches(), ignore_label=form.ignore_label, class_names=class_names)
    rows = concatenate([part for part, _ in sample])
    y = np.concatenate([labels for _, labels in sample])
    maps = _maps(posterior, split, np.concatenate(errors))
    return PixelsFound(jax.tree.map(np.asarray, rows), y, dict(scores), maps)


def sampled_pixels(posterior: Posterior, split: Split) -> tuple[Prediction, Split]:
    """A sample of pixels as rows: their prediction, and their targets as a split without inputs."""
    found = predict_pixels(posterior, split)
    return found.prediction, Split(np.zeros((len(found.y), 1), np.float32), found.y)


def all_pixels(posterior: Posterior, x: np.ndarray) -> Prediction:
    """A sample of the pixels of pictures without targets, as rows."""
    rate = min(1.0, MOST_PIXELS / max(1, int(np.prod(x.shape[:3], dtype=int))))
    parts = []
    for start, prediction in batches_of(posterior, x):
        empty = np.zeros((_rows(prediction), *x.shape[1:3]), np.int32)
        own: Any = {"rate": rate, "key": start} if rate < 1 else {}
        parts.append(_some(prediction, empty, None, own)[0])
    return jax.tree.map(np.asarray, concatenate(parts))


def _some(prediction: Any, y: np.ndarray, ignore_label: int | None, own: dict[str, Any]) -> Any:
    return pixel_rows(prediction, y, ignore_label=ignore_label, **own)


def _rows(prediction: Any) -> int:
    return jax.tree.leaves(prediction)[0].shape[1]


def batches_of(posterior: Posterior, x: np.ndarray) -> Iterator[tuple[int, Prediction]]:
    """Predictions of a few pictures at a time, so many that the members' outputs stay small."""
    each = posterior.num_members * int(np.prod(x.shape[1:3], dtype=int)) * 32
    size = max(1, min(len(x), _ENTRIES // each))
    for start in range(0, len(x), size):
        yield start, posterior.predict(x[start : start + size])


def _errors(prediction: Any, y: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """The share of wrong pixels of each picture, or its mean absolute error; NaN of none."""
    if isinstance(prediction, ClassPrediction):
        wrong = (np.asarray(prediction.label) != y).astype(float)
    else:
        wrong = np.abs(np.asarray(prediction.mean) - np.nan_to_num(y)).reshape(*y.shape[:3], -1)
        wrong = wrong.mean(-1)
    number = counted.reshape(*counted.shape[:3], -1)[..., 0]
    with np.errstate(invalid="ignore"):
        return np.where(number, wrong, 0).sum((1, 2)) / number.sum((1, 2))


def _maps(posterior: Posterior, split: Split, errors: np.ndarray) -> Maps | None:
    """The pictures with the least and the greatest error, to be drawn."""
    order = np.argsort(errors, kind="stable")
    order = order[np.isfinite(errors[order])]
    if split.y.ndim != 3 or not len(order):
        return None
    chosen = np.array(list(dict.fromkeys([*order[:_SHOWN], *order[::-1][:_SHOWN]])))
    prediction: Any = posterior.predict(np.asarray(split.x[chosen]))
    classes = isinstance(prediction, ClassPrediction)
    assert split.pixels is not None
    return Maps(
        rows=chosen,
        errors=errors[chosen],
        x=np.asarray(split.x[chosen]),
        y=np.asarray(split.y[chosen]),
        counted=split.pixels.counts(split.y[chosen]),
        predicted=np.asarray(prediction.label if classes else prediction.mean),
        aleatoric=np.asarray(prediction.aleatoric),
        epistemic=np.asarray(prediction.epistemic),
        classes=classes,
    )
