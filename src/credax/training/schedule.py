"""Learning rates as pure functions of the step, all relative to one base rate.

Each maker returns ``factor(step) -> float`` for ``step = 0 .. total - 1``; `schedule` multiplies by
the base rate and by a linear warm-up.
"""

import math
from collections.abc import Callable

import jax.numpy as jnp

from credax.errors import InputError, unknown

Factor = Callable[[jnp.ndarray], jnp.ndarray]


def constant(total: int, per_epoch: int) -> Factor:
    """Always one."""
    return lambda step: jnp.ones(())


def cosine(total: int, per_epoch: int, final_ratio: float = 0.0) -> Factor:
    """``r + (1 - r) (1 + cos(π step / total)) / 2``: from one down to the final ratio ``r``."""
    return lambda step: (
        final_ratio + (1 - final_ratio) * 0.5 * (1 + jnp.cos(jnp.pi * step / total))
    )


def cyclic_cosine(total: int, per_epoch: int, cycles: int = 4) -> Factor:
    """``(cos(π (step mod C) / C) + 1) / 2``, ``C = ceil(total / cycles)`` (Huang et al. 2017)."""
    length = math.ceil(total / cycles)
    return lambda step: 0.5 * (jnp.cos(jnp.pi * jnp.mod(step, length) / length) + 1)


def piecewise_linear(
    total: int,
    per_epoch: int,
    milestones: tuple[float, float] = (0.5, 0.9),
    final_ratio: float = 0.01,
) -> Factor:
    """One, then a line, then the final ratio; constant within an epoch (FoRDE, Trinh et al. 2024).

    With ``t = epoch / epochs``: 1 up to ``m1``, ``1 - (1 - r)(t - m1)/(m2 - m1)`` up to ``m2``,
    ``r`` after.
    """
    epochs, (first, second) = total / per_epoch, milestones

    def factor(step):
        share = (step // per_epoch) / epochs
        return 1 - (1 - final_ratio) * jnp.clip((share - first) / (second - first), 0, 1)

    return factor


SCHEDULES = {
    "constant": constant,
    "cosine": cosine,
    "cyclic-cosine": cyclic_cosine,
    "piecewise-linear": piecewise_linear,
}


def schedule(
    name: str, rate: float, total: int, per_epoch: int, warmup_epochs: float = 0.0, **options
) -> Factor:
    """The learning rate at each step: base rate x named factor x linear warm-up from zero."""
    if name not in SCHEDULES:
        raise unknown("schedule", name, SCHEDULES)
    if not 0 <= warmup_epochs * per_epoch < max(total, 1):
        raise InputError(
            f"warmup_epochs is {warmup_epochs}; it must be shorter than the training "
            f"({total / per_epoch:g} epochs)"
        )
    factor = SCHEDULES[name](total, per_epoch, **options)
    warmup = max(warmup_epochs * per_epoch, 1e-9)
    return lambda step: rate * factor(step) * jnp.minimum(1.0, (step + 1) / warmup)
