"""Fast geometric ensembles: networks at the low points of short cycles (Garipov et al. 2018)."""

from dataclasses import dataclass
from typing import ClassVar

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.modes import Kept, Modes, check_captures, collecting, members_of_modes
from credax.posterior import Population, population
from credax.problem import Problem
from credax.training import Training
from credax.training.collecting import Buffer, Collecting
from credax.training.schedule import cycle_start, triangle_length


@dataclass(frozen=True)
class FastGeometric(Modes):
    """Networks at the lowest rate of each of ``members`` triangular cycles after ``start``.

    The cycles are short and their rates low, so that the networks are joined by a path of low loss
    along which they differ. Costs one training. Reference: Garipov et al., Loss surfaces, mode
    connectivity and fast ensembling of DNNs, NeurIPS 2018.

    >>> FastGeometric().members
    5
    """

    name: ClassVar[str] = "fast-geometric"
    title: ClassVar[str] = "Fast geometric ensemble"

    members: int = 5
    """Networks taken from each run, one per cycle."""
    start: float = 0.6
    """Share of the training before the cycles, in whole epochs."""
    high: float = 0.5
    """Highest rate of a cycle over the base rate."""
    low: float = 0.005
    """Lowest rate of a cycle over the base rate, where networks are taken."""

    def __post_init__(self):
        Modes.__post_init__(self)
        check_captures(self.start, None)
        if self.members < 1:
            raise InputError(f"members is {self.members}; an ensemble has at least 1")
        if not 0 <= self.low < self.high:
            raise InputError(
                f"high and low are {self.high} and {self.low}; the rate of a cycle falls from one "
                "to the other"
            )

    def settings(self, training: Training, num_data: int) -> Training:
        """The training with triangular cycles."""
        return training.replace(
            schedule="triangular",
            cycles=self.members,
            cycle_start=self.start,
            cycle_ratios=(self.high, self.low),
        )

    def captures(self, training: Training, num_data: int) -> list[int]:
        """The steps after which a network is taken: the middle of each cycle."""
        first = cycle_start(training, num_data)
        total = training.epochs * training.steps_per_epoch(num_data)
        length = triangle_length(total, self.members, first)
        if first + length * self.members > total:
            raise InputError(
                f"members is {self.members} and {total - first} steps are left after the start; "
                "a cycle takes at least 2: train longer or take fewer"
            )
        return [first + length // 2 + length * i for i in range(self.members)]

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Descent with a buffer of networks."""
        descent = self.descent(problem, data, training)
        captures = self.captures(training, len(data))
        return collecting(descent, Buffer(self.members), captures, training, data)

    def result(self, problem: Problem, dynamics, kept: Kept, data: Split) -> Population:
        """The networks of all cycles, mode by mode, each with its own batch statistics."""
        variables, indices = members_of_modes(kept, kept.states.collected)
        return population(problem, variables, data.x, indices)
