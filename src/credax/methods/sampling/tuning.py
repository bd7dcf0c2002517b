"""Step size and decoherence length of microcanonical chains, found step by step in warm-up."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, Int, PyTree

from credax.methods.sampling.warmup import chosen

MOST_COORDINATES, LEAST_DRAWS, MOST_DRAWS = 2000, 4, 10_000
SHARES = (0.8, 0.1)
"""Parts of warm-up that find the step size, and the length by variances; the rest by draws."""
INITIAL_STEP, LEAST_LENGTH = 0.005, 15.0
ENERGY_VARIANCE = (0.5, 0.1)
"""Wanted variance of the energy error per dimension, at the beginning and at the end."""
TRUST, MEMORY = 1.5, 100.0
LENGTH_FACTOR = 0.4
REDUCTION = 0.8
"""Largest step over one that gave a state that is not finite."""


class Tuned(NamedTuple):
    """Step size and length as they are now, and the estimators behind them."""

    step_size: Float[Array, ""]
    length: Float[Array, ""]
    largest: Float[Array, ""]
    """No step is larger: one that was gave no numbers."""
    weight: Float[Array, ""]
    scaled: Float[Array, ""]
    """Averages of the weights, and of the weighted energy errors over the step's sixth power."""
    total: Float[Array, ""]
    mean: Float[Array, " params"]
    deviations: Float[Array, " params"]
    """Running mean and squared deviations of the positions, weighted by the step (Welford)."""
    draws: Float[Array, "draws coordinates"]


