"""Weights of the members of a mixture, and the sums over members that use them.

Weights are a tuple of numbers that sum to one, or None: all members alike. They are no arrays, so
that rows of a prediction are cut and joined without touching them.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int, Key

from credax.errors import InputError

Weights = tuple[float, ...] | None
_ROUNDING = 1e-12


def as_weights(weights: Any, members: int) -> Weights:
    """Weights of so many members, normalised; None where all are equal.

    >>> as_weights([3, 1], 2), as_weights([2.0, 2.0], 2)
    ((0.75, 0.25), None)
    """
    if weights is None:
        return None
    array = np.asarray(weights, np.float64)
    if array.shape != (members,):
        raise InputError(
            f"weights has shape {array.shape} and there are {members} members; give one weight per "
            "member"
        )
    if not np.all(np.isfinite(array)) or np.any(array < 0):
        wrong = array[~(np.isfinite(array) & (array >= 0))][0]
        raise InputError(f"weights holds {wrong}; give finite numbers that are not negative")
    total = math.fsum(array)
    if total == 0:
        raise InputError("weights are all zero; give at least one member a positive weight")
    if np.all(array == array[0]):
        return None
    # Weights that are normalised already stay as they are, to the last digit.
    return tuple((array if abs(total - 1) <= _ROUNDING else array / total).tolist())


def kept_weights(weights: Weights, positions: Any, members: int) -> Weights:
    """The weights of some members, by position, normalised anew."""
    if weights is None:
        return None
    kept = np.asarray(weights)[np.asarray(positions)]
    if members and not kept.any():
        raise InputError("the members that are kept have weights of zero; keep another one too")
    return as_weights(kept, members)


def weighted(thing: Any, weights: Any) -> Any:
    """The same prediction or population with other weights of its members.

    >>> from credax.prediction import ClassPrediction
    >>> p = ClassPrediction.from_probs(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]))
    >>> weighted(p, [0.75, 0.25]).probs.tolist()
    [[0.75, 0.25]]
    """
    return dataclasses.replace(thing, weights=weights)


def spread(weights: tuple[float, ...], values: Any) -> Array:
    """The weights with the axes of values ``[members, ...]``, to multiply these with."""
    values = jnp.asarray(values)
    return jnp.asarray(weights, values.dtype).reshape((-1,) + (1,) * (values.ndim - 1))


def member_mean(values: Float[Array, "members ..."], weights: Weights) -> Float[Array, "..."]:
    """``Σ_m w_m v_m``."""
    if weights is None:
        return jnp.mean(values, axis=0)
    return jnp.sum(spread(weights, values) * values, axis=0)


def member_variance(values: Float[Array, "members ..."], weights: Weights) -> Float[Array, "..."]:
    """``Σ_m w_m (v_m - v̄)²``."""
    if weights is None:
        return jnp.var(values, axis=0)
    return member_mean(jnp.square(values - member_mean(values, weights)), weights)


def log_member_mean(values: Float[Array, "members ..."], weights: Weights) -> Float[Array, "..."]:
    """``log Σ_m w_m exp v_m``."""
    if weights is None:
        return logsumexp(values, axis=0) - jnp.log(values.shape[0])
    return logsumexp(values + jnp.log(spread(weights, values)), axis=0)


def pick_members(
    key: Key[Array, ""], shape: tuple[int, ...], members: int, weights: Weights
) -> Int[Array, "..."]:
    """Members drawn by their weights."""
    if weights is None:
        return jax.random.randint(key, shape, 0, members)
    return jax.random.choice(key, members, shape, p=jnp.asarray(weights))


def host_weights(weights: Weights, members: int) -> Float[np.ndarray, " members"]:
    """The weights as an array in double precision, equal ones too."""
    return np.full(members, 1 / members) if weights is None else np.asarray(weights)


def joined_weights(weights: list[Weights], members: list[int]) -> Weights:
    """Weights of several populations put together, each counted by how many members it has."""
    if all(each is None for each in weights):
        return None
    parts = [n * host_weights(each, n) for each, n in zip(weights, members, strict=True)]
    return tuple(np.concatenate(parts).tolist())


def require_equal_weights(weights: Weights, who: str, remedy: str) -> None:
    """Raise an error where something is defined for members that count alike."""
    if weights is not None:
        raise InputError(f"the members have unequal weights and {who} counts them alike; {remedy}")
