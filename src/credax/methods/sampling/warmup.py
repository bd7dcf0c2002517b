"""Warm-up of Hamiltonian chains, one transition at a time: so it is shown, timed and resumed.

With `credax.methods.sampling.hamiltonian` and the files of microcanonical chains the only one that
knows blackjax.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from credax.errors import optional

INITIAL_STEP = 0.01


class Adapted(NamedTuple):
    """Step size and diagonal inverse mass as they are now, and the estimators behind them."""

    step_size: Float[Array, ""]
    inverse_mass: Float[Array, " params"]
    averaging: Any
    moments: Any


class Adaptation(eqx.Module):
    """Stan's warm-up: dual averaging of the step size, masses in windows of growing length.

    A fast stage adapts the step alone; in slow windows the variances of the positions are
    collected, and become the inverse mass at a window's end; a fast stage ends it. The step after
    warm-up is the averaged one. With a ``step_size`` nothing is adapted. References: Hoffman and
    Gelman 2014; the Stan reference manual, section on HMC adaptation.
    """

    warmup: int
    acceptance: float
    step_size: float | None

    def init(self, position: PyTree) -> Adapted:
        """Before the first transition: unit masses."""
        leaves = jax.tree.leaves(position)
        size, dtype = sum(leaf.size for leaf in leaves), leaves[0].dtype
        if self.step_size is not None:
            return Adapted(jnp.asarray(self.step_size, dtype), jnp.ones(size, dtype), (), ())
        averaging, moments = _averaging(self.acceptance)[0](INITIAL_STEP), _moments()[0](size)
        return Adapted(
            jnp.asarray(INITIAL_STEP, dtype), moments.inverse_mass_matrix, averaging, moments
        )

    def update(
        self, state: Adapted, step: Int[Array, ""], position: PyTree, rate: Float[Array, ""]
    ) -> Adapted:
        """After transition ``step``; beyond warm-up nothing changes."""
        if self.step_size is not None:
            return state
        stage, ends = self._schedule(step)
        start, follow, final = _averaging(self.acceptance)
        averaging = follow(state.averaging, rate)
        moments = chosen(stage == 1, _moments()[1](state.moments, position), state.moments)
        closed = _moments()[2](moments)
        # At a window's end the new masses hold, and the step is sought anew from where it is.
        anew = start(final(averaging))
        averaging = chosen(ends, anew, averaging)
        moments = chosen(ends, closed, moments)
        size = jnp.exp(averaging.log_step_size)
        size = jnp.where(step == self.warmup - 1, final(averaging), size)
        new = Adapted(
            size.astype(state.step_size.dtype), moments.inverse_mass_matrix, averaging, moments
        )
        return chosen(step < self.warmup, new, state)

    def _schedule(self, step: Array) -> tuple[Array, Array]:
        from blackjax.adaptation.window_adaptation import build_schedule

        with jax.ensure_compile_time_eval():
            table = np.asarray(build_schedule(self.warmup), int)
        row = jnp.asarray(table)[jnp.minimum(step, self.warmup - 1)]
        return row[0], row[1] == 1


def blackjax() -> Any:
    """The package, or an error that names its extra."""
    return optional("blackjax", "mcmc", "Hamiltonian Monte Carlo")


def algorithm(name: str) -> Any:
    """One of its samplers."""
    return getattr(blackjax(), name)


def _averaging(acceptance: float) -> Any:
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    return dual_averaging_adaptation(acceptance)


def _moments() -> Any:
    from blackjax.adaptation.mass_matrix import mass_matrix_adaptation

    return mass_matrix_adaptation(is_diagonal_matrix=True)


def chosen(condition: Array, new: Any, old: Any) -> Any:
    """Every leaf of the new where the condition holds, else of the old."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), new, old)
