"""Microcanonical Langevin chains on the full log joint, by blackjax's kernel."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from credax.methods.sampling.log_joint import Tempered
from credax.methods.sampling.tuning import Tuned, Tuning
from credax.methods.sampling.warmup import algorithm
from credax.network import Variables
from credax.problem import Batch
from credax.training import Descent
from credax.training.dynamics import Dynamics, Info, Replicas


class MicrocanonicalState(NamedTuple):
    """A blackjax state, how warm-up stands, and what happened after it."""

    chain: Any
    tuned: Tuned
    steps: Int[Array, ""]
    refused: Int[Array, ""]
    """Steps after warm-up that gave no numbers, and so were not taken."""
    energy: Float[Array, ""]
    """Sum of squared energy errors after warm-up."""


class Microcanonical(Dynamics):
    """One chain of microcanonical Langevin Monte Carlo; a step of the loop is one of the chain.

    ``dx = u dt``, ``du = -(I - u uᵀ) ∇S(x)/(d-1) dt + η (I - u uᵀ) dW`` with a unit momentum ``u``
    and ``S = -log p(θ, data) / T``, by McLachlan's integrator: two gradients of all rows per step.
    No step is rejected, so the energy error is part of the result. The rows are part of the
    ``target``: the batches that the loop offers are not looked at.
    """

    descent: Descent
    target: Tempered
    warmup: int

    @property
    def replicas(self) -> Replicas:
        """As the wrapped dynamics has."""
        return self.descent.replicas

    @property
    def tuning(self) -> Tuning:
        """How warm-up finds step size and length."""
        return Tuning(self.warmup)

    def init(self, key, variables: Variables) -> MicrocanonicalState:
        """A network and a random direction."""
        chain = algorithm("mclmc").init(variables.params, self.target, key)
        zero = jnp.zeros((), chain.logdensity.dtype)
        tuned = self.tuning.init(variables.params)
        return MicrocanonicalState(chain, tuned, jnp.int32(0), jnp.int32(0), zero)

    def step(self, key, state: MicrocanonicalState, batch: Batch):
        """One step of the integrator; in warm-up it also moves step size and length."""
        kernel = algorithm("mclmc").build_kernel()
        tuned = state.tuned
        chain, info = kernel(key, state.chain, self.target, 1.0, tuned.length, tuned.step_size)
        warm = state.steps < self.warmup
        new = MicrocanonicalState(
            chain,
            self.tuning.update(tuned, state.steps, chain.position, info.energy_change, info.nonans),
            state.steps + 1,
            state.refused + (~info.nonans & ~warm),
            state.energy + jnp.where(warm, 0, info.energy_change**2),
        )
        return new, self._info(chain, info, tuned)

    def _info(self, chain, info, tuned: Tuned) -> Info:
        dimension = ravel_pytree(chain.position)[0].size
        return {
            "loss": -chain.logdensity / self.target.scale,
            "energy_error": info.energy_change**2 / dimension,
            "step_size": tuned.step_size,
        }

    def members(self, state: MicrocanonicalState) -> Variables:
        """The network where the chain is, with an axis of length one."""
        return Variables(jax.tree.map(lambda leaf: leaf[None], state.chain.position), {})
