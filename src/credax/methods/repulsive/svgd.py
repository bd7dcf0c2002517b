"""Stein variational gradient descent in weight space (Liu and Wang 2016)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from credax.data.dataset import Split
from credax.methods.ensemble import Ensemble, choices, positive
from credax.methods.repulsive.embeddings import Weights
from credax.methods.repulsive.repulsive import Repulsive
from credax.methods.repulsive.updates import SteinUpdate
from credax.problem import Problem
from credax.training import Training


@dataclass(frozen=True)
class SVGD(Ensemble):
    """``θ_i' ∝ (1/M) Σ_j [k_ij ∇ log p(θ_j|D) + ∇_j k_ij]``: members share their gradients.

    With the kernel ``x.y + 1`` and more members than dimensions, mean and covariance of a Gaussian
    are exact (Liu and Wang 2018). The reference's optimiser is ``rmsprop``.

    >>> SVGD(members=3).kernel
    'rbf'
    """

    name: ClassVar[str] = "svgd"
    title: ClassVar[str] = "SVGD"

    members: int = 5
    """Networks in the ensemble."""
    kernel: Literal["rbf", "linear"] = "rbf"
    """Gaussian, or x.y + 1."""
    bandwidth: Literal["median_plus_one", "median", "heat"] | float = "median_plus_one"
    """Median squared distance over ln(M + 1) or ln M, by the heat equation, or a number."""
    repulsion_scale: float = 1.0
    """Factor of the kernel's gradient."""

    def __post_init__(self):
        Ensemble.__post_init__(self)
        choices(self)
        positive(self, "bandwidth")

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Repulsive:
        """Weight space with the Stein direction."""
        update = SteinUpdate(self.kernel, self.bandwidth, self.repulsion_scale)
        return Repulsive(self.descent(problem, data, training), Weights(), update, 1.0)
