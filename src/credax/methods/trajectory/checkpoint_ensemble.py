"""Checkpoint ensembles: the networks of the last epochs, or of the best (Chen et al. 2017)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import numpy as np

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.ensemble import choices
from credax.methods.modes import Kept, Modes, collecting, members_of_modes
from credax.network import take_members
from credax.posterior import Population, population
from credax.problem import Problem
from credax.training import Descent, Training
from credax.training.collecting import Buffer, Collecting


@dataclass(frozen=True)
class CheckpointEnsemble(Modes):
    """One training's networks at the ends of its last, or of its best, ``members`` epochs.

    Nothing of the training changes: the schedule is its own. With ``keep="best"`` the epochs are
    those of the lowest negative log-likelihood on the validation rows, each mode by its own score.
    Costs one training and ``members`` copies of it in memory. Reference: Chen, Lundberg, Lee,
    Checkpoint ensembles, 2017.

    >>> CheckpointEnsemble(members=3).keep
    'last'
    """

    name: ClassVar[str] = "checkpoint-ensemble"
    title: ClassVar[str] = "Checkpoint ensemble"

    members: int = 5
    """Networks kept of each run."""
    keep: Literal["last", "best"] = "last"
    """The last epochs, or those with the best validation (needs validation rows)."""

    def __post_init__(self):
        Modes.__post_init__(self)
        choices(self)
        if self.members < 1:
            raise InputError(f"members is {self.members}; an ensemble has at least 1")

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting | Descent:
        """Descent with a ring of networks, or descent whose best networks validation keeps."""
        per_epoch = training.steps_per_epoch(len(data))
        if training.epochs < self.members:
            raise InputError(
                f"members is {self.members} and there are {training.epochs} epochs; train longer "
                "or keep fewer"
            )
        if self.keep == "best":
            return self.descent(problem, data, training, keep_best_of=self.members)
        captures = list(range(per_epoch, training.epochs * per_epoch + 1, per_epoch))
        descent = self.descent(problem, data, training)
        return collecting(descent, Buffer(self.members), captures, training, data)

    def posterior(self, problem, dynamics, states, variables, alive, data) -> Population:
        """The networks of the chosen epochs, mode by mode."""
        if self.keep == "last":
            return Modes.posterior(self, problem, dynamics, states, variables, alive, data)
        kept = np.flatnonzero(alive)
        members = take_members(variables, kept)
        return population(problem, members, data.x, tuple(int(i) for i in kept))

    def result(self, problem: Problem, dynamics, kept: Kept, data: Split) -> Population:
        """The ring in the order of its epochs."""
        steps = int(np.asarray(kept.states.steps)[0])
        per_epoch = int(np.flatnonzero(np.asarray(dynamics.table) >= 0)[0])
        oldest = (steps // per_epoch) % self.members
        ring = jax.tree.map(lambda leaf: np.roll(leaf, -oldest, axis=1), kept.states.collected)
        variables, indices = members_of_modes(kept, ring)
        return population(problem, variables, data.x, indices)