class Tuning(eqx.Module):
    """The published warm-up of microcanonical chains, with energy errors that suit networks.

    1. ``Var[E] ~ ε⁶``, so that ``ε = (v Σ w / Σ w ΔE² d⁻¹ ε⁻⁶)^(1/6)`` over recent steps gives the
       wanted variance ``v`` per dimension; ``w`` is large where ``ΔE²`` is near ``d v``.
    2. ``L = √(Σ variances of the positions)``.
    3. ``L = 0.4 ε · mean(draws / effective sample size)``.

    References: Robnik, Seljak, Fluctuation without dissipation: microcanonical Langevin Monte
    Carlo, 2024; Sommer et al., Microcanonical Langevin ensembles, ICLR 2025.
    """

    warmup: int = eqx.field(static=True)

    @property
    def ends(self) -> tuple[int, int, int]:
        """Steps after which each of the three parts ends."""
        first = round(SHARES[0] * self.warmup)
        return first, first + round(SHARES[1] * self.warmup), self.warmup

    def init(self, position: PyTree) -> Tuned:
        """Before the first step."""
        flat, _ = ravel_pytree(position)
        zero = jnp.zeros((), flat.dtype)
        _, second, last = self.ends
        draws = min(last - second, MOST_DRAWS)
        return Tuned(
            zero + INITIAL_STEP,
            jnp.maximum(jnp.sqrt(zero + flat.size), LEAST_LENGTH),
            zero + jnp.inf,
            *(zero, zero, zero),
            *(jnp.zeros_like(flat), jnp.zeros_like(flat)),
            jnp.zeros((draws, self._coordinates(flat).size), flat.dtype),
        )

    def update(
        self,
        tuned: Tuned,
        step: Int[Array, ""],
        position: PyTree,
        energy: Float[Array, ""],
        finite: Bool[Array, ""],
    ) -> Tuned:
        """After warm-up's step number ``step``, counted from 0; beyond warm-up nothing changes."""
        first, second, last = self.ends
        flat, _ = ravel_pytree(position)
        new = self._step_size(tuned, step, flat.size, energy, finite)
        tuned = chosen(step < second, new, tuned)
        tuned = self._variances(tuned, flat, finite & (step >= first) & (step < second))
        length = jnp.sqrt(jnp.sum(tuned.deviations) / jnp.maximum(tuned.total, 1e-30))
        measured = (step == second - 1) & (tuned.total > 0) & (length > 0)
        tuned = tuned._replace(length=jnp.where(measured, length, tuned.length))
        if last - second >= LEAST_DRAWS:
            tuned = self._draw(tuned, step, flat)
            measure = partial(_length_of_draws, last - second)
            tuned = rarely(step == last - 1, measure, tuned)
        return tuned

    def _step_size(self, tuned: Tuned, step, dimension, energy, finite) -> Tuned:
        first, second, _ = self.ends
        wanted = ENERGY_VARIANCE[0] + (ENERGY_VARIANCE[1] - ENERGY_VARIANCE[0]) * step / second
        error = energy**2 / dimension + 1e-8
        weight = jnp.exp(-0.5 * (jnp.log(error / wanted) / (6 * TRUST)) ** 2)
        # From the second part on the memory grows, so that the last step size is an average.
        memory = MEMORY + jnp.maximum(step - first, 0)
        decay = (memory - 1) / (memory + 1)
        total = decay * tuned.weight + weight
        scaled = decay * tuned.scaled + weight * error / tuned.step_size**6
        size = jnp.minimum((wanted * total / scaled) ** (1 / 6), tuned.largest)
        better = tuned._replace(step_size=size, weight=total, scaled=scaled)
        # A step that gave no numbers says nothing of the energy, but where to stay below.
        largest = jnp.minimum(tuned.largest, REDUCTION * tuned.step_size)
        smaller = tuned._replace(step_size=largest, largest=largest)
        return chosen(finite, better, smaller)

    def _variances(self, tuned: Tuned, flat: Array, due: Array) -> Tuned:
        weight = jnp.where(due, tuned.step_size, 0)
        total = tuned.total + weight
        gap = flat - tuned.mean
        mean = tuned.mean + weight / jnp.maximum(total, 1e-30) * gap
        deviations = tuned.deviations + weight * gap * (flat - mean)
        return tuned._replace(total=total, mean=mean, deviations=deviations)

    def _draw(self, tuned: Tuned, step: Array, flat: Array) -> Tuned:
        _, second, last = self.ends
        count = len(tuned.draws)
        # At most MOST_DRAWS of them, at equal distances.
        slot = ((step - second) * count) // (last - second)
        due = (step >= second) & (step < last)
        slot = jnp.clip(slot, 0, count - 1)
        chosen = flat[self._coordinates(flat)]
        row = jnp.where(due, chosen, jax.lax.dynamic_index_in_dim(tuned.draws, slot, 0, False))
        draws = jax.lax.dynamic_update_index_in_dim(tuned.draws, row, slot, 0)
        return tuned._replace(draws=draws)

    def _coordinates(self, flat: Array) -> Any:
        return jnp.arange(0, flat.size, max(1, -(-flat.size // MOST_COORDINATES)))


def _length_of_draws(steps: int, tuned: Tuned) -> Tuned:
    from blackjax.diagnostics import effective_sample_size

    size = effective_sample_size(tuned.draws[None])
    times = steps / size
    moved = jnp.isfinite(times) & (times > 0)
    mean = jnp.sum(jnp.where(moved, times, 0)) / jnp.maximum(jnp.sum(moved), 1)
    length = LENGTH_FACTOR * tuned.step_size * mean
    return tuned._replace(length=jnp.where(moved.any(), length, tuned.length))


def rarely(due: Bool[Array, ""], function: Any, value: PyTree) -> PyTree:
    """``function(value)`` where it is ``due``, else the value.

    Under ``vmap`` a branch would be computed at every step for every chain; this one is computed
    only at steps at which some chain is due.
    """

    @custom_vmap
    def one(due, value):
        return jax.lax.cond(due, function, lambda v: v, value)

    @one.def_vmap
    def _(size, batched, due, value):
        due = due if batched[0] else jnp.broadcast_to(due, (size,))
        value = jax.tree.map(
            lambda leaf, has: leaf if has else jnp.broadcast_to(leaf, (size, *leaf.shape)),
            value,
            batched[1],
        )
        new = jax.lax.cond(jnp.any(due), jax.vmap(function), lambda v: v, value)

        def choose(a, b):
            return jnp.where(due.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

        return jax.tree.map(choose, new, value), jax.tree.map(lambda _: True, value)

    return one(due, value)
