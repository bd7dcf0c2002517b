"""Policies: which design next, given all designs and outcomes so far."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from credax.design.model import DesignModel
from credax.errors import InputError


class DesignPolicy(eqx.Module):
    """Abstract: a design from the state of a history; pure functions, so that rollouts compile.

    A policy sees designs and outcomes, and never the parameters.
    """

    draws: ClassVar[bool] = False
    """Whether designs are drawn with the key of `choose`."""

    @abc.abstractmethod
    def start(self) -> Any:
        """The state before the first experiment."""

    @abc.abstractmethod
    def choose(self, state: Any, number: Array, key: Key[Array, ""]) -> Array:
        """The design of experiment ``number``; ``key`` is for policies that draw."""

    @abc.abstractmethod
    def update(self, state: Any, design: Array, outcome: Array) -> Any:
        """The state after one more experiment."""

    def trained(self) -> Any:
        """A pytree of booleans, what training changes: a hook, all floating-point arrays here."""
        return jax.tree.map(eqx.is_inexact_array, self)


class Box(eqx.Module):
    """Designs as unbounded numbers: a sigmoid into the bounds, or as they are."""

    low: Float[np.ndarray, "..."] | None = eqx.field(static=True, converter=lambda v: _frozen(v))
    high: Float[np.ndarray, "..."] | None = eqx.field(static=True, converter=lambda v: _frozen(v))
    shape: tuple[int, ...] = eqx.field(static=True)

    @property
    def size(self) -> int:
        """Numbers of one design."""
        return int(np.prod(self.shape, dtype=int))

    def inside(self, free: Float[Array, " size"]) -> Array:
        """The design of unbounded numbers."""
        free = free.reshape(self.shape)
        if self.low is None:
            return free
        low, high = jnp.asarray(self.low), jnp.asarray(self.high)
        return low + (high - low) * jax.nn.sigmoid(free)

    def units(self, design: Array) -> Float[Array, " size"]:
        """A design as numbers of order one."""
        if self.low is None:
            return jnp.ravel(design)
        low, high = np.asarray(self.low), np.asarray(self.high)
        return jnp.ravel((design - (low + high) / 2) / (high - low) * 4)


def _frozen(bound: Any) -> Any:
    """Nested tuples, which have a hash."""
    return None if bound is None else tuple_of(np.asarray(bound, float).tolist())


def tuple_of(values: Any) -> Any:
    """Nested lists as tuples."""
    return tuple(tuple_of(v) for v in values) if isinstance(values, list) else values


def box_of(model: DesignModel) -> Box:
    """The bounds of a model's designs, and their shape."""
    low, high = (None, None) if model.bounds is None else model.bounds
    example = model.designs[0] if model.designs is not None else low
    if example is None:
        raise InputError(f"{model.name} has neither designs nor bounds; give one of them")
    return Box(low, high, np.shape(example))


class AdaptivePolicy(DesignPolicy):
    """``ξ_t = F_2(Σ_{k<t} F_1(ξ_k, y_k))``: two networks, the order of a history does not matter.

    Before the first experiment ``F_2`` sees a learned vector. Reference: Foster, Ivanova, Malik,
    Rainforth, Deep adaptive design, ICML 2021.
    """

    encoder: eqx.nn.MLP
    emitter: eqx.nn.MLP
    empty: Float[Array, " encoding"]
    box: Box
    centre: Float[Array, " outcome"]
    scale: Float[Array, " outcome"]

    def start(self):
        """No experiments: the learned vector counts as long as there are none."""
        return jnp.zeros_like(self.empty), jnp.int32(0)

    def choose(self, state, number, key):
        """The design of the sum of encodings."""
        total, count = state
        return self.box.inside(self.emitter(jnp.where(count == 0, self.empty, total)))

    def update(self, state, design, outcome):
        """The sum with one more encoding."""
        total, count = state
        units = (jnp.ravel(outcome).astype(self.centre.dtype) - self.centre) / self.scale
        return total + self.encoder(jnp.concatenate([self.box.units(design), units])), count + 1

    def trained(self):
        """All but the units of outcomes."""
        marks = DesignPolicy.trained(self)
        return eqx.tree_at(lambda p: (p.centre, p.scale), marks, (False, False))


def adaptive_policy(
    model: DesignModel,
    key: Key[Array, ""],
    *,
    hidden: int = 128,
    encoding: int = 16,
    depth: int = 2,
) -> AdaptivePolicy:
    """A policy to be trained; outcomes are measured in units of draws at random designs."""
    box = box_of(model)
    keys = jax.random.split(key, 5)
    theta = jax.vmap(model.prior_sample)(jax.random.split(keys[0], 256))
    free = jax.random.normal(keys[1], (256, box.size))

    def outcome(key, theta, free):
        return jnp.ravel(model.outcome_sample(key, theta, box.inside(free)))

    y = jax.vmap(outcome)(jax.random.split(keys[2], 256), theta, free).astype(float)
    encoder = eqx.nn.MLP(box.size + y.shape[1], encoding, hidden, depth, key=keys[3])
    emitter = eqx.nn.MLP(encoding, box.size, hidden, depth, key=keys[4])
    # Small: designs begin near the middle of their bounds, where the sigmoid has a slope.
    empty = 0.1 * jax.random.normal(jax.random.fold_in(key, 7), (encoding,))
    return AdaptivePolicy(encoder, emitter, empty, box, y.mean(0), jnp.maximum(y.std(0), 1e-3))


class StaticPolicy(DesignPolicy):
    """Designs that are all fixed before the first outcome."""

    free: Float[Array, "rounds size"]
    box: Box

    def start(self):
        """Nothing to keep."""
        return jnp.zeros(())

    def choose(self, state, number, key):
        """The design of this number."""
        return self.box.inside(self.free[number])

    def update(self, state, design, outcome):
        """Outcomes do not matter."""
        return state


def static_policy(model: DesignModel, rounds: int, key: Key[Array, ""]) -> StaticPolicy:
    """Random designs to be trained, all at once."""
    box = box_of(model)
    return StaticPolicy(jax.random.normal(key, (rounds, box.size)), box)


class RandomPolicy(DesignPolicy):
    """Uniform designs within the bounds, standard normal ones where there are none."""

    draws: ClassVar[bool] = True
    box: Box

    def start(self):
        """Nothing to keep."""
        return jnp.zeros(())

    def choose(self, state, number, key):
        """A new draw."""
        if self.box.low is None:
            return self.box.inside(jax.random.normal(key, (self.box.size,)))
        u = jax.random.uniform(key, (self.box.size,), minval=1e-6, maxval=1 - 1e-6)
        return self.box.inside(jax.scipy.special.logit(u))

    def update(self, state, design, outcome):
        """Outcomes do not matter."""
        return state


def random_policy(model: DesignModel) -> RandomPolicy:
    """The baseline."""
    return RandomPolicy(box_of(model))
