"""Variational inference with a diagonal plus low-rank covariance (Ong et al. 2018)."""

from dataclasses import dataclass
from typing import ClassVar

from credax.errors import InputError
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

    def __post_init__(self):
        VariationalRecord.__post_init__(self)
        if self.rank < 1:
            raise InputError(f"rank is {self.rank}; give at least 1 column, or use MeanFieldVI")

    def family(self) -> LowRank:
        """A diagonal and columns."""
        return LowRank(self.rank, point=self.initial_scale == 0)
