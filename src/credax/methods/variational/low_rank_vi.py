"""Variational inference with a diagonal plus low-rank covariance (Ong et al. 2018)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from credax.errors import InputError
from credax.methods.modes import Around
from credax.methods.variational.families import LowRank
from credax.methods.variational.variational import VariationalRecord


@dataclass(frozen=True)
class LowRankVI(VariationalRecord):
    """One Gaussian for all weights, its covariance a diagonal plus ``rank`` columns.

    ``w = μ + softplus(ρ) ε₁ + U ε₂``; minimised is ``mean NLL + KL(q || prior) / N``. Costs one
    training with ``2 + rank`` times the parameters. Reference: Ong, Nott, Smith, Gaussian
    variational approximation with a factor covariance structure, JCGS 2018.

    >>> LowRankVI().rank
    5
    """

    name: ClassVar[str] = "low-rank-vi"
    title: ClassVar[str] = "Low-rank VI"

    rank: int = 5
    """Columns of the covariance."""
    samples: int = 100
    """Networks drawn from each mode's law and kept."""
    initial_scale: float = 0.01
    """Standard deviation of every weight at the start."""
    draws: int = 1
    """Draws of the weights a step, each for its own part of the batch."""
    temperature: float = 1.0
    """Factor of the KL: 1 is the evidence bound, 0 maximum likelihood under weight noise."""
    annealing: float = 0.0
    """Share of the training over which the KL's weight rises from 0 to 1."""
    minibatch_weights: Literal["uniform", "blundell"] = "uniform"
    """The KL's share of each batch in an epoch: equal, or halving from batch to batch."""
    divergence: Literal["auto", "analytic", "path"] = "auto"
    """The KL in closed form, or at the draw; auto is closed for a Gaussian prior."""
    modes: int = 1
    """Independent runs, mixed uniformly."""
    around: Around = None
    """A population to go on from, one mode a member."""

    def __post_init__(self):
        VariationalRecord.__post_init__(self)
        if self.rank < 1:
            raise InputError(f"rank is {self.rank}; give at least 1 column, or use MeanFieldVI")

    def family(self) -> LowRank:
        """A diagonal and columns."""
        return LowRank(self.rank, point=self.initial_scale == 0)
