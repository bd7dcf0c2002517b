"""What a prediction and its labels must satisfy before a metric of them means anything."""

import jax
import jax.numpy as jnp
import numpy as np

from credax.errors import InputError
from credax.prediction import ClassPrediction, GaussianPrediction, Prediction

ROW_SUM_TOLERANCE = 1e-3


def check(prediction: Prediction, y: np.ndarray) -> None:
    """Raise `InputError` where the prediction or ``y`` cannot be scored; the values are read."""
    if isinstance(prediction, ClassPrediction):
        _check_classes(prediction, y)
    elif isinstance(prediction, GaussianPrediction):
        _check_numbers(prediction, y)
    else:
        raise InputError(
            f"prediction is a {type(prediction).__name__}; give the ClassPrediction or "
            "GaussianPrediction that posterior.predict returns"
        )


def broken_members(prediction: Prediction) -> np.ndarray:
    """Indices of the members that hold NaN or infinity (a log-probability of -inf is allowed)."""
    return np.flatnonzero(np.asarray(_broken(prediction)))


def without_broken_members(prediction: Prediction) -> Prediction:
    """The same mixture without the members that hold NaN or infinity; some must remain."""
    _check_shape(prediction)
    keep = ~np.asarray(_broken(prediction))
    if not keep.any():
        raise InputError("every member holds NaN or infinity; there is nothing left to score")
    return prediction if keep.all() else jax.tree.map(lambda a: a[keep], prediction)


@jax.jit
def _broken(prediction):
    if isinstance(prediction, ClassPrediction):
        bad = jnp.isnan(prediction.log_probs) | jnp.isposinf(prediction.log_probs)
    else:
        bad = ~(jnp.isfinite(prediction.means) & jnp.isfinite(prediction.variances))
    return jnp.any(bad, axis=(1, 2))


@jax.jit
def _row_sum_error(prediction):
    return jnp.max(jnp.abs(jnp.sum(prediction.members, axis=-1) - 1), axis=1)


def _check_shape(prediction: Prediction) -> None:
    classes = isinstance(prediction, ClassPrediction)
    array = prediction.log_probs if classes else prediction.means
    last = "classes" if classes else "targets"
    if array.ndim != 3:
        raise InputError(
            f"the prediction has shape {array.shape}; it must be [members, batch, {last}]: "
            "give one member a leading axis of length one"
        )
    if 0 in array.shape:
        raise InputError(
            f"the prediction is empty: [members, batch, {last}] is {array.shape}; "
            "give at least one of each"
        )
    if not classes and prediction.variances.shape != array.shape:
        raise InputError(
            f"means has shape {array.shape} and variances {prediction.variances.shape}; "
            "give one variance a mean"
        )


def _check_members(prediction: Prediction) -> None:
    _check_shape(prediction)
    broken = broken_members(prediction)
    if broken.size:
        which = "member" if broken.size == 1 else "members"
        raise InputError(
            f"{which} {', '.join(map(str, broken))} (counted from 0) of the prediction: NaN or "
            'infinity found; leave such members out, or pass nan="drop_member" to evaluate'
        )


def _check_classes(prediction: ClassPrediction, y: np.ndarray) -> None:
    _check_members(prediction)
    _, rows, classes = prediction.log_probs.shape
    if classes == 1:
        raise InputError(
            "the prediction has one class, so every label is certain; give the probabilities of "
            "both classes"
        )
    if y.shape != (rows,) or not np.issubdtype(y.dtype, np.integer):
        raise InputError(
            f"y has shape {y.shape} and type {y.dtype}; a prediction of {rows} rows needs "
            f"integer labels of shape ({rows},)"
        )
    if y.min() < 0 or y.max() >= classes:
        raise InputError(
            f"y has labels from {y.min()} to {y.max()}; a prediction of {classes} classes "
            f"needs labels from 0 to {classes - 1}"
        )
    error = np.asarray(_row_sum_error(prediction))
    if error.max() > ROW_SUM_TOLERANCE:
        raise InputError(
            f"the probabilities of member {error.argmax()} (counted from 0) miss a sum of one by "
            f"{error.max():.3g} in some row, and {ROW_SUM_TOLERANCE} is allowed; if they are "
            "logits, build the prediction with ClassPrediction.from_logits"
        )


def _check_numbers(prediction: GaussianPrediction, y: np.ndarray) -> None:
    _check_members(prediction)
    _, rows, targets = prediction.means.shape
    shapes = [(rows, targets), (rows,)] if targets == 1 else [(rows, targets)]
    if y.shape not in shapes or not np.issubdtype(y.dtype, np.number):
        allowed = " or ".join(map(str, shapes))
        raise InputError(
            f"y has shape {y.shape} and type {y.dtype}; give numbers of shape {allowed}"
        )
    if not np.isfinite(y).all():
        raise InputError("y holds NaN or infinity; drop those rows from y and from the inputs")
    low = np.asarray(jnp.min(prediction.variances, axis=(1, 2)))
    if low.min() <= 0:
        raise InputError(
            f"member {low.argmin()} (counted from 0) has a variance of {low.min():.3g}; variances "
            "are positive"
        )
