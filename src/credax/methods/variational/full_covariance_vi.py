"""Variational inference with a full covariance, for small networks."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from credax.errors import InputError
from credax.methods.modes import Around
from credax.methods.variational.families import Full
from credax.methods.variational.variational import VariationalRecord


@dataclass(frozen=True)
class FullCovarianceVI(VariationalRecord):
    """One Gaussian with any covariance for all weights.

    ``w = μ + L ε``, L lower-triangular with a softplus diagonal; minimised is ``mean NLL +
    KL(q || prior) / N``. Exact where the posterior is Gaussian. Costs P² numbers, so up to 4000
    parameters. Reference: Titsias and Lázaro-Gredilla, Doubly stochastic variational Bayes, ICML
    2014.

    >>> FullCovarianceVI().samples
    100
    """

    name: ClassVar[str] = "full-covariance-vi"
    title: ClassVar[str] = "Full-covariance VI"

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
        if self.initial_scale == 0:
            raise InputError("initial_scale is 0; a full covariance needs a positive one")

    def family(self) -> Full:
        """A triangular factor."""
        return Full()
