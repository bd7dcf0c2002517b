"""The one dynamics of all repulsive ensembles: a driving force and a repulsion in some space.

    G_i = c ∇ [mean loss of member i]  +  ρ J_i^T v_i  +  ∇ penalty,      optimiser step on G_i

All members see one minibatch and one augmentation, for the kernel compares them at the same inputs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from credax.methods.spaces import Embedding, Space, Weights
from credax.network import Variables
from credax.problem import Batch, Problem
from credax.training.dynamics import Descent, DescentState, Info
from credax.training.members import Strategy

DIAGNOSTIC_STEPS = 32


class Push(NamedTuple):
    """What a force says: a cotangent in the space (descent sign), and scalars to record.

    ``scores`` mixes the members' own gradients (SVGD); None leaves each its own.
    """

    cotangent: PyTree
    info: dict[str, Array]
    scores: Float[Array, "members members"] | None = None


class Force(Protocol):
    """How members push one another in a space."""

    def push(self, embedding: Embedding, alive: Bool[Array, " members"], scene: "Scene") -> Push:
        """The force on every member."""
        ...


class Scene(NamedTuple):
    """What else a force may look at: the problem, the batch, the keys, and the way downhill."""

    problem: Problem
    batch: Batch
    keys: Array
    towards: Float[Array, "members batch outputs"]
    num_data: int


class RepulsiveState(NamedTuple):
    """A member with its optimiser, how many steps it took, and the last force to drive ratio."""

    descent: DescentState
    step: Int[Array, ""]
    ratio: Float[Array, ""]


class Repulsive(eqx.Module):
    """All members together; ``scale(step)`` is ρ and ``drive(step)`` multiplies the loss gradient.

    The repulsion acts every ``period`` steps, ``period`` times as strong. With ρ = 0 this is a deep
    ensemble with shared batches, bit for bit.
    """

    descent: Descent
    space: Space
    force: Force
    scale: float | Callable[[Array], Array]
    drive: Callable[[Array], Array] | None = None
    period: int = 1
    shared: str | None = None
    """Name of the parameters that all members share, such as a common last layer."""

    coupled = True
    shared_batches = True

    @property
    def replicas(self) -> int:
        """How many members there are."""
        return self.descent.replicas

    @property
    def offset(self) -> int:
        """Members count from zero."""
        return 0

    def init(self, keys, x, strategy: Strategy) -> RepulsiveState:
        """Members initialised independently of how many there are."""
        states = strategy(lambda key, _: self.descent.init(key, x), keys, None)
        if self.shared is not None:
            params = dict(states.variables.params)
            params[self.shared] = jax.tree.map(
                lambda leaf: jnp.broadcast_to(leaf[:1], leaf.shape), params[self.shared]
            )
            states = states._replace(variables=states.variables._replace(params=params))
        count = len(keys)
        return RepulsiveState(states, jnp.zeros(count, jnp.int32), jnp.zeros(count))

    def members(self, state: RepulsiveState) -> Variables:
        """One member, with an axis of length one."""
        return self.descent.members(state.descent)

    def step(
        self, keys, state: RepulsiveState, batch: Batch, strategy: Strategy, alive
    ) -> tuple[RepulsiveState, Info]:
        """One step of all members."""
        if not callable(self.scale) and self.scale == 0 and self.drive is None:
            step = lambda own, batch: self.descent.step(own[0], own[1], batch)  # noqa: E731
            descent, info = strategy(step, (keys, state.descent), batch)
            return state._replace(descent=descent, step=state.step + 1), info
        time = state.step[0]
        if self.period == 1:
            gradient, carried, info = self._pushed(keys, state, batch, strategy, alive, time)
        else:
            gradient, carried, info = jax.lax.cond(
                time % self.period == 0,
                lambda: self._pushed(keys, state, batch, strategy, alive, time),
                lambda: self._alone(keys, state, batch, strategy, alive, time),
            )
        descent = self._update(state.descent, gradient, carried, strategy)
        ratio = info.pop("ratio")
        info["force_ratio"] = ratio
        return RepulsiveState(descent, state.step + 1, ratio), info

    def _update(self, state: DescentState, gradient, carried, strategy) -> DescentState:
        def one(own, _):
            gradient, optimiser, params = own
            updates, optimiser = self.descent.optimiser().update(gradient, optimiser, params)
            return optax.apply_updates(params, updates), optimiser

        own = (gradient, state.optimiser, state.variables.params)
        params, optimiser = strategy(one, own, None)
        return DescentState(Variables(params, carried), optimiser)

    def _pushed(self, keys, state, batch, strategy, alive, time):
        problem, variables = self.descent.problem, state.descent.variables
        embedding = self.space.embed(problem, strategy, variables, batch, keys)
        nll, towards = self._likelihood(embedding.outputs, batch)
        penalty, shrink = self._penalty(variables.params)
        # One member that is not finite would poison every other through the kernel.
        alive = alive & jnp.isfinite(nll) & _finite(embedding.z)
        scene = Scene(problem, batch, keys, towards, self.descent.num_data)
        push = self.force.push(embedding, alive, scene)
        scale = self.scale(time) if callable(self.scale) else jnp.asarray(self.scale)
        strength = (scale * self.period).astype(nll.dtype)
        cotangent = jax.tree.map(lambda leaf: strength * leaf, push.cotangent)
        drive = 1.0 if self.drive is None else self.drive(time)
        towards = drive * towards
        if push.scores is not None and not isinstance(self.space, Weights):
            # SVGD in function space: the outputs' own gradients are mixed, then pulled back.
            towards = jnp.tensordot(push.scores.astype(towards.dtype), towards, 1)
        if push.scores is None or not isinstance(self.space, Weights):
            gradient = embedding.pullback(towards, cotangent)
            shrink = jax.tree.map(lambda leaf: drive * leaf, shrink) if self.drive else shrink
            gradient = jax.tree.map(jnp.add, gradient, shrink)
        else:
            gradient = self._mixed(embedding, push.scores, towards, shrink, cotangent)
        gradient = self._tied(gradient, alive)
        ratio = self._ratio(embedding, towards, cotangent, state, time)
        info = {"loss": nll + penalty, "nll": nll, "ratio": ratio, **push.info}
        return gradient, embedding.carried, info

    def _mixed(self, embedding, scores, towards, shrink, cotangent):
        """SVGD in weight space: every member follows a mixture of all members' gradients."""
        none = jax.tree.map(jnp.zeros_like, embedding.z)
        own = jax.tree.map(jnp.add, embedding.pullback(towards, none), shrink)
        mixed = jax.tree.map(lambda leaf: jnp.tensordot(scores.astype(leaf.dtype), leaf, 1), own)
        zero = jnp.zeros_like(embedding.outputs)
        return jax.tree.map(jnp.add, mixed, embedding.pullback(zero, cotangent))

    def _tied(self, gradient, alive):
        """Parameters that all members share follow the mean of the living members' gradients."""
        if self.shared is None:
            return gradient

        def mean(leaf):
            mask = alive.reshape(-1, *(1,) * (leaf.ndim - 1))
            total = jnp.sum(jnp.where(mask, leaf, 0.0), axis=0, keepdims=True)
            return jnp.broadcast_to(total / jnp.maximum(jnp.sum(alive), 1), leaf.shape)

        return {**gradient, self.shared: jax.tree.map(mean, gradient[self.shared])}

    def _alone(self, keys, state, batch, strategy, alive, time):
        """A step between two pushes: the diagnostics are those of no push."""
        gradient, carried, info = self._plain(keys, state.descent.variables, batch, strategy, time)
        pushed = jax.eval_shape(lambda: self._pushed(keys, state, batch, strategy, alive, time)[2])
        zeros = {k: jnp.zeros(v.shape, v.dtype) for k, v in pushed.items()}
        return gradient, carried, {**zeros, **info, "ratio": state.ratio}

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

    def _ratio(self, embedding, towards, cotangent, state, time):
        """Norm of the repulsion's gradient over the loss's, measured now and then."""

        def measure():
            none = jax.tree.map(jnp.zeros_like, cotangent)
            push = _norms(embedding.pullback(jnp.zeros_like(towards), cotangent))
            drive = _norms(embedding.pullback(towards, none))
            return (push / jnp.maximum(drive, 1e-12)).astype(state.ratio.dtype)

        return jax.lax.cond(time % DIAGNOSTIC_STEPS == 0, measure, lambda: state.ratio)


def _finite(z: Any) -> Bool[Array, " members"]:
    checks = [jnp.isfinite(leaf).reshape(len(leaf), -1).all(1) for leaf in jax.tree.leaves(z)]
    return jnp.stack(checks).all(0)


def _norms(tree: Any) -> Float[Array, " members"]:
    squares = [jnp.square(leaf).reshape(len(leaf), -1).sum(1) for leaf in jax.tree.leaves(tree)]
    return jnp.sqrt(sum(squares))
