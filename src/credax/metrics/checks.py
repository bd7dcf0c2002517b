"""Checks of a prediction and its labels before a metric is computed.

Shapes and types are checked before a program runs (`check_shapes`); what only the values can show
is found inside it, beside the metric's own work (`facts_of`), and raised after it
(`raise_if_invalid`).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from credax.errors import InputError
from credax.metrics.view import ClassView, Pair, RegressionView, weighted_view
from credax.mixing import kept_weights, weighted
from credax.prediction import ClassPrediction, Prediction, RegressionPrediction

ROW_SUM_TOLERANCE = 1e-3


class Facts(NamedTuple):
    """What the values of a batch say about its validity; None where it does not apply."""

    entries: Any
    lowest_weight: Any
    invalid_y: Any = None
    invalid_scores: Any = None
    broken_members: Any = None
    row_sum_error: Any = None
    label_range: Any = None
    lowest_variance: Any = None


def check(prediction: Prediction, y: Any, mask: Any = None) -> None:
    """Raise `InputError` where the prediction or ``y`` cannot be scored; the values are read."""
    y = np.asarray(y)
    check_shapes(prediction, y)
    raise_if_invalid(_facts(prediction, y, mask))


def broken_members(prediction: Prediction) -> np.ndarray:
    """Indices of the members that hold NaN or infinity (a log-probability of -inf is allowed)."""
    return np.flatnonzero(np.asarray(_facts(prediction, None, None).broken_members))


def without_broken_members(prediction: Prediction) -> Prediction:
    """The same mixture without the members that hold NaN or infinity; some must remain."""
    _check_array(prediction)
    keep = np.ones(prediction.num_members, bool)
    keep[broken_members(prediction)] = False
    if not keep.any():
        raise InputError("every member holds NaN or infinity; there is nothing left to score")
    if keep.all():
        return prediction
    weights = kept_weights(prediction.weights, keep, int(keep.sum()))
    kept = jax.tree.map(lambda a: a[keep], weighted(prediction, None))
    return weighted(kept, weights)


def check_shapes(prediction: Any, y: Any) -> None:
    """Raise `InputError` where shapes or types do not fit; no value is read."""
    if isinstance(prediction, ClassPrediction):
        _check_array(prediction)
        _check_labels(prediction, y)
    elif isinstance(prediction, RegressionPrediction):
        _check_array(prediction)
        _check_targets(prediction, y)
    else:
        _check_pair(prediction, y)


def facts_of(view: Any, weight: Any) -> Facts:
    """What the values of a batch say about its validity, as small arrays on the device."""
    kept = weight > 0
    start = Facts(jnp.sum(kept), jnp.min(weight, initial=jnp.inf))
    if isinstance(view, ClassView):
        return _class_facts(view, kept, start)
    if isinstance(view, RegressionView):
        return _number_facts(view, kept, start)
    return _pair_facts(view, kept, start)


def raise_if_invalid(facts: Facts) -> None:
    """Raise `InputError` for values that cannot be scored."""
    if not facts.lowest_weight >= 0:
        raise InputError(
            f"weight holds {float(facts.lowest_weight):.3g}; weights are numbers of at least 0"
        )
    if facts.broken_members is not None and np.any(facts.broken_members):
        broken = np.flatnonzero(np.asarray(facts.broken_members))
        which = "member" if broken.size == 1 else "members"
        raise InputError(
            f"{which} {', '.join(map(str, broken))} (counted from 0) of the prediction: NaN or "
            'infinity found; leave such members out, or pass nan="drop_member" to evaluate'
        )
    if facts.label_range is not None:
        _raise_if_labels_outside(*map(int, facts.label_range))
    if facts.row_sum_error is not None:
        _raise_if_row_sums_off(np.asarray(facts.row_sum_error))
    if facts.invalid_scores:
        raise InputError("the scores or intervals hold NaN; drop those rows from them and from y")
    if facts.invalid_y:
        raise InputError("y holds NaN or infinity; drop those rows from y and from the inputs")
    if facts.lowest_variance is not None and np.min(facts.lowest_variance) <= 0:
        low = np.asarray(facts.lowest_variance)
        raise InputError(
            f"member {low.argmin()} (counted from 0) has a variance of {low.min():.3g}; variances "
            "are positive"
        )


@jax.jit
def _facts(prediction, y, mask) -> Facts:
    return facts_of(*weighted_view(prediction, y, mask, None))


def _class_facts(view: ClassView, kept: Any, start: Facts) -> Facts:
    finite = jnp.isfinite(view.row_sums)
    error = jnp.where(finite & kept, jnp.abs(view.row_sums - 1), 0)
    labels = None
    if view.labels is not None:
        classes = view.log_probs.shape[-1]
        labels = jnp.min(view.y), jnp.max(view.y), classes
    broken = jnp.any(~finite & kept, axis=1)
    return start._replace(
        broken_members=broken, row_sum_error=jnp.max(error, axis=1), label_range=labels
    )


def _number_facts(view: RegressionView, kept: Any, start: Facts) -> Facts:
    finite = jnp.isfinite(view.means) & jnp.isfinite(view.variances)
    broken = jnp.any(~finite & kept, axis=(1, 2))
    low = jnp.min(jnp.where(kept, view.variances, jnp.inf), axis=(1, 2))
    invalid = jnp.zeros((), bool)
    if view.targets is not None:
        invalid = jnp.any(~jnp.isfinite(view.y) & kept)
    return start._replace(invalid_y=invalid, broken_members=broken, lowest_variance=low)


def _pair_facts(view: Pair, kept: Any, start: Facts) -> Facts:
    def invalid(arrays):
        floats = [a for a in jax.tree.leaves(arrays) if jnp.issubdtype(a.dtype, jnp.floating)]
        wide = [kept.reshape(kept.shape + (1,) * (a.ndim - kept.ndim)) for a in floats]
        found = [jnp.any(jnp.isnan(a) & k) for a, k in zip(floats, wide, strict=True)]
        return sum(found, start=jnp.zeros((), bool))

    labels = None
    if not isinstance(view.given, tuple) and (view.given.dtype, view.given.ndim) == (bool, 2):
        labels = jnp.min(view.y), jnp.max(view.y), view.given.shape[1]
    return start._replace(
        invalid_y=invalid(view.y), invalid_scores=invalid(view.given), label_range=labels
    )


def _raise_if_labels_outside(low: int, high: int, classes: int) -> None:
    if low < 0 or high >= classes:
        raise InputError(
            f"y has labels from {low} to {high}; a prediction of {classes} classes "
            f"needs labels from 0 to {classes - 1}"
        )


def _raise_if_row_sums_off(error: np.ndarray) -> None:
    if error.max() > ROW_SUM_TOLERANCE:
        raise InputError(
            f"the probabilities of member {error.argmax()} (counted from 0) miss a sum of one by "
            f"{error.max():.3g} in some row, and {ROW_SUM_TOLERANCE} is allowed; if they are "
            "logits, build the prediction with ClassPrediction.from_logits"
        )


def _check_array(prediction: Prediction) -> None:
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
    if classes and array.shape[-1] == 1:
        raise InputError(
            "the prediction has one class, so every label is certain; give the probabilities of "
            "both classes"
        )
    if not classes and prediction.variances.shape != array.shape:
        raise InputError(
            f"means has shape {array.shape} and variances {prediction.variances.shape}; "
            "give one variance per mean"
        )


def _check_labels(prediction: ClassPrediction, y: Any) -> None:
    members, rows, classes = prediction.log_probs.shape
    if y is not None and (np.shape(y) != (rows,) or not jnp.issubdtype(y.dtype, jnp.integer)):
        raise InputError(
            f"y has shape {np.shape(y)} and type {y.dtype}; a prediction of {rows} "
            f"rows needs integer labels of shape ({rows},), [members, batch, classes] being "
            f"{(members, rows, classes)}"
        )


def _check_targets(prediction: RegressionPrediction, y: Any) -> None:
    _, rows, targets = prediction.means.shape
    shapes = [(rows, targets), (rows,)] if targets == 1 else [(rows, targets)]
    if y is None:
        return
    if np.shape(y) not in shapes or not np.issubdtype(y.dtype, np.number):
        allowed = " or ".join(map(str, shapes))
        raise InputError(
            f"y has shape {np.shape(y)} and type {y.dtype}; give numbers of shape {allowed}"
        )


def _check_pair(given: Any, y: Any) -> None:
    arrays = jax.tree.leaves(given)
    kinds = {type(a).__name__ for a in arrays if not hasattr(a, "shape")}
    if kinds or not arrays or y is None:
        what = type(given).__name__ if arrays else "nothing"
        raise InputError(
            f"the prediction is a {what}; give the ClassPrediction or GaussianPrediction that "
            "posterior.predict returns, or arrays with one entry per row, and y"
        )
    rows = np.shape(y)[:1]
    if not rows or not rows[0]:
        raise InputError(f"y has shape {np.shape(y)}; give at least one row")
    for array in arrays:
        if array.shape[:1] != rows:
            raise InputError(
                f"y has shape {np.shape(y)} and the prediction {array.shape}; give one entry of "
                "each per row"
            )
