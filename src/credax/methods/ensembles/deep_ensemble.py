"""Deep ensembles: independent networks, mixed (Lakshminarayanan, Pritzel, Blundell 2017)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.ensemble import Ensemble, choices
from credax.problem import Problem
from credax.training import Descent, Training
from credax.training.dynamics import Replicas


@dataclass(frozen=True)
class DeepEnsemble(Ensemble):
    """``members`` networks from independent initialisations and data orders, mixed uniformly.

    ``p(y|x) = (1/M) Σ p(y|x, θ_m)``; each member minimises the mean loss on all the data. Cost: M
    times one network, in one batched program.

    >>> DeepEnsemble(members=3).members
    3
    """

    name: ClassVar[str] = "deep-ensemble"
    title: ClassVar[str] = "Deep ensemble"

    members: int = 5
    """Networks in the ensemble."""
    adversarial: float | None = None
    """Adversarial smoothing: step as a share of each input's range (the paper: 0.01)."""
    batches: Literal["independent", "shared"] = "independent"
    """Own data order for each member, or one for all."""
    offset: int = 0
    """Number of the first member: members=5 offset=5 extends an ensemble of five to ten."""

    def __post_init__(self):
        Ensemble.__post_init__(self)
        choices(self)
        if self.offset < 0:
            raise InputError(
                f"offset is {self.offset}; it is the number of the first member, from 0"
            )
        if self.adversarial is not None and not self.adversarial > 0:
            raise InputError(
                f"adversarial is {self.adversarial}; give a positive share, such as 0.01"
            )

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Descent:
        """Gradient descent, once per member."""
        step = None if self.adversarial is None else self.adversarial * input_range(problem, data)
        # An array, so that ensembles with other first members share one compiled program.
        first = np.int32(self.offset)
        replicas = Replicas(self.members, first, shared_batches=self.batches == "shared")
        return Descent(problem, training, len(data), replicas, step)


def input_range(problem: Problem, data: Split) -> jax.Array:
    """Greatest minus least value of every input entry over the data, in standard units."""
    prepare = problem.prepare_inputs
    block = 4096
    starts = range(0, len(data), block)
    blocks = [np.asarray(data.x[start : start + block]) for start in starts]
    low = np.min([rows.min(0) for rows in blocks], axis=0)
    high = np.max([rows.max(0) for rows in blocks], axis=0)
    return jnp.abs(prepare(high[None]) - prepare(low[None]))[0]
