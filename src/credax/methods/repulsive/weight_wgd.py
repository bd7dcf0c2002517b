"""Wasserstein gradient descent in weight space (D'Angelo and Fortuin 2021)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax.numpy as jnp
from jaxtyping import Array

from credax.data.dataset import Split
from credax.methods.ensemble import Ensemble, Scale, check_keep, choices, positive, scale_of
from credax.methods.repulsive.embeddings import Weights
from credax.methods.repulsive.repulsive import Repulsive
from credax.methods.repulsive.updates import ScoreUpdate
from credax.problem import Problem
from credax.training import Training


@dataclass(frozen=True)
class WeightWGD(Ensemble):
    """Members repel one another's weights: ``θ' ∝ ∇ log p(θ_i|D) - ∇ log q(θ_i)``.

    ``q`` is a density through the members: by kernel (kde), both of its halves (blob), the Stein
    gradient estimator (sge) or its spectral form (ssge). Bias of kde at a fixed bandwidth h on
    ``N(μ, S)``: the members settle at ``N(μ, S - (h/2) I)``.

    >>> WeightWGD(members=3).estimator
    'kde'
    """

    name: ClassVar[str] = "weight-wgd"
    title: ClassVar[str] = "Weight WGD"

    members: int = 5
    """Networks in the ensemble."""
    estimator: Literal["kde", "blob", "sge", "ssge"] = "kde"
    """How the members' density is estimated."""
    bandwidth: Literal["median_plus_one", "median", "heat"] | float = "median_plus_one"
    """Median squared distance over ln(M + 1) or ln M, by the heat equation, or a number."""
    repulsion_scale: Scale = "data"
    """1/N (the posterior's own scale), 1/B, or a number or schedule times 1/N."""
    anneal: Literal["none", "linear", "tanh", "cyclic"] = "none"
    """Let the loss's gradient grow from zero over ``anneal_steps``."""
    anneal_steps: int = 1000
    """Steps of the annealing."""
    ridge: float = 0.01
    """Ridge of sge and ssge."""
    keep: float | None = None
    """Share of eigenvalue mass that ssge keeps, all by default; less is smoother, more biased."""

    def __post_init__(self):
        Ensemble.__post_init__(self)
        choices(self)
        positive(self, "bandwidth", "anneal_steps")
        check_keep(self.keep)

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Repulsive:
        """Weight space with a density estimate."""
        count, rows = len(data), training.batch_size
        return Repulsive(
            self.descent(problem, data, training),
            Weights(),
            ScoreUpdate(self.estimator, self.bandwidth, self.ridge, self.keep),
            scale_of(self.repulsion_scale, batch=1 / rows, data=1 / count, number=1 / count),
            drive=None if self.anneal == "none" else Annealing(self.anneal, self.anneal_steps),
        )


@dataclass(frozen=True)
class Annealing:
    """Factor of the loss's gradient: linear, tanh((1.3 t/S)^10), five cycles to the tenth power.

    >>> float(Annealing("linear", 10)(5))
    0.5
    """

    kind: Literal["linear", "tanh", "cyclic"]
    steps: int

    def __call__(self, step) -> Array:
        """The factor at a step; one after the last."""
        share = step / self.steps
        rising = {
            "linear": lambda: share,
            "tanh": lambda: jnp.tanh((1.3 * share) ** 10),
            "cyclic": lambda: jnp.mod(5 * share, 1.0) ** 10,
        }[self.kind]()
        return jnp.where(share < 1, rising, 1.0)
