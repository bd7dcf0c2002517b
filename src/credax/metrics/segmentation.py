"""Images with a label per pixel, scored by the same metrics as rows."""

import jax
import numpy as np
from jaxtyping import Array, Float, Integer, Key

from credax.errors import InputError
from credax.prediction import ClassPrediction


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
    if not 0 < rate <= 1:
        raise InputError(f"rate is {rate}; give a share above 0 and at most 1")
    kept = np.flatnonzero(
        np.ones(labels.size, bool) if ignore_label is None else labels != ignore_label
    )
    if rate < 1:
        if key is None:
            raise InputError(f"rate is {rate} and key is None; give a key so that the pick repeats")
        key = jax.random.key(key) if isinstance(key, int) else key
        chosen = np.asarray(jax.random.uniform(key, (labels.size,)) < rate)
        kept = kept[chosen[kept]]
    if not kept.size:
        raise InputError(
            f"no pixel is left: y has {labels.size}, ignore_label is {ignore_label} and rate {rate}"
        )
    flat = log_probs.reshape(log_probs.shape[0], -1, log_probs.shape[-1])
    return ClassPrediction(flat[:, kept]), labels.reshape(-1)[kept]
