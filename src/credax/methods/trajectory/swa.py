"""Stochastic weight averaging: one network at the mean of its late iterates (Izmailov 2018)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax

from credax.batch_statistics import refresh
from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.modes import (
    Kept,
    Modes,
    averaging_settings,
    check_captures,
    collecting,
    regular_captures,
)
from credax.network import Variables
from credax.posterior import Population, population
from credax.problem import Problem
from credax.training import Training
from credax.training.collecting import Averaging, Collecting


@dataclass(frozen=True)
class SWA(Modes):
    """The mean of one network's iterates over the last part of its training.

    ``w_SWA <- (n w_SWA + w) / (n + 1)`` every so many steps at a constant rate, then batch
    statistics are recomputed for the mean. The paper's algorithm counts the network at the start
    as the first of the mean; its authors' code does not (``include_initial``). Costs one copy of
    the parameters and a pass over the data. Reference: Izmailov et al., UAI 2018.

    >>> SWA().start
    0.75
    """

    name: ClassVar[str] = "swa"
    title: ClassVar[str] = "SWA"

    start: float = 0.75
    """Share of the training after which averaging begins, in whole epochs."""
    every: int | None = None
    """Steps between the averaged networks; an epoch by default."""
    include_initial: bool = True
    """Count the network at the start, as the printed algorithm does."""
    averaging_rate: float | None = 0.5
    """Learning rate while averaging over the base rate; None keeps the training's schedule."""
    passes: Literal["one", "sequential"] = "one"
    """Recompute batch statistics in one pass, or exactly in one pass per layer."""

    def __post_init__(self):
        Modes.__post_init__(self)
        check_captures(self.start, self.every)
        check_rate(self.averaging_rate)

    def settings(self, training: Training, num_data: int) -> Training:
        """The training with the rate of averaging."""
        return averaging_settings(training, self.start, self.averaging_rate)

    @property
    def expected_members(self) -> int:
        """One mean per mode."""
        return self.num_modes

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Descent with a running mean."""
        first, captures = regular_captures(self.start, self.every, training, len(data))
        captures = [first, *captures] if self.include_initial else captures
        if not captures:
            raise InputError(
                f"start is {self.start} and every is {self.every}: no network is averaged in "
                f"{training.epochs} epochs; train longer or begin earlier"
            )
        descent = self.descent(problem, data, training)
        return collecting(descent, Averaging(), captures, training, data)

    def result(self, problem: Problem, dynamics, kept: Kept, data: Split) -> Population:
        """Each mode's mean, with batch statistics of its own."""
        state = kept.states.inner.variables.state
        variables = Variables(kept.states.collected.mean, state)
        variables = refresh(problem, variables, data.x, passes=self.passes)
        variables = jax.tree.map(jax.numpy.asarray, variables)
        return population(problem, variables, data.x, kept.modes)


def check_rate(ratio: float | None) -> None:
    """Raise an error if this is no share of the base rate."""
    if ratio is not None and not 0 < ratio <= 1:
        raise InputError(
            f"averaging_rate is {ratio}; it is a share of the base rate in (0, 1], or None"
        )
