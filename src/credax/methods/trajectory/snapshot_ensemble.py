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


@dataclass(frozen=True)
class SnapshotEnsemble(Modes):
    """The network at the end of each of ``members`` cosine cycles of the learning rate.

    ``rate(k) = rate/2 (cos(π mod(k, C)/C) + 1)``, ``C = ceil(steps / members)``: low rates end each
    cycle near a mode, the jump back leaves it. With ``schedule="constant"`` the rate stays after
    ``start`` and networks are taken at equal intervals (Jung, Kim, Lee 2023). Costs one training.
    Reference: Huang et al., Snapshot ensembles: train 1, get M for free, ICLR 2017.

    >>> SnapshotEnsemble(members=3).captures(steps=10)
    [4, 8, 10]
    """

    name: ClassVar[str] = "snapshot-ensemble"
    title: ClassVar[str] = "Snapshot ensemble"

    members: int = 5
    """Networks taken from each run."""
    schedule: Literal["cyclic-cosine", "constant"] = "cyclic-cosine"
    """One cosine cycle per network, or a constant rate after the start."""
    start: float = 0.5
    """Share of the training before the first interval (schedule=constant)."""

    def __post_init__(self):
        Modes.__post_init__(self)
        choices(self)
        check_captures(self.start, None)
        if self.members < 1:
            raise InputError(f"members is {self.members}; an ensemble has at least 1")

    def settings(self, training: Training, num_data: int) -> Training:
        """The training with this method's rate."""
        return training.replace(schedule=self.schedule, cycles=self.members)

    def captures(self, steps: int) -> list[int]:
        """The steps after which a network is taken."""
        first = 0 if self.schedule == "cyclic-cosine" else math.floor(self.start * steps)
        length = math.ceil((steps - first) / self.members)
        ends = [min(first + length * (i + 1), steps) for i in range(self.members)]
        if len(set(ends)) < self.members:
            raise InputError(
                f"members is {self.members} and there are {steps - first} steps to take them from; "
                "train longer or take fewer"
            )
        return ends

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Descent with a buffer of networks."""
        captures = self.captures(training.epochs * training.steps_per_epoch(len(data)))
        descent = self.descent(problem, data, training)
        return collecting(descent, Buffer(self.members), captures, training, data)

    def result(self, problem: Problem, dynamics, kept: Kept, data: Split) -> Population:
        """The snapshots, mode by mode, each with its own batch statistics."""
        variables, indices = members_of_modes(kept, kept.states.collected)
        return population(problem, variables, data.x, indices)
