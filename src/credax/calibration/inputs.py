"""A prediction and its labels, checked, as the host arrays in float64 that fitting needs.

Fitting keeps the classes on the first axis: sums over a short last axis are several times slower.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from credax.calibration.gaussian_mixture import log_mixture
from credax.calibration.protocol import ApplyTo
from credax.errors import InputError
from credax.metrics.checks import check
from credax.mixing import require_equal_weights
from credax.prediction import ClassPrediction, GaussianPrediction

# A probability of exactly zero has no finite logarithm to scale; it counts as the smallest float32.
LOG_FLOOR = float(np.log(np.finfo(np.float32).tiny))


def class_arrays(
    prediction: ClassPrediction, y: Any, apply_to: ApplyTo, who: str
) -> tuple[Float[np.ndarray, "classes members batch"], Int[np.ndarray, " batch"]]:
    """Log-probabilities in float64 (one member if ``apply_to`` is the mixture) and labels."""
    y = np.asarray(y)
    require_classes(prediction, who)
    check(prediction, y)
    logs = np.asarray(prediction.log_probs, np.float64)
    if apply_to == "mixture":
        logs = log_mixture(logs, prediction.weights)[None]
    logs = np.where(np.isneginf(logs), LOG_FLOOR, logs)
    return np.ascontiguousarray(np.moveaxis(logs, -1, 0)), y


def member_shares(prediction: ClassPrediction, apply_to: ApplyTo) -> np.ndarray | None:
    """The members' unequal weights, where a map acts on members; None: all alike, or one."""
    if apply_to == "mixture" or prediction.weights is None:
        return None
    return np.asarray(prediction.weights)


def require_equal_shares(prediction: ClassPrediction, apply_to: ApplyTo, who: str) -> None:
    """Raise where a map would be fitted on members of unequal weights as if they were alike."""
    remedy = "use apply_to='mixture', or 'temperature'"
    if apply_to == "members":
        require_equal_weights(prediction.weights, f"{who} on members", remedy)


def calibrated(prediction: ClassPrediction, apply_to: ApplyTo, logs: Array) -> ClassPrediction:
    """Mapped log-probabilities as a prediction: members keep their weights, a mixture is one."""
    weights = prediction.weights if apply_to == "members" else None
    return ClassPrediction(logs, weights=weights)


@partial(jax.jit, static_argnums=1)
def chosen_logs(prediction: ClassPrediction, apply_to: ApplyTo) -> Array:
    """The log-probabilities a fitted map acts on, ``[members or 1, batch, classes]``, finite."""
    logs = prediction.log_probs if apply_to == "members" else prediction.log_mean[None]
    return jnp.where(jnp.isneginf(logs), LOG_FLOOR, logs)


@partial(jax.jit, static_argnums=1)
def chosen_probs(prediction: ClassPrediction, apply_to: ApplyTo) -> Array:
    """The probabilities a fitted map acts on, ``[members or 1, batch, classes]``."""
    return prediction.members if apply_to == "members" else prediction.probs[None]


def require_classes(prediction: Any, who: str, classes: int | None = None) -> None:
    """Raise unless the prediction is of classes (and of as many as were fitted)."""
    _require(prediction, ClassPrediction, "classification", who)
    _require_size(prediction.log_probs.shape[-1], classes, "classes", who)


def require_numbers(prediction: Any, who: str, targets: int | None = None) -> None:
    """Raise unless the prediction is of real numbers (and of as many targets as were fitted)."""
    _require(prediction, GaussianPrediction, "regression", who)
    _require_size(prediction.means.shape[-1], targets, "target(s)", who)


def _require(prediction: Any, kind: type, task: str, who: str) -> None:
    if not isinstance(prediction, kind):
        raise InputError(
            f"prediction is a {type(prediction).__name__}; {who} is for {task}: "
            f"give the {kind.__name__} that posterior.predict returns"
        )


def _require_size(size: int, fitted: int | None, what: str, who: str) -> None:
    if fitted is not None and size != fitted:
        raise InputError(
            f"the prediction has {size} {what}; {who} was fitted on {fitted}: "
            "fit it again on predictions of this network"
        )


def require_two_classes(prediction: ClassPrediction, who: str) -> None:
    """Raise unless the prediction is of exactly two classes."""
    require_classes(prediction, who)
    classes = prediction.log_probs.shape[-1]
    if classes != 2:
        raise InputError(
            f"the prediction has {classes} classes; {who} is for two: "
            "use 'dirichlet', 'vector' or 'temperature'"
        )


def check_unlabelled(prediction: ClassPrediction | GaussianPrediction) -> None:
    """The checks of `credax.metrics.check` where there are no labels yet."""
    if isinstance(prediction, ClassPrediction):
        check(prediction, np.zeros(prediction.log_probs.shape[1:2], int))
    else:
        check(prediction, np.zeros(prediction.means.shape[1:]))


def as_columns(y: Any, prediction: Any) -> Float[np.ndarray, "batch targets"]:
    """Targets in float64 with one column per target, whatever the shape they came in."""
    return np.asarray(y, np.float64).reshape(prediction.means.shape[1:])
