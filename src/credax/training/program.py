"""The compiled part of training: many steps of all members, nothing read back in between."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, PyTree

from credax.networks.convolution import using_implementation
from credax.problem import Problem
from credax.training.augment import augment_rows
from credax.training.config import Training
from credax.training.dynamics import Info
from credax.training.members import Shard, Strategy
from credax.training.mesh import Layout

# Branches of a replica's key. Nothing else folds these in, so streams never meet.
_INIT, _ORDER, _STEP, _AUGMENT = range(4)
_SHARED = 2**31 - 1

# For programs that draw, and run once: compiling takes longer than they do. Less optimised machine
# code gives the same bits here (four MLPs 64-64-64-10: 0.7 s instead of 3.4). Sums of products may
# be rounded otherwise, so nothing that computes with data is compiled like this.
_RUN_ONCE = {"xla_backend_optimization_level": 1}


Stopped = Bool[Array, " members"] | None
"""Members that have stopped; None where nobody ever does."""


class Carry(NamedTuple):
    """What goes from step to step. ``order`` is this epoch's row order, remade at its start."""

    states: PyTree
    order: Int[Array, "*replicas rows"]
    totals: PyTree
    alive: Bool[Array, " members"]


class Rows(NamedTuple):
    """Raw training rows: all of them on the device, or the ready batches of a streamed chunk."""

    x: Any
    y: Any
    first: Any = 0
    """The step of the first batch, of a streamed chunk."""

    def at(self, index: Any) -> tuple[Any, Any]:
        """Some of the rows."""
        return self.x[index], self.y[index]


class Program(eqx.Module):
    """Everything a step needs but the state; ``dynamics`` is a `Dynamics` or `CoupledDynamics`."""

    problem: Problem
    dynamics: Any
    strategy: Strategy
    training: Training = eqx.field(static=True)
    num_data: int
    dispatch: bool
    streamed: bool
    key: Key[Array, ""]
    convolution: str = "auto"
    padding: int = 0
    """Copies of the first replicas that fill up a mesh; no result has them."""

    @property
    def layout(self) -> Layout | None:
        """Devices along the axes of the mesh; None without one."""
        return self.strategy.layout if isinstance(self.strategy, Shard) else None

    @property
    def per_epoch(self) -> int:
        """Steps per epoch."""
        return self.training.steps_per_epoch(self.num_data)

    @property
    def total(self) -> int:
        """Steps of the whole training."""
        return self.training.epochs * self.per_epoch

    @property
    def keys(self) -> Key[Array, " replicas"]:
        """Each replica's own key, the same in an ensemble of any size."""
        numbers = self._padded_numbers + self.dynamics.replicas.offset
        return jax.vmap(lambda i: jax.random.fold_in(self.key, i))(numbers)

    @property
    def _padded_numbers(self) -> Int[Array, " replicas"]:
        count = self.dynamics.replicas.count
        return jnp.arange(count + self.padding) % count

    def pad(self, tree: PyTree) -> PyTree:
        """Arrays of all replicas (or members) with the copies that fill up the mesh."""
        if not self.padding:
            return tree
        count = self.dynamics.replicas.count
        padded = count + self.padding

        def longer(leaf):
            each = len(leaf) // count  # members of a replica
            return leaf[np.arange(padded * each) % len(leaf)]

        return jax.tree.map(longer, tree)

    def without_padding(self, tree: PyTree) -> PyTree:
        """Arrays of the replicas (or members) that were asked for."""
        if not self.padding:
            return tree
        count = self.dynamics.replicas.count
        return jax.tree.map(lambda leaf: leaf[: len(leaf) // (count + self.padding) * count], tree)

    def shuffle(self, epoch: Array) -> Int[Array, "*replicas rows"]:
        """The order of rows in an epoch: one for all replicas, or one each."""
        length = self.per_epoch * self.training.batch_size

        def order(key):
            key = jax.random.fold_in(jax.random.fold_in(key, _ORDER), epoch)
            return jnp.resize(jax.random.permutation(key, self.num_data), (length,))

        if self.dynamics.replicas.shared_batches:
            return order(jax.random.fold_in(self.key, _SHARED))
        return jax.vmap(order)(self.keys)

    def batch_rows(self, order: Array, step: Array) -> Int[Array, "*replicas batch"]:
        """The rows of one step."""
        size = self.training.batch_size
        start = (step % self.per_epoch) * size
        return jax.lax.dynamic_slice_in_dim(order, start, size, axis=-1)

    def batch(self, key: Array, x: Array, y: Array, step: Array):
        """Raw rows as an augmented batch in standard units, padding rows with weight zero."""
        size = self.training.batch_size
        position = (step % self.per_epoch) * size + jnp.arange(size)
        weight = (position < self.num_data).astype(jnp.float32)
        x, y = augment_rows(self.training.augment, key, x, y, self.problem.likelihood.outside)
        batch = self.problem.prepare(x, y, weight)
        return self.strategy.split_batch(batch) if isinstance(self.strategy, Shard) else batch

    def step(self, carry: Carry, rows: Rows, step: Array, stopped: Stopped) -> Carry:
        """One step of every replica.

        Members that have ``stopped`` stay as they are.
        """
        if self.streamed:
            order = carry.order
            supply = rows.at(step - rows.first)
        else:
            fresh = step % self.per_epoch == 0
            shuffle = lambda: self.shuffle(step // self.per_epoch)  # noqa: E731
            order = jax.lax.cond(fresh, shuffle, lambda: carry.order)
            supply = self.batch_rows(order, step)
        common = jax.random.fold_in(self.key, _SHARED)
        together = self.dynamics.replicas.shared_batches
        if self.dynamics.coupled:
            x, y = supply if self.streamed else rows.at(supply)
            batch = self.batch(_branch(common, _AUGMENT, step), x, y, step)
            keys = jax.vmap(lambda key: _branch(key, _STEP, step))(self.keys)
            result = self.dynamics.step(keys, carry.states, batch, self.strategy, carry.alive)
            return self._next(carry, order, stopped, *result)

        def replica(own, shared):
            key, state, mine = own
            supply = shared if together else mine
            x, y = supply if self.streamed else rows.at(supply)
            # A key that is the same for all members makes vmap compute the batch once.
            augment_key = common if self.training.shared_augment else key
            batch = self.batch(_branch(augment_key, _AUGMENT, step), x, y, step)
            return self.dynamics.step(_branch(key, _STEP, step), state, batch)

        own = (self.keys, carry.states, None if together else supply)
        result = self.strategy(replica, own, supply if together else None)
        return self._next(carry, order, stopped, *result)

    def _next(self, carry: Carry, order: Array, stopped: Stopped, states, info: Info) -> Carry:
        alive = carry.alive & jnp.isfinite(info["loss"]).reshape(carry.alive.shape)
        if stopped is not None:
            alive |= stopped & carry.alive
            count = len(jax.tree.leaves(states)[0])
            still = stopped.reshape(count, -1).all(1)  # a replica stops with its last member

            def stay(old, new):
                return jnp.where(still.reshape(-1, *(1,) * (old.ndim - 1)), old, new)

            states = jax.tree.map(stay, carry.states, states)
        return Carry(states, order, jax.tree.map(jnp.add, carry.totals, info), alive)

    def first(self, x: Any) -> PyTree:
        """Every replica's first state; ``x`` is shaped like raw inputs."""

        keys = jax.vmap(lambda key: jax.random.fold_in(key, _INIT))(self.keys)
        variables = self.dynamics.replicas.start
        if variables is None:
            variables = self.strategy(lambda key, _: self.problem.init(key, x), keys, None)
        else:
            variables = self.pad(variables)
        if self.dynamics.coupled:
            return self.dynamics.init(keys, variables, self.strategy)
        return self.strategy(lambda own, _: self.dynamics.init(*own), (keys, variables), None)

    def no_info(self, states: PyTree, example: Rows) -> PyTree:
        """Zero totals, shaped like what a step reports."""
        size = self.training.batch_size
        like = lambda a: jax.ShapeDtypeStruct((size, *a.shape[1:]), a.dtype)  # noqa: E731
        rows = Rows(like(example.x), like(example.y))

        def report(keys, states, rows):
            if self.dynamics.coupled:
                batch = self.batch(keys[0], rows.x, rows.y, jnp.int32(0))
                alive = jnp.ones(len(keys), bool)
                return self.dynamics.step(keys, states, batch, self.strategy, alive)[1]

            def one(key, state):
                batch = self.batch(key, rows.x, rows.y, jnp.int32(0))
                return self.dynamics.step(key, state, batch)[1]

            return jax.vmap(one)(keys, states)

        info = jax.eval_shape(report, self.keys, states, rows)
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), info)

    def members(self, states: PyTree) -> PyTree:
        """All members of all replicas on one leading axis."""
        nested = jax.vmap(self.dynamics.members)(states)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), nested)


