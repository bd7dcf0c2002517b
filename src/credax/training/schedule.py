"""Learning rates as pure functions of the step, all relative to one base rate.

Each maker returns ``factor(step)`` for ``step = 0 .. total - 1``; `learning_rate_at` multiplies by
the base rate and by a linear warm-up.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import optax

from credax.errors import InputError
from credax.training.config import Training, is_transformation

Factor = Callable[[Any], Any]


def constant() -> Factor:
    """Always one."""
    return optax.constant_schedule(1.0)


def cosine(total: int, final_ratio: float = 0.0) -> Factor:
    """``r + (1 - r) (1 + cos(π step / total)) / 2``: from one down to the final ratio ``r``."""
    return optax.cosine_decay_schedule(1.0, total, alpha=final_ratio)


def cyclic_cosine(total: int, cycles: int = 4) -> Factor:
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


def cyclic_linear(
    total: int, cycles: int, ratios: tuple[float, float] = (1.0, 0.01), start: int = 0
) -> Factor:
    """``(1 - t) high + t low``, ``t = (step mod C + 1) / C``: down a line, then up in one jump.

    ``C = ceil((total - start) / cycles)``; the first ``start`` steps come down to ``high``.
    Reference: Izmailov et al. 2018.
    """
    length = math.ceil((total - start) / cycles)
    high, low = ratios

    def factor(step):
        share = (jnp.mod(step - start, length) + 1) / length
        return (1 - share) * high + share * low

    return _after(start, high, factor)


def triangular(
    total: int, cycles: int, ratios: tuple[float, float] = (1.0, 0.01), start: int = 0
) -> Factor:
    """A line down from ``high`` to ``low`` and back in each cycle of `triangle_length` steps.

    With ``t = (step mod C + 1) / C``: ``high + (low - high) (1 - |2 t - 1|)``. The first ``start``
    steps come down to ``high``. Reference: Garipov et al. 2018.
    """
    length = triangle_length(total, cycles, start)
    high, low = ratios

    def factor(step):
        share = (jnp.mod(step - start, length) + 1) / length
        return high + (low - high) * (1 - jnp.abs(2 * share - 1))

    return _after(start, high, factor)


def triangle_length(total: int, cycles: int, start: int = 0) -> int:
    """Steps of a triangular cycle: even, so that one step is the lowest; at least 2."""
    return max(2, 2 * ((total - start) // (2 * cycles)))


def _after(start: int, high: float, factor: Factor) -> Factor:
    """Before ``start``: one for half of it, then down to ``high`` at nine tenths of it."""
    if not start:
        return factor

    def whole(step):
        fall = jnp.clip((step / start - 0.5) / 0.4, 0, 1)
        return jnp.where(step < start, 1 - (1 - high) * fall, factor(step))

    return whole


def cycle_start(training: Training, num_data: int) -> int:
    """The step at which cycles begin, at the start of an epoch."""
    return math.floor(training.cycle_start * training.epochs) * training.steps_per_epoch(num_data)


@dataclass(frozen=True)
class OneCycle:
    """One cycle up to ten times the base rate, then slowly back to it, then constant.

    Cosines from ``peak / 25`` up to the peak in three tenths of the first ``start`` steps, down to
    ``peak / 250000`` in the rest of them, up to the peak again in ``anneal`` steps, and no further.
    The first part is that of Smith and Topin 2019 as optax and PyTorch have it; the whole is the
    rate of Jung, Kim, Lee 2023.

    >>> rate = OneCycle(1e-3, start=100, anneal=50)
    >>> [round(float(rate(step)), 6) for step in (0, 30, 100, 125, 150, 200)]
    [0.0004, 0.01, 0.0, 0.005, 0.01, 0.01]
    """

    base: float
    start: int
    anneal: int
    ratio: float = 10.0
    """Peak over base rate."""

    def __call__(self, step: Any) -> Any:
        """The rate at a step."""
        peak = self.ratio * self.base
        first, rise = peak / 25, max(1.0, 0.3 * self.start)
        last = first / 1e4
        up = _between(first, peak, step / rise)
        down = _between(peak, last, (step - rise) / max(1.0, self.start - rise))
        back = _between(last, peak, (step - self.start) / max(1, self.anneal))
        cycle = jnp.where(step < rise, up, down)
        return jnp.where(step < self.start, cycle, back)


def _between(low: float, high: float, share: Any) -> Any:
    """Half a cosine from one value to the other, ends kept."""
    return low + (high - low) * (1 - jnp.cos(jnp.pi * jnp.clip(share, 0, 1))) / 2


def learning_rate_at(training: Training, num_data: int) -> Factor:
    """The learning rate at each step: base rate x named factor x linear warm-up from zero.

    A learning rate that is a function of the step is taken as it is.
    """
    if callable(training.learning_rate):
        return training.learning_rate
    per_epoch = training.steps_per_epoch(num_data)
    total = training.epochs * per_epoch
    warmup = training.warmup_epochs * per_epoch
    if not 0 <= warmup < total:
        raise InputError(
            f"warmup_epochs is {training.warmup_epochs}; it must be shorter than the training "
            f"({training.epochs} epochs)"
        )
    factor = {
        "constant": lambda: constant(),
        "cosine": lambda: cosine(total, training.final_ratio),
        "cyclic-cosine": lambda: cyclic_cosine(total, training.cycles),
        "cyclic-linear": lambda: cyclic_linear(
            total, training.cycles, training.cycle_ratios, cycle_start(training, num_data)
        ),
        "triangular": lambda: triangular(
            total, training.cycles, training.cycle_ratios, cycle_start(training, num_data)
        ),
        "piecewise-linear": lambda: piecewise_linear(
            total, per_epoch, training.milestones, training.final_ratio
        ),
    }[training.schedule]()
    rise = lambda step: jnp.minimum(1.0, (step + 1) / warmup) if warmup else 1.0  # noqa: E731
    base: Any = training.learning_rate
    return lambda step: base * factor(step) * rise(step)


def optimiser_for(training: Training, num_data: int) -> optax.GradientTransformation:
    """The optimiser over all steps; the problem's prior is part of the loss, not of it."""
    chosen = training.optimiser
    if is_transformation(chosen):
        return _without_extra_arguments(chosen)
    rate = learning_rate_at(training, num_data)
    clip = optax.identity()
    if training.clip_norm is not None:
        clip = optax.clip_by_global_norm(training.clip_norm)
    if callable(chosen):
        made = chosen(rate)
        if not is_transformation(made):
            raise InputError(
                f"optimiser is a function that returned a {type(made).__name__}; it must return an "
                "optax.GradientTransformation for a learning rate"
            )
        return optax.chain(clip, _without_extra_arguments(made))
    if chosen == "muon":
        decay = training.decoupled_decay
        return optax.chain(clip, optax.contrib.muon(rate, weight_decay=decay))
    scaled = optax.scale_by_learning_rate(rate)
    if chosen in ("adamw", "lion"):
        decay = optax.add_decayed_weights(training.decoupled_decay)
        return optax.chain(clip, _direction(training), decay, scaled)
    return optax.chain(clip, _direction(training), scaled)


