"""Variational inference with a full covariance, for small networks."""

from dataclasses import dataclass
from typing import ClassVar

from credax.errors import InputError
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

    def __post_init__(self):
        VariationalRecord.__post_init__(self)
        if self.initial_scale == 0:
            raise InputError("initial_scale is 0; a full covariance needs a positive one")

    def family(self) -> Full:
        """A triangular factor."""
        return Full()
