"""Gradient descent on a network that members share, each with factors of its own."""

from typing import Any, Literal, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree, UInt32

from credax.methods.ensembles.modulator import (
    Member,
    Modulator,
    Parts,
    assembled,
    member_outputs,
    member_variables,
    named,
)
from credax.network import Variables
from credax.problem import Batch, Problem
from credax.training import Descent
from credax.training.dynamics import Dynamics, Info, Replicas
from credax.training.schedule import optimiser_for

Rows = Literal["split", "tile"]
_DECAYING = ("adamw", "lion", "muon")


class Trained(NamedTuple):
    """What the optimiser changes: shared weights, members' own leaves, and the modulator's."""

    weights: dict[str, Array]
    own: dict[str, Array]
    common: PyTree
    members: PyTree


class ModulatedState(NamedTuple):
    """All members of one mode, and their optimiser."""

    trained: Trained
    fixed: PyTree
    carried: PyTree
    """The network's state (batch statistics), one per member."""
    optimiser: PyTree
    steps: Int[Array, ""]
    seed: UInt32[Array, "..."]


class ModulatedDescent(Dynamics):
    """All members of one mode at once: one shared network, factors and own leaves per member.

    With ``rows="split"`` every row of a batch is seen by one member, with "tile" by all.
    ``mixture`` takes the likelihood of the mixture over members instead of the mean of theirs;
    ``per_example`` draws a random member's factors for every row instead of once per step.
    """

    descent: Descent
    modulator: Modulator
    own: tuple[str, ...] = eqx.field(static=True)
    rows: Rows = eqx.field(static=True)
    rate_multiplier: float = 1.0
    mixture: bool = eqx.field(static=True, default=False)
    per_example: bool = eqx.field(static=True, default=False)

    @property
    def replicas(self) -> Replicas:
        """As the wrapped dynamics has: one per mode."""
        return self.descent.replicas

    @property
    def problem(self) -> Problem:
        """What is learned."""
        return self.descent.problem

    def init(self, key, variables: Variables) -> ModulatedState:
        """Every member with the same network and factors of its own."""
        count = self.modulator.members
        parts = self.modulator.init(jax.random.fold_in(key, 2**31 - 3))
        arrays = named(variables.params)
        own = {name: _repeated(arrays.pop(name), count) for name in self.own}
        trained = Trained(arrays, own, parts.common, parts.members)
        carried = jax.tree.map(lambda leaf: _repeated(leaf, count), variables.state)
        # The last branch of the replica's key: steps and orders fold in others.
        seed = jax.random.key_data(jax.random.fold_in(key, 2**31 - 2))
        optimiser = self._optimiser().init(trained)
        return ModulatedState(trained, parts.fixed, carried, optimiser, jnp.int32(0), seed)

    def step(self, key, state: ModulatedState, batch: Batch) -> tuple[ModulatedState, Info]:
        """One optimiser step of everything on the loss of all members."""
        (_, (carried, info)), gradient = jax.value_and_grad(self.loss, has_aux=True)(
            state.trained, state.fixed, state.carried, state.steps, key, batch
        )
        found = self._optimiser().update(gradient, state.optimiser, state.trained)
        updates, optimiser = cast(tuple[Trained, PyTree], found)
        faster = jax.tree.map(lambda leaf: self.rate_multiplier * leaf, updates.members)
        trained: Any = optax.apply_updates(state.trained, updates._replace(members=faster))
        new = ModulatedState(trained, state.fixed, carried, optimiser, state.steps + 1, state.seed)
        return new, info

    def loss(self, trained: Trained, fixed, carried, step, key, batch: Batch):
        """The mean loss of all members; the new states, and each member's loss to record."""
        problem, count = self.problem, self.modulator.members
        first, second, third = jax.random.split(key, 3)
        rows = split_rows(batch, count, first) if self.rows == "split" else batch

        def one(own, member, fixed, carried, key, rows: Batch):
            parts = Parts(trained.common, member, fixed)
            here = Member(trained.weights | own, parts, carried)

            def outputs(key, x):
                draw, inner = jax.random.split(key)
                return member_outputs(problem, self.modulator, here, draw, x, inner, True)

            if self.per_example:
                keys = jax.random.split(key, len(rows.x))
                found = jax.vmap(lambda key, x: outputs(key, x[None])[0][0])(keys, rows.x)
                return problem.likelihood.log_prob(found, rows.y), carried
            found, new = outputs(key, rows.x)
            return problem.likelihood.log_prob(found, rows.y), new

        axes = (0, 0, 0, 0, 0, 0 if self.rows == "split" else None)
        log_probs, new = jax.vmap(one, in_axes=axes)(
            trained.own, trained.members, fixed, carried, jax.random.split(second, count), rows
        )
        weights = jnp.broadcast_to(rows.weight, log_probs.shape)
        each = -(weights * log_probs).sum(1) / jnp.maximum(weights.sum(1), 1e-9)
        if self.mixture:
            mixed = jax.nn.logsumexp(log_probs, axis=0) - jnp.log(count)
            likelihood = -(rows.weight * mixed).sum() / rows.weight.sum()
        else:
            likelihood = -(weights * log_probs).sum() / weights.sum()
        parts = Parts(trained.common, trained.members, fixed)
        penalty = self._prior(trained) + self.modulator.penalty(trained.weights, parts, third, step)
        return likelihood + penalty, (new, {"loss": each + penalty, "nll": each})

    def members(self, state: ModulatedState) -> Variables:
        """The networks of all members, written out; of a random one, at the mean of its factors."""
        trained, modulator = state.trained, self.modulator

        def one(own, member, fixed, carried):
            parts = Parts(trained.common, member, fixed)
            here = Member(trained.weights | own, parts, carried)
            return member_variables(modulator, here, None)

        each = jax.vmap(one, axis_size=modulator.members)
        return each(trained.own, trained.members, state.fixed, state.carried)

    def trained(self, state: ModulatedState) -> PyTree:
        """Shared weights once, and what members add."""
        return state.trained, state.fixed

    @property
    def passes(self) -> int:
        """Rows are split among members, or all members see them."""
        return 1 if self.rows == "split" else self.modulator.members

    def _prior(self, trained: Trained) -> Float[Array, ""]:
        """The prior is one of the shared weights alone, but those that a modulator sees to."""
        nothing = {name: jnp.zeros(leaf.shape[1:]) for name, leaf in trained.own.items()}
        nothing |= {name: jnp.zeros_like(trained.weights[name]) for name in self.modulator.covered}
        params = assembled(self.modulator.structure, trained.weights | nothing)
        prior = self.problem.prior
        return prior.penalty(self.problem.weights(params), num_data=self.descent.num_data)

    def _optimiser(self) -> optax.GradientTransformation:
        """That of the settings; one that decays weights by itself spares all but the shared."""
        training = self.descent.training
        if training.optimiser not in _DECAYING:
            return self.descent.optimiser()
        spared = training.replace(decoupled_decay=0.0)
        each: dict[Any, optax.GradientTransformation] = {
            "shared": self.descent.optimiser(),
            "own": optimiser_for(spared, self.descent.num_data),
        }

        def labels(trained: Trained) -> Any:
            label = lambda name, tree: jax.tree.map(lambda _: name, tree)  # noqa: E731
            return Trained(*(label(n, t) for n, t in zip(_LABELS, trained, strict=True)))

        return optax.partition(each, labels)


_LABELS = ("shared", "own", "own", "own")


def split_rows(batch: Batch, members: int, key: Any) -> Batch:
    """The rows in turn to the members ``[members, rows, ...]``, each row to exactly one.

    Where the number does not divide, some members have a row less, filled up with weight zero. The
    first row goes to a random member, so that no one is always short.
    """
    size = len(batch.weight)
    length = -(-size // members)
    slots = jnp.arange(length * members)
    rows = (slots + jax.random.randint(key, (), 0, size)) % size
    rows, real = (a.reshape(length, members).T for a in (rows, slots < size))
    taken = jax.tree.map(lambda leaf: leaf[rows], batch)
    return taken._replace(weight=taken.weight * real)


def _repeated(leaf, count: int):
    return jnp.repeat(leaf[None], count, axis=0)
