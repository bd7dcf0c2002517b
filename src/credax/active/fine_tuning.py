"""One trajectory through all rounds: snapshots fine-tuned on new labels (Jung, Kim, Lee 2023)."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Int64, PyTree

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.modes import Kept, Modes, collecting, members_of_modes
from credax.methods.trajectory.snapshot_ensemble import SnapshotEnsemble
from credax.network import Variables
from credax.posterior import Population, population
from credax.problem import Batch, Problem
from credax.training import Descent, DescentState, Training
from credax.training.collecting import Buffer, Collecting, capture_table
from credax.training.dynamics import Dynamics, Info, Replicas


@dataclass(frozen=True)
class Continue:
    """How a loop with ``retrain="continue"`` goes on from the last network of the round before.

    Each round but the first and the last trains for ``epochs`` on the new labels and a replay of
    at most ``replay`` older ones, at a constant rate, and takes a snapshot after each of its last
    epochs. From there on the loss has the term ``strength Σ |θ - θ_SWA|``, a norm for each array of
    parameters, where ``θ_SWA`` is the mean of the snapshots of the round before and, as they are
    taken, of this one. The optimiser begins anew in every round.
    Reference: Jung, Kim, Lee, A simple yet powerful deep active learning with snapshots ensembles,
    ICLR 2023.
    """

    epochs: int = 50
    """Epochs of a round."""
    replay: int = 2000
    """At most so many older labels are trained on beside the new ones."""
    strength: float = 1e-2
    """Weight of the distance to the mean of the snapshots."""
    learning_rate: float | None = None
    """Constant rate; by default the last of the training's schedule if it is a function, else its
    base rate."""

    def __post_init__(self):
        if self.epochs < 1:
            raise InputError(f"epochs is {self.epochs}; a round has at least 1")
        if self.replay < 0:
            raise InputError(f"replay is {self.replay}; give a whole number from 0")
        if not self.strength >= 0:
            raise InputError(f"strength is {self.strength}; it is not negative")

    def training(self, training: Training, num_data: int) -> Training:
        """The settings of a round that goes on."""
        rate: Any = self.learning_rate or training.learning_rate
        if callable(rate):
            schedule: Any = rate
            rate = float(schedule(training.epochs * training.steps_per_epoch(num_data) - 1))
        return training.replace(
            epochs=self.epochs, schedule="constant", learning_rate=rate, warmup_epochs=0.0
        )

    def method(self, before: SnapshotEnsemble, posterior: Population) -> "FineTuning":
        """The method of the next round, from the snapshots of the last."""
        mean = jax.tree.map(lambda leaf: np.asarray(leaf).mean(0), posterior.variables.params)
        last = posterior.take([posterior.num_members - 1])
        return FineTuning(members=before.members, strength=self.strength, average=mean, around=last)


def replayed(
    bought: Int64[np.ndarray, " labelled"], most: int, generator: np.random.Generator
) -> Int64[np.ndarray, " chosen"]:
    """Positions among the labelled rows: all of the newest purchase, at most so many others.

    >>> replayed(np.array([0, 0, 0, 1, 1]), 2, np.random.default_rng(0)).tolist()
    [0, 2, 3, 4]
    """
    new = np.flatnonzero(bought == bought.max())
    older = np.flatnonzero(bought < bought.max())
    kept = np.sort(generator.permutation(older)[:most])
    return np.r_[kept, new]


class AnchoredState(NamedTuple):
    """Descent's state, the mean of the snapshots, how many it is of, and steps taken."""

    inner: DescentState
    mean: PyTree
    taken: Int[Array, ""]
    steps: Int[Array, ""]


