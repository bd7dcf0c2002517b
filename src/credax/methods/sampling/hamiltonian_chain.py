"""One Hamiltonian chain on the full log joint, by blackjax's kernels."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from credax.methods.sampling.log_joint import log_joint
from credax.methods.sampling.warmup import Adaptation, Adapted, algorithm, chosen
from credax.network import Variables
from credax.problem import Batch
from credax.training import Descent
from credax.training.dynamics import Dynamics, Info, Replicas

MOST_STEPS = 256


class Energies(NamedTuple):
    """Sums over the energies ``E`` of a chain's transitions, for the E-BFMI.

    Reference: Betancourt, Diagnosing suboptimal cotangent disintegrations in Hamiltonian Monte
    Carlo, 2016.
    """

    transitions: Int[Array, ""]
    last: Float[Array, ""]
    mean: Float[Array, ""]
    deviations: Float[Array, ""]
    """Sum of squared deviations from the mean (Welford)."""
    jumps: Float[Array, ""]
    """Sum of squared differences of consecutive energies."""

    @classmethod
    def none(cls, dtype: Any) -> "Energies":
        """Before the first transition."""
        zero = jnp.zeros((), dtype)
        return cls(jnp.int32(0), zero, zero, zero, zero)

    def add(self, energy: Float[Array, ""]) -> "Energies":
        """After one more transition."""
        number = self.transitions + 1
        gap = energy - self.mean
        mean = self.mean + gap / number
        jump = jnp.where(self.transitions > 0, energy - self.last, 0)
        deviations = self.deviations + gap * (energy - mean)
        return Energies(number, energy, mean, deviations, self.jumps + jump**2)

    @property
    def bfmi(self) -> Float[Array, "*chains"]:
        """``Σ (E_n - E_(n-1))² / Σ (E_n - mean)²``; below 0.3 momenta explore energies slowly."""
        return self.jumps / self.deviations


class ChainState(NamedTuple):
    """A blackjax state, how warm-up stands, and counts of what happened after it."""

    chain: Any
    adapted: Adapted
    steps: Int[Array, ""]
    moves: Int[Array, ""]
    divergences: Int[Array, ""]
    acceptance: Float[Array, ""]
    leapfrogs: Float[Array, ""]
    energies: Energies

    @property
    def step_size(self) -> Float[Array, "*modes"]:
        """The step of the leapfrog as it is now."""
        return self.adapted.step_size


class Chain(Dynamics):
    """One chain on ``log p(y | x, θ) + log p(θ)`` of all rows; a step of the loop is a transition.

    The rows are part of the dynamics: the batches that the loop offers are not looked at. The first
    ``warmup`` transitions find the step size (dual averaging) and a diagonal mass (in growing
    windows), with trajectories of full length; a given ``step_size`` stays as it is.
    """

    descent: Descent
    x: Any
    y: Any
    algorithm: str
    warmup: int
    step_size: float | None
    acceptance: float
    options: tuple[tuple[str, int | None], ...]

    @property
    def replicas(self) -> Replicas:
        """As the wrapped dynamics has."""
        return self.descent.replicas

    @property
    def adaptation(self) -> Adaptation:
        """How warm-up finds step size and masses."""
        return Adaptation(self.warmup, self.acceptance, self.step_size)

    def init(self, key, variables: Variables) -> ChainState:
        """A network before warm-up."""
        chain = algorithm(self.algorithm).init(variables.params, self.log_joint)
        zero, adapted = jnp.int32(0), self.adaptation.init(variables.params)
        none = jnp.zeros_like(adapted.step_size)
        return ChainState(
            chain, adapted, zero, zero, zero, none, none, Energies.none(adapted.step_size.dtype)
        )

    def step(self, key, state: ChainState, batch: Batch) -> tuple[ChainState, Info]:
        """One transition; in warm-up it also moves step size and masses."""
        warm = state.steps < self.warmup
        chain, info = self._transition(key, state.chain, state.adapted, warm)
        adapted = self.adaptation.update(
            state.adapted, state.steps, chain.position, info.acceptance_rate
        )
        pairs = zip(
            jax.tree.leaves(chain.position), jax.tree.leaves(state.chain.position), strict=True
        )
        moved = jnp.any(jnp.stack([jnp.any(a != b) for a, b in pairs]))
        new = ChainState(
            chain,
            adapted,
            state.steps + 1,
            moves=state.moves + (moved & ~warm),
            divergences=state.divergences + (info.is_divergent & ~warm),
            acceptance=state.acceptance + jnp.where(warm, 0, info.acceptance_rate),
            leapfrogs=state.leapfrogs + jnp.where(warm, 0, info.num_integration_steps),
            energies=chosen(warm, state.energies, state.energies.add(info.energy)),
        )
        return new, {
            "loss": -chain.logdensity / len(self.y),
            "acceptance": info.acceptance_rate,
            "divergent": info.is_divergent.astype(jnp.float32),
        }

    def members(self, state: ChainState) -> Variables:
        """The network where the chain is, with an axis of length one."""
        return Variables(jax.tree.map(lambda leaf: leaf[None], state.chain.position), {})

    def log_joint(self, params: PyTree) -> Float[Array, ""]:
        """``log p(y | x, θ) + log p(θ)`` up to a constant; memory of one chunk of rows."""
        return log_joint(self.descent.problem, self.x, self.y, params)

    def _transition(self, key, chain, adapted: Adapted, warm: Bool[Array, ""]):
        kernel = algorithm(self.algorithm).build_kernel()
        options: dict[str, Any] = dict(self.options)
        size, mass = adapted.step_size, adapted.inverse_mass
        if "num_integration_steps" in options:
            # A fixed length can be a period of the posterior, along which a chain goes nowhere.
            key, length = jax.random.split(key)
            full = options["num_integration_steps"]
            full = steps_of(size) if full is None else full
            drawn = jax.random.randint(length, (), 1, 2 * full)
            adapting = warm & (self.step_size is None)
            options["num_integration_steps"] = jnp.where(adapting, full, drawn)
        return kernel(key, chain, self.log_joint, size, mass, **options)


def steps_of(step_size: Float[Array, ""]) -> Int[Array, ""]:
    """Leapfrog steps that go a quarter of a period of a coordinate with unit variance.

    With the masses of warm-up, every coordinate has about unit variance, so that ``π/2`` is the
    time in which a chain forgets where it was; twice it, the longest that is drawn, is half a
    period. At most `MOST_STEPS`.

    >>> int(steps_of(jnp.float32(0.1))), int(steps_of(jnp.float32(1e-6)))
    (16, 256)
    """
    return jnp.clip(jnp.round(jnp.pi / 2 / step_size), 1, MOST_STEPS).astype(jnp.int32)
