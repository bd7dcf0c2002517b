"""Joint distributions of several labels: configurations of labels, and what they say of members.

Of configuration ``m`` of the labels of chosen rows let ``J[m, s]`` be the probability under member
``s``, ``w_m = J[m] / Σ_s J[m, s]`` the posterior over members, ``π_m`` the configuration's own
probability (one over their number if they were drawn). What a further row ``x`` adds is

    I(y; s | y_1..n) = Σ_m π_m { H[Σ_s w_ms P[s, x]] - Σ_s w_ms H[P[s, x]] }.

The weights are a softmax of log-joints: no product of probabilities is formed, nothing underflows.
Each term lies between 0 and ``H[w_m]``, so that estimates from drawn configurations are never
negative, and configurations that leave no doubt about the member are left out. What the chosen rows
say together is ``log S - Σ_m π_m H[w_m]``; with a further row it is never above ``log S``.
"""

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy
from jaxtyping import Array, Float, Int

TILE = 1000
"""Configurations of one matrix product."""
SMALL = 128
"""Fewer configurations than this are one tile of this size."""


class Joint(NamedTuple):
    """Configurations of the labels of chosen rows, and their log-probabilities per member."""

    log_joint: Float[np.ndarray, "configurations members"]
    drawn_by: Int[np.ndarray, " configurations"] | None
    """The member whose labels each one has; None while all configurations are there."""

    @property
    def exact(self) -> bool:
        """Whether all configurations are there."""
        return self.drawn_by is None

    def posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """``w [configurations, members]`` and ``π [configurations]``, in double precision."""
        members = self.log_joint.shape[1]
        top = self.log_joint.max(axis=1, keepdims=True)
        # A configuration that no member allows has no weights, and no mass.
        joint = np.exp(self.log_joint - np.where(np.isfinite(top), top, 0.0))
        total = joint.sum(axis=1, keepdims=True)
        weights = np.divide(joint, total, out=np.full_like(joint, 1 / members), where=total > 0)
        if not self.exact:
            return weights, np.full(len(joint), 1 / len(joint))
        with np.errstate(divide="ignore"):
            return weights, np.exp(top[:, 0] + np.log(total[:, 0])) / members

    def extended(self, probs: Float[np.ndarray, "classes members"], generator) -> "Joint":
        """With one more row: all of its labels, or one drawn by each configuration's member."""
        log_probs = _log(probs)
        if self.drawn_by is None:
            joint = self.log_joint[:, None, :] + log_probs
            return Joint(joint.reshape(-1, joint.shape[-1]), None)
        labels = _draw(probs[:, self.drawn_by], generator)
        return Joint(self.log_joint + log_probs[labels], self.drawn_by)


def start(members: int) -> Joint:
    """The one configuration of no labels."""
    return Joint(np.zeros((1, members)), None)


def sampled(probs: Float[np.ndarray, "rows classes members"], count: int, generator) -> Joint:
    """At least ``count`` configurations, as many of each member, in turns."""
    members = probs.shape[-1]
    each = -(-count // members)
    joint = Joint(np.zeros((each * members, members)), np.tile(np.arange(members), each))
    for row in probs:
        joint = joint.extended(row, generator)
    return joint


class Tiles(NamedTuple):
    """Posteriors over members in tiles of one shape, so that few programs are compiled."""

    weights: Float[np.ndarray, "tiles members configurations"]
    mass: Float[np.ndarray, "tiles configurations"]
    known: float = 0.0
    """Information of the chosen labels: ``log S - Σ_m π_m H[w_m]``."""
    total: float = 1.0
    """Their mass, with that of configurations that were left out because they add nothing."""
    draws: int = 0
    """How many were drawn, for standard errors; 0 if all are there."""

    def first(self) -> "Tiles":
        """The first tile alone, which stands for all of them."""
        size, kept = self.mass.shape[1], float(self.mass.sum())
        mass = np.full_like(self.mass[:1], kept / size)
        return Tiles(self.weights[:1], mass, self.known, kept, size)


def tiles(joint: Joint, dtype) -> Tiles:
    """The posteriors of configurations that leave a doubt, filled up by some of no mass.

    All that are left out hold together less information than rounding.
    """
    weights, mass = joint.posterior()
    doubt = mass * -_entropy_terms(weights).sum(axis=1)
    order = np.argsort(doubt)
    kept = np.sort(order[np.cumsum(doubt[order]) > np.finfo(dtype).eps])
    kept = kept if len(kept) else np.array([0])
    count, members = len(kept), weights.shape[1]
    size = TILE if count > SMALL else SMALL
    many = -(-count // size)
    filled = np.full((many * size, members), 1 / members, dtype)
    filled[:count] = weights[kept]
    masses = np.zeros(many * size, dtype)
    masses[:count] = mass[kept]
    shaped = np.ascontiguousarray(np.swapaxes(filled.reshape(many, size, members), 1, 2))
    known = float(np.log(members) - doubt.sum())
    return Tiles(shaped, masses.reshape(many, size), known, 1.0, 0 if joint.exact else len(mass))


@jax.jit
def with_entropies(
    members: Float[Array, "members rows classes"],
) -> Float[Array, "rows entries members"]:
    """Probabilities, members last, and below the classes the members' entropies."""
    own = -jnp.sum(xlogy(members, members), axis=-1, keepdims=True)
    return jnp.transpose(jnp.concatenate([members, own], axis=-1), (1, 2, 0))


@jax.jit
def _information(
    rows: Float[Array, "rows entries members"],
    weights: Float[Array, "members configurations"],
    mass: Float[Array, " configurations"],
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """``Σ_m π_m I_m`` and ``Σ_m π_m I_m²``: one product, ``rows * classes * configurations``."""
    count, classes, members = rows.shape
    q = (rows.reshape(-1, members) @ weights).reshape(count, classes, -1)
    p, own = q[:, :-1], q[:, -1]
    least = jnp.finfo(rows.dtype).tiny
    information = -jnp.sum(p * jnp.log(jnp.maximum(p, least)), axis=1) - own
    return information @ mass, jnp.square(information) @ mass


def information(
    pool: Float[np.ndarray, "candidates entries members"],
    rows: Int[np.ndarray, " chosen"],
    given: Tiles,
    block: int,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Blocks of rows with what each adds and its standard error; ``pool`` is `with_entropies`."""
    for first in range(0, len(rows), block):
        here = rows[first : first + block]
        probs = jnp.asarray(pool[np.concatenate([here, np.repeat(here[-1:], block - len(here))])])
        parts = [_information(probs, *tile) for tile in zip(given.weights, given.mass, strict=True)]
        mean, second = np.sum(np.asarray(parts, np.float64), axis=0)[:, : len(here)]
        error = np.zeros(len(here))
        if given.draws > 1:
            spread = np.maximum(given.total * second - mean**2, 0.0)
            error = np.sqrt(spread / (given.draws - 1))
        yield here, np.maximum(mean, 0.0), error


def _log(probs: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(probs, np.float64))


def _entropy_terms(p: np.ndarray) -> np.ndarray:
    return p * _log(np.where(p > 0, p, 1.0))


def _draw(probs: Float[np.ndarray, "classes configurations"], generator) -> np.ndarray:
    """A label for each configuration, by inversion; a class of no probability is never drawn."""
    steps = np.cumsum(np.asarray(probs, np.float64), axis=0)
    level = generator.random(steps.shape[1]) * steps[-1]
    return (steps <= level).sum(axis=0)
