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

    Beside this a method may have ``settings``, to decide part of the training itself
    (`credax.training.hooks.SetsTraining`), and ``needs_validation`` with ``tuned``, to be tuned on
    rows held out when the training has ended (`credax.training.hooks.TunedOnValidation`).
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
