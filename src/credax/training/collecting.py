"""Networks collected along a trajectory: moments of iterates, or the iterates themselves.

Any dynamics of one network is wrapped; what is collected is part of the state, in buffers of fixed
size, so the loop stays one compiled program and a resumed run goes on where it was.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree, UInt32

from credax.network import Variables
from credax.training.dynamics import Dynamics, Info, Replicas


class CollectingState(NamedTuple):
    """The wrapped dynamics' state, what was collected, steps taken, and bits of a key for draws."""

    inner: PyTree
    collected: PyTree
    steps: Int[Array, ""]
    seed: UInt32[Array, "..."]


class Collecting(Dynamics):
    """A dynamics of one network and a collector that looks at it after chosen steps.

    ``table[t]`` is the number of the capture made after ``t`` steps, or -1 (`capture_table`);
    entry 0 is the network before the first step.
    """

    inner: Any
    collector: Any
    table: Int[Array, " steps"]

    @property
    def replicas(self) -> Replicas:
        """As the wrapped dynamics has."""
        return self.inner.replicas

    def init(self, key, variables: Variables) -> CollectingState:
        """A network and nothing collected yet."""
        inner = self.inner.init(key, variables)
        one = jax.tree.map(lambda leaf: leaf[0], self.inner.members(inner))
        collected = self._capture(self.collector.empty(one), inner, jnp.int32(0))
        # The last branch of the replica's key: steps and orders fold in others.
        seed = jax.random.key_data(jax.random.fold_in(key, 2**31 - 2))
        return CollectingState(inner, collected, jnp.int32(0), seed)

    def step(self, key, state: CollectingState, batch) -> tuple[CollectingState, Info]:
        """One step of the dynamics, then a look at the network if one is due."""
        inner, info = self.inner.step(key, state.inner, batch)
        collected = self._capture(state.collected, inner, state.steps + 1)
        return CollectingState(inner, collected, state.steps + 1, state.seed), info

    def members(self, state: CollectingState) -> Variables:
        """The network as it is now, with an axis of length one."""
        return self.inner.members(state.inner)

    def _capture(self, collected, inner, steps):
        one = jax.tree.map(lambda leaf: leaf[0], self.inner.members(inner))
        number = self.table[steps]
        return self.collector.add(collected, one, jnp.maximum(number, 0), number >= 0)


def capture_table(captures: Sequence[int], total: int) -> Int[Array, " steps"]:
    """Which capture follows each step, from the steps after which one is made (0 to total)."""
    table = np.full(total + 1, -1, np.int32)
    table[np.asarray(captures, int)] = np.arange(len(captures))
    return jnp.asarray(table)


class Buffer(eqx.Module):
    """The last ``slots`` captured networks, whole: capture n lies in slot ``n mod slots``."""

    slots: int

    def empty(self, variables: Variables) -> PyTree:
        """Zeros."""
        return jax.tree.map(
            lambda leaf: jnp.zeros((self.slots, *leaf.shape), leaf.dtype), variables
        )

    def add(self, collected: PyTree, variables: Variables, number: Array, due: Array) -> PyTree:
        """The buffer with this network in its slot, if due."""
        return write(collected, variables, number % self.slots, due)


def write(buffer: PyTree, value: PyTree, slot: Int[Array, ""], due: Bool[Array, ""]) -> PyTree:
    """One slot replaced if due. The old slot is rewritten otherwise: a branch would copy it all."""

    def one(rows, new):
        old = jax.lax.dynamic_index_in_dim(rows, slot, keepdims=False)
        new = jnp.where(due, new.astype(rows.dtype), old)
        return jax.lax.dynamic_update_index_in_dim(rows, new, slot, 0)

    return jax.tree.map(one, buffer, value)


class IterateMoments(NamedTuple):
    """Running mean and squared deviations (Welford), and the last captured iterates."""

    seen: Int[Array, ""]
    mean: PyTree
    m2: PyTree
    ring: PyTree


class Averaging(eqx.Module):
    """Mean and variance of captured parameters, and ``rank`` last iterates or deviations.

    ``mean += d / n``, ``M2 += d (θ - mean)`` with ``d = θ - mean`` before (a difference of squares
    would cancel in single precision). With ``running`` the ring holds deviations from the mean at
    capture, else the iterates themselves. Memory: (2 + rank) P.
    """

    rank: int = 0
    running: bool = False

    def empty(self, variables: Variables) -> IterateMoments:
        """Nothing counted."""
        zeros = jax.tree.map(jnp.zeros_like, variables.params)
        ring = jax.tree.map(lambda p: jnp.zeros((self.rank, *p.shape), p.dtype), variables.params)
        return IterateMoments(jnp.int32(0), zeros, zeros, ring)

    def add(self, collected: IterateMoments, variables: Variables, number, due) -> IterateMoments:
        """The moments with these parameters counted, if due."""
        params, (count, mean, m2, ring) = variables.params, collected
        new_count = count + due.astype(jnp.int32)
        n = jnp.maximum(new_count, 1)
        gap = jax.tree.map(lambda p, m: jnp.where(due, p - m, 0), params, mean)
        new_mean = jax.tree.map(lambda m, d: m + d / n, mean, gap)
        new_m2 = jax.tree.map(
            lambda s, d, p, m: s + jnp.where(due, d * (p - m), 0), m2, gap, params, new_mean
        )
        if self.rank:
            kept = jax.tree.map(jnp.subtract, params, new_mean) if self.running else params
            ring = write(ring, kept, number % self.rank, due)
        return IterateMoments(new_count, new_mean, new_m2, ring)


class Nothing(eqx.Module):
    """Collects nothing: for methods that need of `Collecting` only its seed for later draws."""

    def empty(self, variables: Variables) -> PyTree:
        """Nothing."""
        return ()

    def add(self, collected: PyTree, variables: Variables, number: Array, due: Array) -> PyTree:
        """Still nothing."""
        return ()
