"""The one dynamics of all repulsive ensembles: the loss and a repulsion in an embedding space.

    G_i = c ∇ [mean loss of member i]  +  ρ J_i^T v_i  +  ∇ penalty,      optimiser step on G_i

All members see one minibatch and one augmentation, for the kernel compares them at the same inputs.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from credax.methods.repulsive.embeddings import Embedding, EmbeddingSpace, Functions
from credax.methods.repulsive.kernels import mix
from credax.network import Variables
from credax.problem import Batch, Problem
from credax.training.dynamics import CoupledDynamics, Descent, DescentState, Info, Replicas
from credax.training.members import Map, Shard, Strategy

DIAGNOSTIC_STEPS = 32


class Update(NamedTuple):
    """What a repulsion gives: a cotangent in the space (descent sign), and scalars to record.

    ``scores`` mixes the members' own gradients (SVGD); None leaves each its own.
    """

    cotangent: PyTree
    info: dict[str, Array]
    scores: Float[Array, "members members"] | None = None


class StepContext(NamedTuple):
    """What else a repulsion may look at: the problem, the batch, the keys, and
    the gradient of the loss by the outputs."""

    problem: Problem
    batch: Batch
    keys: Array
    towards: Float[Array, "members batch outputs"]
    num_data: int


class Repulsion(Protocol):
    """How members update one another in a space."""

    measures: ClassVar[tuple[str, ...]]
    """Names of what `measure` gives."""

    def update(
        self, embedding: Embedding, alive: Bool[Array, " members"], context: StepContext
    ) -> Update:
        """The repulsion on every member."""
        ...

    def measure(self, embedding: Embedding, alive: Bool[Array, " members"]) -> list[Array]:
        """What costs too much to record every step: one number per member for each name."""
        ...


class RepulsiveState(NamedTuple):
    """A member with its optimiser, how many steps it took, and what was last measured of it.

    ``force_ratio``, the repulsion's gradient over the loss's, and what the repulsion measures.
    """

    descent: DescentState
    step: Int[Array, ""]
    measured: dict[str, Float[Array, ""]]


class Repulsive(CoupledDynamics):
    """All members together; ``scale(step)`` is ρ and ``drive(step)`` multiplies the loss gradient.

    The repulsion acts every ``period`` steps, ``period`` times as strong. With ρ = 0 this is a deep
    ensemble with shared batches, bit for bit.
    """

    descent: Descent
    space: EmbeddingSpace
    repulsion: Repulsion
    scale: float | Callable[[Array], Array]
    drive: Callable[[Array], Array] | None = None
    period: int = 1
    shared: str | None = None
    """Name of the parameters that all members share, such as a common last layer."""

    @property
    def replicas(self) -> Replicas:
        """As the wrapped dynamics has."""
        return self.descent.replicas

    def init(self, keys, variables: Variables, strategy: Strategy) -> RepulsiveState:
        """Members with their optimisers; what they share is the first member's."""
        states = strategy(lambda own, _: self.descent.init(*own), (keys, variables), None)
        if self.shared is not None:
            params = dict(states.variables.params)
            params[self.shared] = jax.tree.map(
                lambda leaf: jnp.broadcast_to(leaf[:1], leaf.shape), params[self.shared]
            )
            states = states._replace(variables=states.variables._replace(params=params))
        count = len(keys)
        measured = {name: jnp.zeros(count) for name in ("force_ratio", *self.repulsion.measures)}
        return RepulsiveState(states, jnp.zeros(count, jnp.int32), measured)

    def members(self, state: RepulsiveState) -> Variables:
        """One member, with an axis of length one."""
        return self.descent.members(state.descent)

    def step(
        self, keys, state: RepulsiveState, batch: Batch, strategy: Strategy, alive
    ) -> tuple[RepulsiveState, Info]:
        """One step of all members."""
        silent = not callable(self.scale) and self.scale == 0
        if silent and self.drive is None and self.shared is None:
            step = lambda own, batch: self.descent.step(own[0], own[1], batch)  # noqa: E731
            descent, info = strategy(step, (keys, state.descent), batch)
            return state._replace(descent=descent, step=state.step + 1), info
        time = state.step[0]
        if self.period == 1:
            gradient, carried, info = self._repelled(keys, state, batch, strategy, alive, time)
        else:
            gradient, carried, info = jax.lax.cond(
                time % self.period == 0,
                lambda: self._repelled(keys, state, batch, strategy, alive, time),
                lambda: self._alone(keys, state, batch, strategy, alive, time),
            )
        descent = self._update(state.descent, gradient, carried, strategy)
        measured = {name: info[name] for name in state.measured}
        return RepulsiveState(descent, state.step + 1, measured), info

    def _update(self, state: DescentState, gradient, carried, strategy) -> DescentState:
        def one(own, _):
            gradient, optimiser, params = own
            updates, optimiser = self.descent.optimiser().update(gradient, optimiser, params)
            return optax.apply_updates(params, updates), optimiser

        own = (gradient, state.optimiser, state.variables.params)
        params, optimiser = strategy(one, own, None)
        return DescentState(Variables(params, carried), optimiser)

    def _repelled(self, keys, state, batch, strategy, alive, time):
        problem, variables = self.descent.problem, state.descent.variables
        embedding = self.space.embed(problem, strategy, variables, batch, keys)
        nll, towards = self._likelihood(embedding.outputs, batch)
        penalty, shrink = self._penalty(variables.params)
        # One member that is not finite would make every other one non-finite through the kernel.
        alive = alive & jnp.isfinite(nll) & _finite(embedding.z)
        context = StepContext(problem, batch, keys, towards, self.descent.num_data)
        update = self.repulsion.update(embedding, alive, context)
        scale = self.scale(time) if callable(self.scale) else self.scale
        strength = jnp.asarray(scale, nll.dtype) * self.period
        cotangent = jax.tree.map(lambda leaf: strength * leaf, update.cotangent)
        factor = 1.0 if self.drive is None else self.drive(time)
        towards = factor * towards
        if update.scores is not None and isinstance(self.space, Functions):
            # SVGD in function space: the outputs' own gradients are mixed, then pulled back.
            towards = self.space.blend(problem, update.scores, only_alive(towards, alive))
        if update.scores is None or isinstance(self.space, Functions):
            gradient = embedding.pullback(towards, cotangent)
            shrink = jax.tree.map(lambda leaf: factor * leaf, shrink) if self.drive else shrink
            total = jax.tree.map(jnp.add, gradient, shrink)
        else:
            gradient, total = self._mixed(
                embedding, update.scores, towards, shrink, cotangent, alive
            )
        ratio = partial(self._force_ratio, keys, variables, batch, strategy, towards, gradient)
        measured = self._measured(embedding, ratio, alive, state, time)
        info = {"loss": nll + penalty, "nll": nll, **update.info, **measured}
        info |= {"repulsion_scale": strength, "alive": jnp.sum(alive)}
        return self._tied(total, alive), embedding.carried, info

    def _mixed(self, embedding, scores, towards, shrink, cotangent, alive):
        """SVGD in weight space: every member follows a mixture of all members' gradients."""
        none = jax.tree.map(jnp.zeros_like, embedding.z)
        own = embedding.pullback(towards, none)
        mixed = mix(scores, only_alive(jax.tree.map(jnp.add, own, shrink), alive))
        own = jax.tree.map(jnp.add, own, cotangent)
        return own, jax.tree.map(jnp.add, mixed, cotangent)

    def _tied(self, gradient, alive):
        """Parameters that all members share follow the mean of the finite members' gradients."""
        if self.shared is None:
            return gradient

        def mean(leaf):
            mask = alive.reshape(-1, *(1,) * (leaf.ndim - 1))
            total = jnp.sum(jnp.where(mask, leaf, 0.0), axis=0, keepdims=True)
            return jnp.broadcast_to(total / jnp.maximum(jnp.sum(alive), 1), leaf.shape)

        return {**gradient, self.shared: jax.tree.map(mean, gradient[self.shared])}

    def _alone(self, keys, state, batch, strategy, alive, time):
        """A step between two updates: the diagnostics are those of no update."""
        gradient, carried, info = self._plain(keys, state.descent.variables, batch, strategy, time)
        repelled = jax.eval_shape(
            lambda: self._repelled(keys, state, batch, strategy, alive, time)[2]
        )
        zeros = {k: jnp.zeros(v.shape, v.dtype) for k, v in repelled.items()}
        return gradient, carried, {**zeros, **info, **state.measured}

    def _plain(self, keys, variables, batch, strategy, time):
        def one(own, batch):
            params, carried, key = own

            def loss(params):
                outputs, new = self.descent.problem.outputs(
                    Variables(params, carried), batch.x, key=key, train=True
                )
                return self.descent.problem.negative_log_likelihood(outputs, batch), new

            (nll, new), gradient = jax.value_and_grad(loss, has_aux=True)(params)
            return gradient, new, nll

        own = (variables.params, variables.state, keys)
        gradient, carried, nll = strategy(one, own, batch)
        penalty, shrink = self._penalty(variables.params)
        drive = 1.0 if self.drive is None else self.drive(time)
        gradient = jax.tree.map(lambda g, s: drive * (g + s), gradient, shrink)
        return self._tied(gradient, jnp.isfinite(nll)), carried, {"loss": nll + penalty, "nll": nll}

    def _likelihood(self, outputs, batch):
        """Each member's mean negative log-likelihood and its derivative by the outputs."""
        nll = lambda out: self.descent.problem.negative_log_likelihood(out, batch)  # noqa: E731
        return jax.vmap(jax.value_and_grad(nll))(outputs)

    def _penalty(self, params):
        problem, num_data = self.descent.problem, self.descent.num_data

        def penalty(params):
            return problem.prior.penalty(problem.weights(params), num_data=num_data)

        return jax.vmap(jax.value_and_grad(penalty))(params)

    def _force_ratio(self, keys, variables, batch, strategy, towards, gradient):
        """The repulsion's gradient over the loss's, one member after another to spare memory."""

        def one(own, _):
            params, carried, key, towards, gradient = own
            apply = lambda params: self.descent.problem.outputs(  # noqa: E731
                Variables(params, carried), batch.x, key=key, train=True
            )[0]
            drive = jax.vjp(apply, params)[1](towards)[0]
            update = optax.tree.norm(jax.tree.map(jnp.subtract, gradient, drive))
            return update / jnp.maximum(optax.tree.norm(drive), jnp.finfo(update.dtype).tiny)

        in_turn = strategy if isinstance(strategy, Shard) else Map()
        return in_turn(one, (variables.params, variables.state, keys, towards, gradient), None)

    def _measured(self, embedding, ratio, alive, state, time):
        """Costly numbers, now and then; ``ratio()`` compares repulsion and loss.

        At the first step of an epoch or every 32 steps, whichever is more often; else the last.
        """
        per_epoch = self.descent.training.steps_per_epoch(self.descent.num_data)
        every = min(DIAGNOSTIC_STEPS, per_epoch) * self.period

        def measure():
            others = zip(
                self.repulsion.measures, self.repulsion.measure(embedding, alive), strict=True
            )
            found = {"force_ratio": ratio(), **dict(others)}
            return {name: found[name].astype(old.dtype) for name, old in state.measured.items()}

        return jax.lax.cond(time % every == 0, measure, lambda: state.measured)


def only_alive(tree: PyTree, alive: Bool[Array, " members"]) -> PyTree:
    """Zeros in place of diverged members: values that are not finite would reach the others."""

    def keep(leaf):
        return jnp.where(alive.reshape(-1, *(1,) * (leaf.ndim - 1)), leaf, 0.0)

    return jax.tree.map(keep, tree)


def _finite(z: Any) -> Bool[Array, " members"]:
    checks = [jnp.isfinite(leaf).reshape(len(leaf), -1).all(1) for leaf in jax.tree.leaves(z)]
    return jnp.stack(checks).all(0)
