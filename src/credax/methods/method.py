"""What every method is: a frozen record of hyper-parameters that gives the loop its dynamics."""

from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from jaxtyping import PyTree

from credax.data.dataset import Split
from credax.network import Variables
from credax.posterior import Posterior
from credax.problem import Problem
from credax.training.config import Training
from credax.training.dynamics import Dynamics


class Method(Protocol):
    """A record of hyper-parameters: a frozen dataclass, so that it is also flags and JSON.

    A method that decides part of the training itself (a snapshot ensemble its cyclic rate, HMC its
    full batch) also has ``settings(training, num_data) -> Training``, which `fit` asks first.
    """

    name: ClassVar[str]
    """As on the command line."""
    title: ClassVar[str]
    """As in tables."""

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Dynamics:
        """The pure functions that the loop runs."""
        ...

    def posterior(
        self,
        problem: Problem,
        dynamics: Any,
        states: PyTree,
        variables: Variables,
        alive: np.ndarray,
        data: Split,
    ) -> Posterior:
        """What is kept: from the final states, the members' variables and which are finite."""
        ...

    def load(self, path: str | Path, problem: Problem) -> Posterior:
        """Read back what the posterior's ``save`` wrote."""
        ...
