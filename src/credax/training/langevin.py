"""Langevin dynamics: descent on the mean loss with the noise that makes it a sampler."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

from credax.network import Variables
from credax.problem import Batch
from credax.training.dynamics import Descent, Dynamics, Info, Replicas
from credax.training.schedule import learning_rate_at

# The noise's branch of a step's key; the network's own randomness uses the key itself.
_NOISE = 2**31 - 3


class LangevinState(NamedTuple):
    """A network, its momentum in units of a gradient, squared gradients, and the last rate."""

    variables: Variables
    momentum: PyTree
    square: PyTree
    rate: Float[Array, ""]
    steps: Int[Array, ""]


class Langevin(Dynamics):
    """Stochastic gradient Langevin dynamics with friction ``a``, for U = N times the mean loss.

    ``m' = (1 - a) m + g + sqrt(2 a T / (N r)) ξ``, ``θ' = θ - r m'`` with the rate ``r``: in the
    velocity ``v = -r m`` this is ``v' = (1 - a) v - r g + sqrt(2 a r T / N) ξ`` (SGHMC), and
    ``a = 1`` is SGLD. The momentum is kept as an optimiser keeps it, so that ``T = 0`` is SGD with
    momentum ``1 - a``, bit for bit. While it samples, a change of the rate rescales the momentum by
    ``sqrt(r / r')``, which leaves the velocity's temperature ``v²/r`` as it was.

    With ``decay`` set, steps are preconditioned by ``G = 1/(eps + sqrt(s))``, ``s`` the running
    mean of squared gradients: ``θ' = θ - r G m'`` and noise ``sqrt(2 a T / (N r G))`` (Li et al.
    2016, whose drift correction Γ is dropped). Noise is absent in the first ``quiet`` steps of
    every ``cycle``.
    """

    descent: Descent
    temperature: float = 1.0
    friction: float = 1.0
    decay: float | None = None
    eps: float = 1e-5
    quiet: int = 0
    cycle: int | None = None

    @property
    def replicas(self) -> Replicas:
        """As the wrapped dynamics has."""
        return self.descent.replicas

    def init(self, key, variables: Variables) -> LangevinState:
        """A network with zero momentum."""
        zeros = jax.tree.map(jnp.zeros_like, variables.params)
        momentum = zeros if self.friction != 1 else {}
        square = zeros if self.decay is not None else {}
        return LangevinState(variables, momentum, square, self.rate(jnp.int32(0)), jnp.int32(0))

    def step(self, key, state: LangevinState, batch: Batch) -> tuple[LangevinState, Info]:
        """One step of the sampler."""
        gradient, carried, info = self.descent.gradient(key, state.variables, batch)
        clip = self.descent.training.clip_norm
        if clip is not None:
            gradient, _ = optax.clip_by_global_norm(clip).update(gradient, optax.EmptyState())
        rate = self.rate(state.steps)
        square, before, now = self._precondition(state, gradient)
        momentum = gradient
        if self.friction != 1:
            momentum = self._kept(state, gradient, rate, before, now)
        if self.temperature:
            size = jnp.sqrt(2 * self.friction * self.temperature / (self.descent.num_data * rate))
            size = jnp.where(self.noisy(state.steps), size, 0)
            noise = _normal_like(jax.random.fold_in(key, _NOISE), momentum)
            momentum = jax.tree.map(
                lambda m, xi, g: m + size * xi / jnp.sqrt(g), momentum, noise, now
            )
        params = jax.tree.map(
            lambda p, m, g: p + (-rate) * (m if self.decay is None else g * m),
            state.variables.params,
            momentum,
            now,
        )
        stored = momentum if self.friction != 1 else {}
        variables = Variables(params, carried)
        return LangevinState(variables, stored, square, rate, state.steps + 1), info

    def members(self, state: LangevinState) -> Variables:
        """The network, with an axis of length one."""
        return jax.tree.map(lambda leaf: leaf[None], state.variables)

    def rate(self, step: Array) -> Float[Array, ""]:
        """The learning rate at a step."""
        descent = self.descent
        return jnp.asarray(learning_rate_at(descent.training, descent.num_data)(step))

    def noisy(self, step: Array) -> Bool[Array, ""]:
        """Whether a step has noise."""
        position = step if self.cycle is None else jnp.mod(step, self.cycle)
        return position >= self.quiet

    def _kept(self, state, gradient, rate, before, now):
        def one(m, g, old, new):
            if self.temperature:
                # After a step with noise only: exploration is the optimiser's own descent.
                ratio = jnp.sqrt(state.rate * old / (rate * new))
                m = m * jnp.where(self.noisy(state.steps - 1), ratio, 1)
            return g + (1 - self.friction) * m

        return jax.tree.map(one, state.momentum, gradient, before, now)

    def _precondition(self, state: LangevinState, gradient):
        """The running squares, and the preconditioner before and after this gradient."""
        if self.decay is None:
            ones = jax.tree.map(lambda g: jnp.ones((), g.dtype), gradient)
            return {}, ones, ones
        decay = self.decay
        square = jax.tree.map(
            lambda s, g: decay * s + (1 - decay) * jnp.square(g), state.square, gradient
        )
        scale = lambda s: 1 / (self.eps + jnp.sqrt(s))  # noqa: E731
        now = jax.tree.map(scale, square)
        # Before the first gradient nothing moves, so that no momentum is rescaled.
        started = state.steps > 0
        before = jax.tree.map(lambda s, n: jnp.where(started, scale(s), n), state.square, now)
        return square, before, now


def _normal_like(key, tree: PyTree) -> PyTree:
    leaves, structure = jax.tree.flatten(tree)
    keys = jax.random.split(key, len(leaves))
    drawn = [jax.random.normal(k, a.shape, a.dtype) for k, a in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(structure, drawn)
