"""What a method gives the loop: pure ``init``, ``step`` and ``members``, and its replicas."""

import abc
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Key, PyTree

from credax.network import Variables
from credax.problem import Batch, Problem
from credax.training.config import Training
from credax.training.members import Strategy
from credax.training.schedule import optimiser_for

Info = dict[str, Array]


class Replicas(eqx.Module):
    """The independent copies that the loop trains, and where they start.

    A replica is one member (deep ensembles), one mode (SWAG, Laplace), one chain (HMC) or one
    member of a population whose members see each other (repulsive ensembles).
    """

    count: int = 1
    """How many there are."""
    offset: int | np.int32 = 0
    """Number of the first one: replica ``i`` uses ``fold_in(key, offset + i)``."""
    shared_batches: bool = False
    """All replicas see the same rows in the same order."""
    start: Variables | None = None
    """Stacked networks to continue from, one per replica, instead of new ones."""
    keep_best_of: int = 0
    """Validation keeps so many best networks of each replica; 0 leaves it to the settings."""


class Hooks(eqx.Module):
    """What the loop asks of every dynamics, with the answer that most of them give.

    A dynamics is a pytree: the arrays it holds are arguments of the compiled program, never
    constants in it.
    """

    coupled: ClassVar[bool] = False
    """Whether a step needs all members at once (`CoupledDynamics`)."""
    scored: ClassVar[bool] = True
    """Whether members can be evaluated on validation rows while training goes on."""

    @property
    @abc.abstractmethod
    def replicas(self) -> Replicas:
        """The copies that the loop trains."""

    @abc.abstractmethod
    def members(self, state: PyTree) -> Variables:
        """The networks of one replica now, on a leading axis (length one for one network)."""

    def trained(self, state: PyTree) -> PyTree:
        """The arrays of one replica that are trained or kept with them, for counting."""
        return self.members(state).params

    @property
    def passes(self) -> int | None:
        """How often a replica sends a row of a batch through a network; None: once per member."""
        return None


class Dynamics(Hooks):
    """The training of one replica, as pure functions; the loop maps them over replicas."""

    @abc.abstractmethod
    def init(self, key: Key[Array, ""], variables: Variables) -> PyTree:
        """The state before the first step, from a new or given network."""

    @abc.abstractmethod
    def step(self, key: Key[Array, ""], state: PyTree, batch: Batch) -> tuple[PyTree, Info]:
        """The next state, and scalars to record; ``loss`` is one number per member."""


class CoupledDynamics(Hooks):
    """Members that see each other: the loop passes the whole population at once.

    States have a leading members axis on every leaf; the strategy says how members run inside.
    Batches are shared, so that members are compared at the same inputs.
    """

    coupled: ClassVar[bool] = True

    @abc.abstractmethod
    def init(
        self, keys: Key[Array, " members"], variables: Variables, strategy: Strategy
    ) -> PyTree:
        """The states before the first step, from stacked networks."""

    @abc.abstractmethod
    def step(
        self,
        keys: Key[Array, " members"],
        state: PyTree,
        batch: Batch,
        strategy: Strategy,
        alive: Bool[Array, " members"],
    ) -> tuple[PyTree, Info]:
        """The next states; only members that are ``alive`` (finite) may influence others."""


class DescentState(NamedTuple):
    """A network and its optimiser."""

    variables: Variables
    optimiser: PyTree


class Descent(Dynamics):
    """Gradient descent on the mean loss of one network: maximum a posteriori.

    ``adversarial`` holds the step of adversarial smoothing for each input entry in standard units
    (Lakshminarayanan et al. 2017): the loss becomes ``loss(x) + loss(x + ε sign ∇ₓ loss)``.
    """

    problem: Problem
    training: Training = eqx.field(static=True)
    num_data: int
    replicas: Replicas = Replicas()  # pyright: ignore[reportIncompatibleMethodOverride]
    adversarial: Float[Array, "..."] | None = None

    def init(self, key, variables: Variables) -> DescentState:
        """A network and its optimiser."""
        return DescentState(variables, self.optimiser().init(variables.params))

    def step(self, key, state: DescentState, batch: Batch) -> tuple[DescentState, Info]:
        """One optimiser step."""
        gradient, carried, info = self.gradient(key, state.variables, batch)
        return self.update(state, gradient, carried), info

    def update(self, state: DescentState, gradient: PyTree, carried: PyTree) -> DescentState:
        """The optimiser's step along a gradient, with the network's new state."""
        params = state.variables.params
        updates, optimiser = self.optimiser().update(gradient, state.optimiser, params)
        params = optax.apply_updates(params, updates)
        return DescentState(Variables(params, carried), optimiser)

    def gradient(self, key, variables: Variables, batch: Batch) -> tuple[PyTree, PyTree, Info]:
        """The gradient of the mean loss, the network's new state, and what to record."""
        (loss, (carried, likelihood)), gradient = jax.value_and_grad(self._loss, has_aux=True)(
            variables.params, variables.state, batch, key
        )
        return gradient, carried, {"loss": loss, "nll": likelihood}

    def members(self, state: DescentState) -> Variables:
        """The one network, with an axis of length one."""
        return jax.tree.map(lambda leaf: leaf[None], state.variables)

    def optimiser(self) -> optax.GradientTransformation:
        """The optimiser of the training settings (cheap: built while tracing)."""
        return optimiser_for(self.training, self.num_data)

    def _loss(self, params, carried, batch, key):
        variables = Variables(params, carried)

        def likelihood(x):
            outputs, new = self.problem.outputs(variables, x, key=key, train=True)
            return self.problem.negative_log_likelihood(outputs, batch._replace(x=x)), new

        value, new = likelihood(batch.x)
        penalty = self.problem.prior.penalty(self.problem.weights(params), num_data=self.num_data)
        if self.adversarial is None:
            return value + penalty, (new, value)
        slope = jax.lax.stop_gradient(jax.grad(lambda x: likelihood(x)[0])(batch.x))
        other, _ = likelihood(batch.x + self.adversarial * jnp.sign(slope))
        return value + other + penalty, (new, value)
