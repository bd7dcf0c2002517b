"""MIMO: one trunk for several inputs, one head for each (Havasi et al. 2021)."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Int, PyTree, UInt32

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.ensembles.modulated_posterior import ModulatedPosterior, Shared
from credax.methods.ensembles.modulator import Modulator, Parts, assembled, named, weight_names
from credax.methods.modes import Kept, Modes
from credax.methods.traced import structure_with_kernels
from credax.network import Network, Variables
from credax.problem import Batch, Problem
from credax.structure import Structure, kernels
from credax.structure.factored import PREFIX, Factors
from credax.training import Descent, Training
from credax.training.dynamics import Dynamics, Info, Replicas


@dataclass(frozen=True)
class MIMO(Modes):
    """One network that takes ``members`` inputs side by side and answers each with its own head.

    In training the inputs are different rows, beside each other along the last axis, and head m
    answers the m-th of them; for a prediction all of them are the same row, and the answers are
    mixed. The loss is the sum over heads of their mean NLL. The trunk is computed once, so that
    training (per row) and prediction cost about one network. Memory: one network, its first kernel
    ``members`` times as wide, and ``members`` heads.

    Reference: Havasi et al., Training independent subnetworks for robust prediction, ICLR 2021.

    >>> MIMO().members, MIMO().batch_repetitions
    (3, 4)
    """

    name: ClassVar[str] = "mimo"
    title: ClassVar[str] = "MIMO"

    members: int = 3
    """Inputs, heads, and members of each mode."""
    repetition: float = 0.0
    """Share of rows that meet themselves in all inputs in training."""
    batch_repetitions: int = 4
    """How often every row of a batch appears in a step, each time with other rows."""

    def __post_init__(self):
        Modes.__post_init__(self)
        for name in ("members", "batch_repetitions"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it is at least 1")
        if not 0 <= self.repetition <= 1:
            raise InputError(f"repetition is {self.repetition}; give a share from 0 to 1")
        if self.around is not None:
            raise InputError(
                "around is given and MIMO's network has a wider first layer than a trained one; "
                "leave it out"
            )

    def trained_problem(self, problem: Problem) -> Problem:
        """The problem whose network takes the same row in all inputs."""
        return problem.with_network(lambda network: RepeatedInputs(network, self.members))

    def dynamics(self, problem: Problem, data: Split, training: Training) -> "MIMODescent":
        """Descent of the trunk and all heads; ``problem`` repeats its inputs."""
        if not np.issubdtype(data.x.dtype, np.floating) and data.x.ndim == 2:
            raise InputError(
                f"x has type {data.x.dtype}: tokens cannot be put side by side into one network; "
                "use batch-ensemble, or inputs that are numbers"
            )
        example = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
        heads = Heads.of(problem, example, self.members)
        descent = self.descent(problem, data, training)
        return MIMODescent(descent, heads, self.repetition, self.batch_repetitions)

    def posterior(self, problem, dynamics, states, variables, alive, data) -> Any:
        """What is kept of the modes whose heads all stayed finite: they share the trunk."""
        finite = np.asarray(alive).reshape(dynamics.replicas.count, -1).all(1)
        return Modes.posterior(self, problem, dynamics, states, variables, finite, data)

    def result(
        self, problem: Problem, dynamics: "MIMODescent", kept: Kept, data: Split
    ) -> ModulatedPosterior:
        """The trunk, its heads and its batch statistics."""
        states = jax.tree.map(jnp.asarray, kept.states)
        shared = Shared(states.trained.weights, states.trained.own, Parts(), states.carried)
        seeds = jnp.repeat(states.seed[:, None, None], self.members, axis=1)
        return ModulatedPosterior(
            self.trained_problem(problem), dynamics.heads, shared, seeds, kept.modes,
            tuple(data.x.shape[1:]), str(np.asarray(data.x[:0]).dtype),
        )  # fmt: skip

    def load(self, path, problem: Problem) -> ModulatedPosterior:
        """Read trunk and heads back."""
        return ModulatedPosterior.load(path, self.trained_problem(problem), self.stored_shapes)

    def stored_shapes(self, problem: Problem, x: Any) -> tuple[Modulator, Shared]:
        """The heads for raw inputs shaped like ``x``, and the shapes of what one mode stores."""
        heads = Heads.of(problem, x, self.members)

        def one(key) -> Shared:
            variables = problem.init(key, x)
            arrays = named(variables.params)
            own = {name: jnp.stack([arrays.pop(name)] * self.members) for name in heads.names}
            return Shared(arrays, own, Parts(), variables.state)

        return heads, jax.eval_shape(one, jax.random.key(0))


class RepeatedInputs(eqx.Module):
    """A network with ``count`` times as many inputs, given the same row in all of them."""

    network: Network
    count: int = eqx.field(static=True)

    def init(self, key, x) -> Variables:
        """Variables of the wider network."""
        wide = (*x.shape[:-1], self.count * x.shape[-1])
        return self.network.init(key, jax.ShapeDtypeStruct(wide, x.dtype))

    def apply(self, variables, x, *, key=None, train=False):
        """The outputs for rows beside themselves."""
        wide = jnp.concatenate([x] * self.count, axis=-1)
        return self.network.apply(variables, wide, key=key, train=train)


class Heads(Modulator):
    """Nothing is multiplied: members have the last kernel and its bias for themselves."""

    names: tuple[str, ...] = eqx.field(static=True, default=())

    shared_state: ClassVar[bool] = True

    @classmethod
    def of(cls, problem: Problem, x: Any, members: int) -> "Heads":
        """The heads of a network: the last kernel of its computation, and the bias added to it."""
        structure = structure_with_kernels(problem, x, "give several heads to")
        last = kernels(structure)[-1]
        names = [last, structure.contractions[last].bias]
        found = tuple(sorted(name.removeprefix(PREFIX) for name in names if name is not None))
        return cls(structure, members, found)

    def init(self, key) -> Parts:
        """Nothing."""
        return Parts()

    def factors(self, common, member, fixed, key) -> Factors:
        """None."""
        return Factors({}, {})


class Trained(NamedTuple):
    """The trunk's parameters, and those of all heads ``[members, ...]``."""

    weights: dict[str, Array]
    own: dict[str, Array]