class AnchoredDescent(Dynamics):
    """Descent that is pulled towards the running mean of its snapshots once they begin."""

    descent: Descent
    start_mean: PyTree
    start_count: int
    strength: float
    first: int
    """The step after which the pull acts."""
    table: Int[Array, " steps"]

    @property
    def replicas(self) -> Replicas:
        """As descent has."""
        return self.descent.replicas

    def init(self, key, variables: Variables) -> AnchoredState:
        """The network to go on from, and the mean of the snapshots before."""
        mean = jax.tree.map(jnp.asarray, self.start_mean)
        count = jnp.int32(self.start_count)
        return AnchoredState(self.descent.init(key, variables), mean, count, jnp.int32(0))

    def step(self, key, state: AnchoredState, batch: Batch) -> tuple[AnchoredState, Info]:
        """One optimiser step on the loss with its pull, then the mean if a snapshot is due."""
        variables = state.inner.variables
        gradient, carried, info = self.descent.gradient(key, variables, batch)
        strength = jnp.where(state.steps >= self.first, self.strength, 0.0)
        pull = pull_gradient(variables.params, state.mean)
        gradient = jax.tree.map(lambda g, p: g + strength * p, gradient, pull)
        inner = self.descent.update(state.inner, gradient, carried)
        due = self.table[state.steps + 1] >= 0
        count = state.taken + due.astype(jnp.int32)
        mean = jax.tree.map(
            lambda m, p: m + jnp.where(due, p - m, 0) / count, state.mean, inner.variables.params
        )
        return AnchoredState(inner, mean, count, state.steps + 1), info

    def members(self, state: AnchoredState) -> Variables:
        """The one network, with an axis of length one."""
        return self.descent.members(state.inner)


def pull_gradient(params: PyTree, mean: PyTree) -> PyTree:
    """The gradient of ``Σ |θ - θ_SWA|`` over arrays: unit vectors, and zero where both are equal.

    >>> pull_gradient({"w": jnp.array([3.0, 0.0])}, {"w": jnp.array([1.0, 0.0])})["w"].tolist()
    [1.0, 0.0]
    """

    def one(leaf, centre):
        gap = leaf - centre
        square = jnp.sum(jnp.square(gap))
        # The norm has no derivative at zero; the shortest subgradient there is zero.
        return gap * jnp.where(square > 0, jax.lax.rsqrt(jnp.where(square > 0, square, 1.0)), 0.0)

    return jax.tree.map(one, params, mean)


@dataclass(frozen=True)
class FineTuning(Modes):
    """Snapshots after each of the last epochs of a training that goes on from a network.

    The method of a round under `Continue`; it is made by the loop.
    """

    name: ClassVar[str] = "snapshot-fine-tuning"
    title: ClassVar[str] = "Snapshots, fine-tuned"

    members: int = 5
    strength: float = 1e-2
    average: Any = None
    """The mean of the snapshots before, a pytree of parameters."""

    def __post_init__(self):
        Modes.__post_init__(self)
        if self.members < 1:
            raise InputError(f"members is {self.members}; an ensemble has at least 1")

    def captures(self, epochs: int, per_epoch: int) -> list[int]:
        """The steps after which a snapshot is taken: the last so many epochs' ends."""
        if epochs < self.members:
            raise InputError(
                f"epochs is {epochs} and {self.members} snapshots are taken, one per epoch; give "
                f"at least {self.members} epochs"
            )
        return [(epochs - self.members + 1 + i) * per_epoch for i in range(self.members)]

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Descent with the pull, and a buffer of networks."""
        per_epoch = training.steps_per_epoch(len(data))
        captures = self.captures(training.epochs, per_epoch)
        inner = AnchoredDescent(
            self.descent(problem, data, training),
            self.average,
            self.members,
            self.strength,
            captures[0] - per_epoch,
            capture_table(captures, training.epochs * per_epoch),
        )
        return collecting(inner, Buffer(self.members), captures, training, data)

    def result(self, problem: Problem, dynamics, kept: Kept, data: Split) -> Population:
        """The snapshots, each with its own batch statistics."""
        variables, indices = members_of_modes(kept, kept.states.collected)
        return population(problem, variables, data.x, indices)
