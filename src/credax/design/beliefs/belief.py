"""The history of experiments, and what every belief about the parameters can do."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from credax.design.model import DesignModel, check_designs
from credax.errors import InputError


class Experiments(NamedTuple):
    """Designs that were tried and their outcomes, in order, on leading axes."""

    designs: np.ndarray
    outcomes: np.ndarray

    def __len__(self) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return len(self.designs)

    def and_then(self, design: Any, outcome: Any) -> "Experiments":
        """With one more."""
        if not len(self.designs):
            return Experiments(np.asarray(design)[None], np.asarray(outcome)[None])
        return Experiments(
            np.concatenate([self.designs, np.asarray(design)[None]]),
            np.concatenate([self.outcomes, np.asarray(outcome)[None]]),
        )


NONE = Experiments(np.zeros(0), np.zeros(0))


class Belief(NamedTuple):
    """A distribution of ``θ``: itself a model's prior for the next experiment.

    ``model`` has this distribution as its prior; ``mean`` and ``std`` are those of every entry of
    ``θ``; ``effective`` is the effective sample size of weighted draws, where there are some.
    """

    model: DesignModel
    mean: PyTree
    std: PyTree
    log_evidence: float | None = None
    """Log-probability of all outcomes, where it is known."""
    effective: float | None = None
    warnings: tuple[str, ...] = ()


def check_outcome(model: DesignModel, design: Any, outcome: Any) -> np.ndarray:
    """The outcome as an array of the model's shape and type; refused if it is not one of its."""
    xi = check_designs(model, np.asarray(design)[None])[0]
    theta = jax.eval_shape(model.prior_sample, jax.random.key(0))
    shape = jax.eval_shape(
        lambda t: model.outcome_sample(jax.random.key(0), t, jnp.asarray(xi)), theta
    )
    value = np.asarray(outcome)
    if value.shape != shape.shape:
        raise InputError(
            f"outcome has shape {value.shape}; those of {model.name} have shape {shape.shape}"
        )
    if not np.isfinite(value.astype(float)).all():
        raise InputError(f"outcome is {value.tolist()}; give finite numbers")
    if model.finite:
        listed = np.asarray(model.outcomes)
        if not (listed == value).reshape(len(listed), -1).all(axis=1).any():
            raise InputError(
                f"outcome is {value.tolist()}; those of {model.name} are {_short(listed)}"
            )
    return value.astype(shape.dtype)


def log_likelihood(model: DesignModel, theta: PyTree, seen: Experiments) -> Float[Array, ""]:
    """Of all outcomes seen, given one ``θ``."""
    if not len(seen):
        return jnp.zeros(())
    designs, outcomes = jnp.asarray(seen.designs), jnp.asarray(seen.outcomes)
    each = jax.vmap(lambda xi, y: model.outcome_log_prob(y, theta, xi))(designs, outcomes)
    return each.sum()


def with_prior(model: DesignModel, **changes: Any) -> DesignModel:
    """The same outcomes with another prior; nodes are dropped unless they are given."""
    return dataclasses.replace(model, **({"nodes": None} | changes))


def moments(theta: PyTree, weights: Float[Array, " draws"]) -> tuple[PyTree, PyTree]:
    """Weighted mean and standard deviation of every entry of draws on a leading axis."""
    mean = jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, 1), theta)
    square = lambda leaf, m: jnp.sqrt(jnp.tensordot(weights, jnp.square(leaf - m), 1))  # noqa: E731
    return mean, jax.tree.map(square, theta, mean)


def draw_one(key, theta: PyTree, cumulative: Float[Array, " draws"]) -> PyTree:
    """One of weighted draws on a leading axis, by inversion of their cumulative weights."""
    level = jax.random.uniform(key) * cumulative[-1]
    place = jnp.minimum(jnp.searchsorted(cumulative, level), len(cumulative) - 1)
    return jax.tree.map(lambda leaf: leaf[place], theta)


def _short(listed: np.ndarray) -> str:
    values = listed.tolist()
    if len(values) <= 8:
        return ", ".join(map(str, values))
    return f"{values[0]}, {values[1]}, ..., {values[-1]}"
