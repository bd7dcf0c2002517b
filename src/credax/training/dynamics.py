"""What a method gives the loop: a pure ``init`` and ``step``, and where its members are."""

from typing import Any, NamedTuple, Protocol

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


class Dynamics(Protocol):
    """One replica's life. The loop runs ``replicas`` of them, each with its own key.

    An object of this kind is a pytree: the arrays it holds are arguments of the compiled program,
    never constants in it. A replica is one member (deep ensembles), one mode (SWAG, Laplace) or a
    whole population whose members see each other (repulsive ensembles). One whose members cannot
    be scored on validation rows before the end (infinite width) says ``scored = False``.
    """

    replicas: int
    """How many independent copies the loop trains."""
    offset: int | np.int32
    """Number of the first one: replica ``i`` uses ``fold_in(key, offset + i)``."""
    shared_batches: bool
    """All replicas see the same rows in the same order."""
    coupled: bool
    """False here; see `CoupledDynamics`."""

    def init(self, key: Key[Array, ""], x: Any) -> PyTree:
        """The first state; ``x`` is shaped like a batch of raw inputs."""
        ...

    def step(self, key: Key[Array, ""], state: PyTree, batch: Batch) -> tuple[PyTree, Info]:
        """The next state, and scalars to record; ``loss`` is one number a member."""
        ...

    def members(self, state: PyTree) -> Variables:
        """The members as they are now, on a leading axis (of length one for a single network)."""
        ...


class CoupledDynamics(Protocol):
    """Members that see each other: the loop hands over the whole population at once.

    States have a leading members axis on every leaf; how members run inside is the strategy's part.
    """

    replicas: int
    """How many members."""
    offset: int
    """Number of the first one."""
    shared_batches: bool
    """Always true: members are compared at the same inputs."""
    coupled: bool
    """Always true."""

    def init(self, keys: Key[Array, " members"], x: Any, strategy: Strategy) -> PyTree:
        """The first states; each member's depends on its own key alone."""
        ...

    def step(
        self,
        keys: Key[Array, " members"],
        state: PyTree,
        batch: Batch,
        strategy: Strategy,
        alive: Bool[Array, " members"],
    ) -> tuple[PyTree, Info]:
        """The next states; ``alive`` members only may influence others."""
        ...

    def members(self, state: PyTree) -> Variables:
        """One member of the population, with an axis of length one."""
        ...


class DescentState(NamedTuple):
    """A network and its optimiser."""

    variables: Variables
    optimiser: PyTree


class Descent(eqx.Module):
    """Gradient descent on the mean loss of one network: maximum a posteriori.

    ``adversarial`` holds the step of adversarial smoothing for each input entry in standard units
    (Lakshminarayanan et al. 2017): the loss becomes ``loss(x) + loss(x + ε sign ∇ₓ loss)``.
    """

    problem: Problem
    training: Training = eqx.field(static=True)
    num_data: int
    replicas: int = 1
    offset: int | np.int32 = 0
    shared_batches: bool = False
    adversarial: Float[Array, "..."] | None = None
    around: Variables | None = None
    """Stacked networks to go on from, one a replica, instead of fresh ones."""
    keep_best_of: int = 0
    """Validation keeps so many best networks of each replica; 0 leaves it to the settings."""

    coupled = False

    def init(self, key, x) -> DescentState:
        """A freshly initialised network."""
        return self.begin(key, self.problem.init(key, x))

    def begin(self, key, variables: Variables) -> DescentState:
        """A given network, about to take its first step."""
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
