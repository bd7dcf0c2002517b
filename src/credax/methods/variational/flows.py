"""Normalising flows on vectors: gated RealNVP steps and planar ones, with log-determinants."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

Step = dict[str, Array]


class Flow(NamedTuple):
    """Steps applied in turn; ``kind`` is "coupling" or "planar"."""

    steps: tuple[Step, ...]


def init_flow(key: Key[Array, ""], size: int, count: int, hidden: int, planar: bool) -> Flow:
    """``count`` steps with small random weights, close to the identity.

    A vector of one entry has nothing to condition on, so its steps are planar.
    """
    make = _init_planar if planar or size == 1 else _init_coupling
    return Flow(tuple(make(k, size, hidden) for k in jax.random.split(key, max(count, 1))[:count]))


def run_flow(flow: Flow, z: Float[Array, " size"]) -> tuple[Float[Array, " size"], Array]:
    """``f_K ∘ ... ∘ f_1 (z)`` and the sum of the log-determinants."""
    total = jnp.zeros(())
    for number, step in enumerate(flow.steps):
        if "direction" in step:
            z, log_det = planar(step, z)
        else:
            z, log_det = coupling(step, z, alternating(len(z), number))
        total += log_det
    return z, total


def alternating(size: int, number: int) -> Float[Array, " size"]:
    """The fixed mask of a step: every other entry, in turn."""
    return ((jnp.arange(size) + number) % 2).astype(jnp.float32)


def _init_coupling(key, size: int, hidden: int) -> Step:
    keys = jax.random.split(key, 3)
    small = lambda k, shape: 0.01 * jax.random.normal(k, shape)  # noqa: E731
    return {
        "hidden": small(keys[0], (size, hidden)),
        "hidden_bias": jnp.zeros(hidden),
        "shift": small(keys[1], (hidden, size)),
        "shift_bias": jnp.zeros(size),
        "gate": small(keys[2], (hidden, size)),
        "gate_bias": jnp.zeros(size),
    }


def coupling(step: Step, z, mask) -> tuple[Array, Array]:
    """``z' = b z + (1 - b) (z g + shift (1 - g))`` with ``g = σ(C h + 2)``, ``h = tanh(A b z)``.

    The gate starts near one, so that the step starts near the identity (Louizos and Welling 2017).
    """
    inner = jnp.tanh(times(mask * z, step["hidden"]) + step["hidden_bias"])
    shift = times(inner, step["shift"]) + step["shift_bias"]
    logits = times(inner, step["gate"]) + step["gate_bias"] + 2.0
    gate = jax.nn.sigmoid(logits)
    moved = mask * z + (1 - mask) * (z * gate + shift * (1 - gate))
    return moved, jnp.sum((1 - mask) * jax.nn.log_sigmoid(logits))


def inverse_coupling(step: Step, z, mask) -> Array:
    """The vector that `coupling` maps to ``z``."""
    inner = jnp.tanh(times(mask * z, step["hidden"]) + step["hidden_bias"])
    shift = times(inner, step["shift"]) + step["shift_bias"]
    gate = jax.nn.sigmoid(times(inner, step["gate"]) + step["gate_bias"] + 2.0)
    return mask * z + (1 - mask) * (z - shift * (1 - gate)) / gate


def _init_planar(key, size: int, hidden: int) -> Step:
    first, second = jax.random.split(key)
    return {
        "direction": 0.01 * jax.random.normal(first, (size,)),
        "normal": 0.01 * jax.random.normal(second, (size,)),
        "offset": jnp.zeros(()),
    }


def planar(step: Step, z) -> tuple[Array, Array]:
    """``z' = z + u tanh(wᵀ z + b)``, ``log |1 + uᵀ w (1 - tanh²)|`` (Rezende and Mohamed 2015).

    ``u`` is moved along ``w`` so that ``wᵀ u > -1``: then the step is invertible.
    """
    normal, raw = step["normal"], step["direction"]
    along = normal @ raw
    length = jnp.maximum(normal @ normal, 1e-12)
    direction = raw + (jax.nn.softplus(along) - 1 - along) * normal / length
    inner = jnp.tanh(normal @ z + step["offset"])
    slope = (1 - jnp.square(inner)) * (normal @ direction)
    return z + direction * inner, jnp.log(jnp.abs(1 + slope))


def standardised(mean: Any, log_variance: Any, noise: Array) -> tuple[Array, Array]:
    """A draw of ``N(mean, exp(log_variance))``, and its log-density there."""
    drawn = mean + jnp.exp(0.5 * log_variance) * noise
    return drawn, gaussian_log_density(noise) - 0.5 * jnp.sum(log_variance)


def times(vector: Float[Array, " rows"], matrix: Float[Array, "rows columns"]) -> Array:
    """``vector @ matrix`` as a sum: on CPU many small products take long to compile."""
    return jnp.sum(vector[:, None] * matrix, axis=0)


def gaussian_log_density(noise) -> Array:
    """Log-density of the standard normal, summed over entries, constants included."""
    return -0.5 * jnp.sum(jnp.square(noise) + jnp.log(2 * jnp.pi))
