"""Which entries count, and how much: a mask and weights as one array of weights."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.metrics.view import view_of
from credax.prediction import ClassPrediction, GaussianPrediction


def entry_weights(prediction: Any, y: Any, mask: Any, weight: Any) -> Float[Array, " ..."]:
    """Weights of the entries that are scored; 0 where ``mask`` is False.

    The shape is ``[batch]``, and ``[batch, targets]`` for regression, where a mask or weight of
    shape ``[batch]`` holds for all targets of a row.
    """
    shape, dtype = _entries(prediction, y)
    out = jnp.ones(shape, dtype)
    for name, given in (("mask", mask), ("weight", weight)):
        if given is None:
            continue
        given = jnp.asarray(given)
        if name == "mask" and given.dtype != bool:
            raise InputError(
                f"mask has type {given.dtype}; give booleans that are True where a row counts, "
                "or pass numbers as weight"
            )
        if given.shape != shape and given.shape != shape[:1]:
            raise InputError(f"{name} has shape {given.shape}; this prediction needs {shape}")
        out = out * given.astype(dtype).reshape(given.shape + (1,) * (len(shape) - given.ndim))
    return out


def weighted_view(prediction: Any, y: Any, mask: Any, weight: Any) -> tuple[Any, Any]:
    """The view that metrics read, and the weights of its entries."""
    weight = entry_weights(prediction, y, mask, weight)
    if y is not None:
        # What a dropped row says about the truth may be anything: a label to ignore, or NaN.
        y = jnp.asarray(y)
        if y.size != weight.size:
            raise InputError(f"y has shape {y.shape}; this prediction needs {weight.shape}")
        y = jnp.where(weight.reshape(y.shape) > 0, y, jnp.zeros_like(y))
    return view_of(prediction, y), weight


def _entries(prediction: Any, y: Any) -> tuple[tuple[int, ...], Any]:
    if isinstance(prediction, ClassPrediction):
        return prediction.log_probs.shape[1:2], prediction.log_probs.dtype
    if isinstance(prediction, GaussianPrediction):
        return prediction.means.shape[1:], prediction.means.dtype
    return jnp.shape(y), jnp.result_type(float)
