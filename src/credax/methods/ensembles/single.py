"""One network: the maximum a posteriori, the baseline of everything."""

from dataclasses import dataclass
from typing import ClassVar

from credax.data.dataset import Split
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.posterior import Population
from credax.problem import Problem
from credax.training import Descent, Training


@dataclass(frozen=True)
class Single:
    """One network trained to the posterior's mode: member 0 of a deep ensemble with the same key.

    >>> Single().name
    'single'
    """

    name: ClassVar[str] = "single"
    title: ClassVar[str] = "Single network"

    @property
    def expected_members(self) -> int:
        """One."""
        return 1

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Descent:
        """Gradient descent."""
        return DeepEnsemble(members=1).dynamics(problem, data, training)

    def posterior(self, problem, dynamics, states, variables, alive, data) -> Population:
        """A population of one."""
        ensemble = DeepEnsemble(members=1)
        return ensemble.posterior(problem, dynamics, states, variables, alive, data)

    def load(self, path, problem: Problem) -> Population:
        """Read the network back."""
        return Population.load(path, problem)