class MIMOState(NamedTuple):
    """Trunk and heads of one mode, its batch statistics and its optimiser."""

    trained: Trained
    carried: PyTree
    optimiser: PyTree
    steps: Int[Array, ""]
    seed: UInt32[Array, "..."]


class MIMODescent(Dynamics):
    """Descent on rows beside other rows; ``descent.problem`` repeats its inputs."""

    descent: Descent
    heads: Heads
    repetition: float = eqx.field(static=True)
    batch_repetitions: int = eqx.field(static=True)

    @property
    def replicas(self) -> Replicas:
        """One per mode."""
        return self.descent.replicas

    @property
    def structure(self) -> Structure:
        """That of the network."""
        return self.heads.structure

    def init(self, key, variables: Variables) -> MIMOState:
        """The trunk as it is, and heads drawn one by one."""
        arrays = named(variables.params)
        own = {}
        for name in self.heads.names:
            own[name] = self._heads(jax.random.fold_in(key, 2**31 - 3), arrays.pop(name))
        trained = Trained(arrays, own)
        seed = jax.random.key_data(jax.random.fold_in(key, 2**31 - 2))
        optimiser = self.descent.optimiser().init(trained)
        return MIMOState(trained, variables.state, optimiser, jnp.int32(0), seed)

    def _heads(self, key, leaf):
        """The first head as drawn, the others with its entries in another random order."""
        keys = jax.vmap(lambda m: jax.random.fold_in(key, m))(jnp.arange(self.heads.members))
        mixed = jax.vmap(lambda k: jax.random.permutation(k, leaf.reshape(-1)))(keys)
        return mixed.reshape(-1, *leaf.shape).at[0].set(leaf)

    def step(self, key, state: MIMOState, batch: Batch) -> tuple[MIMOState, Info]:
        """One optimiser step of the trunk and all heads."""
        (_, (carried, info)), gradient = jax.value_and_grad(self.loss, has_aux=True)(
            state.trained, state.carried, key, batch
        )
        updates, optimiser = self.descent.optimiser().update(
            gradient, state.optimiser, state.trained
        )
        trained: Any = optax.apply_updates(state.trained, updates)
        return MIMOState(trained, carried, optimiser, state.steps + 1, state.seed), info

    def loss(self, trained: Trained, carried, key, batch: Batch):
        """The sum over heads of their mean NLL and the prior; the new state, and what to record."""
        problem, count = self.descent.problem, self.heads.members
        first, second = jax.random.split(key)
        rows = slots(first, len(batch.weight), count, self.repetition, self.batch_repetitions)
        wide = jnp.concatenate([batch.x[rows[m]] for m in range(count)], axis=-1)
        plain = problem.with_network(lambda repeated: repeated.network)  # pyright: ignore[reportAttributeAccessIssue]

        def head(own):
            variables = Variables(assembled(self.structure, trained.weights | own), carried)
            return plain.outputs(variables, wide, key=second, train=True)

        outputs, states = jax.vmap(head)(trained.own)
        new = jax.tree.map(lambda leaf: leaf[0], states)  # of the trunk: the same for all heads
        each = jax.vmap(
            lambda out, mine: problem.negative_log_likelihood(
                out, Batch(wide, batch.y[mine], batch.weight[mine])
            )
        )(outputs, rows)
        penalty = self._prior(trained)
        return each.sum() + penalty, (new, {"loss": each + penalty, "nll": each})

    def members(self, state: MIMOState) -> Variables:
        """A network for every head, with a copy of the trunk."""
        trained, count = state.trained, self.heads.members
        repeat = lambda leaf: jnp.repeat(leaf[None], count, axis=0)  # noqa: E731
        arrays = jax.tree.map(repeat, trained.weights) | trained.own
        return Variables(assembled(self.structure, arrays), jax.tree.map(repeat, state.carried))

    def trained(self, state: MIMOState) -> PyTree:
        """The trunk once, and the heads."""
        return state.trained

    @property
    def passes(self) -> int:
        """Rows stand beside others, several times."""
        return self.batch_repetitions

    def _prior(self, trained: Trained):
        arrays = trained.weights | trained.own
        names = weight_names(self.structure, self.descent.problem)
        prior = self.descent.problem.prior
        return prior.penalty({n: arrays[n] for n in names}, num_data=self.descent.num_data)


def slots(
    key, size: int, members: int, repetition: float, repetitions: int
) -> Int[Array, "members rows"]:
    """Which row of a batch stands in which input.

    Every row appears ``repetitions`` times in every input; a share ``repetition`` of places has the
    same row in all inputs, at the others the inputs are shuffled independently.
    """
    first, second = jax.random.split(key)
    order = jax.random.permutation(first, jnp.tile(jnp.arange(size), repetitions))
    free = round((1 - repetition) * len(order))
    keys = jax.random.split(second, members)
    mixed = jax.vmap(lambda k: jax.random.permutation(k, order[:free]))(keys)
    same = jnp.broadcast_to(order[free:], (members, len(order) - free))
    return jnp.concatenate([mixed, same], axis=1)
