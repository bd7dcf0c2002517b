"""Monte Carlo batch normalisation: statistics of random minibatches (Teye et al. 2018)."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from credax.batch_statistics import statistics, with_statistics
from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.modes import Kept, Modes, carries_statistics, collecting
from credax.network import Variables
from credax.posterior import Population, population
from credax.problem import Problem
from credax.training import Training
from credax.training.collecting import Collecting, Nothing


@dataclass(frozen=True)
class MCBatchNorm(Modes):
    """One network with the batch statistics of ``samples`` random training minibatches.

    Each member is the trained network in evaluation mode whose means and variances are those of
    ``rows`` training rows drawn without repeats. Costs one training, ``samples`` passes of them
    and as many copies of the network. Reference: Teye, Azizpour, Smith, Bayesian uncertainty
    estimation for batch normalized deep networks, ICML 2018.

    >>> MCBatchNorm().samples
    16
    """

    name: ClassVar[str] = "mc-batch-norm"
    title: ClassVar[str] = "MC batch norm"

    samples: int = 16
    """Minibatches whose statistics are drawn, for each mode."""
    rows: int = 32
    """Rows of each of these minibatches; the fewer, the larger the variance."""

    def __post_init__(self):
        Modes.__post_init__(self)
        if self.samples < 1:
            raise InputError(f"samples is {self.samples}; draw at least 1")
        if self.rows < 2:
            raise InputError(f"rows is {self.rows}; statistics need at least 2")

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Descent, which knows a seed for the draws."""
        if not carries_statistics(problem, data):
            raise InputError(
                "the network has no batch normalisation whose statistics could be drawn; use one "
                "that has, such as MLP(norm='batch'), or another method"
            )
        if self.rows > len(data):
            raise InputError(
                f"rows is {self.rows} and there are {len(data)} training rows; draw at "
                "most all of them"
            )
        return collecting(self.descent(problem, data, training), Nothing(), [], training, data)

    def result(self, problem: Problem, dynamics: Collecting, kept: Kept, data: Split) -> Population:
        """The networks with drawn statistics, mode by mode."""
        networks = jax.tree.map(jnp.asarray, kept.states.inner.variables)
        members = []
        for position, key in enumerate(kept.keys):
            network = jax.tree.map(lambda leaf, i=position: leaf[i], networks)
            for draw in range(self.samples):
                order = jax.random.permutation(jax.random.fold_in(key, draw), len(data))
                chosen = np.sort(np.asarray(order[: self.rows]))
                found = statistics(problem, network, np.asarray(data.x[chosen]))
                members.append(Variables(network.params, with_statistics(network.state, found)))
        variables = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
        indices = tuple(mode * self.samples + s for mode in kept.modes for s in range(self.samples))
        return population(problem, variables, data.x, indices)
