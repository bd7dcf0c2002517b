"""Snapshot ensembles: one training, several networks along its trajectory (Huang et al. 2017)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.ensemble import choices
from credax.methods.modes import (
    Kept,
    Modes,
    check_captures,
    collecting,
    members_of_modes,
)
from credax.posterior import Population, population
from credax.problem import Problem
from credax.training import Training
from credax.training.collecting import Buffer, Collecting
from credax.training.schedule import OneCycle


@dataclass(frozen=True)
class SnapshotEnsemble(Modes):
    """The network at the end of each of ``members`` cosine cycles of the learning rate.

    ``rate(k) = rate/2 (cos(π mod(k, C)/C) + 1)``, ``C = ceil(steps / members)``: low rates end each
    cycle near a mode, the jump back leaves it. With ``schedule="constant"`` the rate stays after
    ``start`` and networks are taken at equal intervals; with ``"one-cycle"`` the rate before it is
    one cycle up to ten times the base rate, to which it comes back after it (Jung, Kim, Lee 2023,
    see `credax.training.schedule.OneCycle`). Costs one training.
    Reference: Huang et al., Snapshot ensembles: train 1, get M for free, ICLR 2017.

    >>> SnapshotEnsemble(members=3).captures(steps=10)
    [4, 8, 10]
    """

    name: ClassVar[str] = "snapshot-ensemble"
    title: ClassVar[str] = "Snapshot ensemble"

    members: int = 5
    """Networks taken from each run."""
    schedule: Literal["cyclic-cosine", "constant", "one-cycle"] = "cyclic-cosine"
    """One cosine cycle per network, a constant rate, or one cycle and a constant rate after it."""
    start: float = 0.5
    """Share of the training before the first interval (schedule=constant and one-cycle)."""
    anneal: float = 0.25
    """Share of the training in which the rate comes back after the start (schedule=one-cycle)."""

    def __post_init__(self):
        Modes.__post_init__(self)
        choices(self)
        check_captures(self.start, None)
        if not 0 <= self.anneal <= 1:
            raise InputError(f"anneal is {self.anneal}; give a share of the training in [0, 1]")
        if self.members < 1:
            raise InputError(f"members is {self.members}; an ensemble has at least 1")

    def settings(self, training: Training, num_data: int) -> Training:
        """The training with this method's rate."""
        if self.schedule != "one-cycle":
            return training.replace(schedule=self.schedule, cycles=self.members)
        if training.brings_schedule:
            raise InputError(
                "schedule is one-cycle and the optimiser or learning rate brings its own; give a "
                "number as learning_rate, or schedule='constant'"
            )
        steps = training.epochs * training.steps_per_epoch(num_data)
        rate = OneCycle(training.learning_rate, self._first(steps), _share(self.anneal, steps))
        return training.replace(schedule="constant", learning_rate=rate, warmup_epochs=0.0)

    def captures(self, steps: int) -> list[int]:
        """The steps after which a network is taken."""
        first = self._first(steps)
        length = math.ceil((steps - first) / self.members)
        ends = [min(first + length * (i + 1), steps) for i in range(self.members)]
        if len(set(ends)) < self.members:
            raise InputError(
                f"members is {self.members} and there are {steps - first} steps to take them from; "
                "train longer or take fewer"
            )
        return ends

    def _first(self, steps: int) -> int:
        """The step at which the first interval begins."""
        return 0 if self.schedule == "cyclic-cosine" else _share(self.start, steps)

    @property
    def expected_members(self) -> int:
        """The snapshots of all modes."""
        return self.num_modes * self.members

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Descent with a buffer of networks."""
        captures = self.captures(training.epochs * training.steps_per_epoch(len(data)))
        descent = self.descent(problem, data, training)
        return collecting(descent, Buffer(self.members), captures, training, data)

    def result(self, problem: Problem, dynamics, kept: Kept, data: Split) -> Population:
        """The snapshots, mode by mode, each with its own batch statistics."""
        variables, indices = members_of_modes(kept, kept.states.collected)
        return population(problem, variables, data.x, indices)


def _share(share: float, steps: int) -> int:
    """A share of the steps, rounded down; 300/350 of 350 is 300 in spite of binary fractions."""
    return math.floor(round(share * steps, 6))