def _branch(key, branch: int, step: Array):
    return jax.random.fold_in(jax.random.fold_in(key, branch), step)


@eqx.filter_jit(compiler_options=_RUN_ONCE)  # pyright: ignore[reportCallIssue]
def initialise(program: Program, example: Rows) -> Carry:
    """The carry before the first step; ``example`` is one raw row, for its shape."""
    states = program.first(example.x)
    members = jax.eval_shape(program.members, states)
    count = len(jax.tree.leaves(members)[0])
    # The first step makes the order anew: here it is a shape, and the shuffle is compiled once.
    shuffled = jax.eval_shape(program.shuffle, jnp.int32(0))
    order = jnp.zeros((0,) if program.streamed else shuffled.shape, shuffled.dtype)
    alive = jnp.ones(count, bool)
    return Carry(states, order, program.no_info(states, example), alive)


@eqx.filter_jit(donate="all-except-first")
def advance(inputs: tuple[Program, Rows, Array, Array, Stopped], carry: Carry) -> Carry:
    """Steps ``start`` to ``stop`` of every replica, in one loop; the old carry is given up."""
    program, rows, start, stop, stopped = inputs
    with using_implementation(program.convolution):
        if program.dispatch:
            return program.step(carry, rows, start, stopped)
        one = lambda step, carry: program.step(carry, rows, step, stopped)  # noqa: E731
        return jax.lax.fori_loop(start, stop, one, carry)


@eqx.filter_jit(compiler_options=_RUN_ONCE)  # pyright: ignore[reportCallIssue]
def order_of(program: Program, epoch: Array) -> Int[Array, "*replicas rows"]:
    """An epoch's row order, for a resumed run or for streaming."""
    return program.shuffle(epoch)


@eqx.filter_jit
def current_members(program: Program, states: PyTree) -> PyTree:
    """The variables of all members as they are now."""
    return program.members(states)
