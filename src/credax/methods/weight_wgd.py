"""Wasserstein gradient descent in weight space (D'Angelo and Fortuin 2021)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax.numpy as jnp

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.ensemble import Ensemble, choices, scale_of
from credax.methods.pushes import MixingPush
from credax.methods.repulsive import Repulsive
from credax.methods.spaces import Weights
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
    bandwidth: Literal["median_plus_one", "median"] | float = "median_plus_one"
    """Squared median distance over ln(M + 1) or ln M, or a number."""
    repulsion_scale: Literal["data", "batch"] | float = "data"
    """1/N (the posterior's own scale), 1/B, or a number times 1/N."""
    anneal: Literal["none", "linear", "tanh", "cyclic"] = "none"
    """Let the loss's gradient grow from zero over ``anneal_steps``."""
    anneal_steps: int = 1000
    """Steps of the annealing."""
    ridge: float = 0.01
    """Ridge of sge and ssge."""
    keep: float | None = None
    """Share of eigenvalue mass that ssge keeps (0.95 is better than all)."""

    def __post_init__(self):
        Ensemble.__post_init__(self)
        choices(self)
        if self.keep is not None and not 0 < self.keep <= 1:
            raise InputError(f"keep is {self.keep}; it is a share in (0, 1]")

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Repulsive:
        """Weight space with a density estimate."""
        count, rows = len(data), training.batch_size
        return Repulsive(
            self.descent(problem, data, training),
            Weights(),
            MixingPush(self.estimator, self.bandwidth, self.ridge, self.keep),
            scale_of(self.repulsion_scale, batch=1 / rows, data=1 / count, number=1 / count),
            drive=annealing(self.anneal, self.anneal_steps),
        )


def annealing(kind: str, steps: int):
    """Factor of the loss's gradient: linear, tanh((1.3 t/S)^10), five cycles to the tenth power."""
    if kind == "none":
        return None
    forms = {
        "linear": lambda t: t / steps,
        "tanh": lambda t: jnp.tanh((1.3 * t / steps) ** 10),
        "cyclic": lambda t: (jnp.mod(t, steps / 5) / (steps / 5)) ** 10,
    }
    return lambda t: jnp.where(t < steps, forms[kind](t), 1.0)