def _direction(training: Training) -> optax.GradientTransformation:
    """What a named optimiser does to the gradient, before the learning rate."""
    if training.optimiser in ("adam", "adamw"):
        return optax.scale_by_adam()
    if training.optimiser == "lion":
        return optax.scale_by_lion()
    if training.optimiser == "rmsprop":
        return optax.scale_by_rms(decay=0.9, eps=1e-6, eps_in_sqrt=False)
    if not training.momentum:
        return optax.identity()
    ahead = training.nesterov or training.optimiser == "nesterov"
    return optax.trace(training.momentum, ahead)


def _without_extra_arguments(chosen: Any) -> optax.GradientTransformation:
    """The same optimiser; one that asks for the loss as well is refused in a sentence."""

    def update(updates, state, params=None):
        try:
            return chosen.update(updates, state, params)
        except TypeError as error:
            if "required" not in str(error) and "missing" not in str(error):
                raise
            raise InputError(
                "optimiser asks for more than gradients and parameters, such as the loss (line "
                "searches, Polyak steps, plateaus), which the loop does not hand on; use another"
            ) from error

    return optax.GradientTransformation(chosen.init, update)


def rate_of(training: Training, num_data: int) -> Factor | None:
    """The learning rate at each step; None where only the optimiser knows it."""
    known = not is_transformation(training.optimiser)
    return learning_rate_at(training, num_data) if known else None


def rate_text(training: Training) -> str:
    """Where the learning rate comes from, for an error."""
    if training.brings_schedule:
        return "it is that of your optimiser or schedule"
    return f"learning_rate is {training.learning_rate}"
