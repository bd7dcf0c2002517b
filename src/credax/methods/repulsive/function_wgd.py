"""Wasserstein gradient descent in function space (D'Angelo, Fortuin 2021)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxtyping import Array

from credax.data.dataset import Split
from credax.methods.ensemble import Ensemble, Scale, check_keep, choices, positive, scale_of
from credax.methods.repulsive.embeddings import Functions, Noise
from credax.methods.repulsive.function_prior import FunctionPrior
from credax.methods.repulsive.repulsive import Repulsive
from credax.methods.repulsive.updates import ScoreUpdate
from credax.problem import Problem
from credax.training import Training

# Inputs of one's own are for Python; the command line offers names.
if TYPE_CHECKING:
    Inputs = Literal["batch", "noisy"] | Callable[[Array, Array], Array]
else:
    Inputs = Literal["batch", "noisy"]


@dataclass(frozen=True)
class FunctionWGD(Ensemble):
    """Members repel one another's predictions on the batch, compared as one long vector.

    ``φ = ∇_f log likelihood + ∇_f log prior - ∇_f log q(f)``, pulled back to the weights. Repelling
    at labelled inputs underfits: the weakest row of every published table.

    >>> FunctionWGD(members=3).outputs
    'probs'
    """

    name: ClassVar[str] = "function-wgd"
    title: ClassVar[str] = "Function WGD"

    members: int = 5
    """Networks in the ensemble."""
    outputs: Literal["probs", "logit"] = "probs"
    """What is compared: probabilities or raw outputs (regression: means)."""
    inputs: Inputs = "batch"
    """Where: on the batch, on the batch with noise, or at inputs(key, x)."""
    noise: float = 0.25
    """Deviation of that noise, in standard units."""
    estimator: Literal["kde", "blob", "sge", "ssge"] = "kde"
    """How the members' density is estimated."""
    bandwidth: Literal["median_plus_one", "median", "heat"] | float = "median_plus_one"
    """Median squared distance over ln(M + 1) or ln M, by the heat equation, or a number."""
    repulsion_scale: Scale = "data"
    """1/N, 1/B, or a number or schedule times 1/N."""
    function_prior: Literal["spectral", "cauchy", "moments", "none"] = "spectral"
    """Prior over functions: estimated from networks drawn from the weight prior, or Cauchy."""
    prior_scale: float = 1e-6
    """Scale of the Cauchy prior."""
    ridge: float = 0.01
    """Ridge of sge and ssge."""
    keep: float | None = None
    """Share of eigenvalue mass that ssge keeps."""

    def __post_init__(self):
        Ensemble.__post_init__(self)
        choices(self)
        positive(self, "bandwidth", "noise", "prior_scale")
        check_keep(self.keep)

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Repulsive:
        """Function space with a density estimate and a prior over functions."""
        count, rows = len(data), training.batch_size
        other = self.inputs if callable(self.inputs) else Noise(self.noise)
        space = Functions(self.outputs, "batch" if self.inputs == "batch" else "other", other)
        prior = None
        if self.function_prior != "none":
            prior = FunctionPrior(self.function_prior, self.prior_scale, self.members, space)
        return Repulsive(
            self.descent(problem, data, training),
            space,
            ScoreUpdate(self.estimator, self.bandwidth, self.ridge, self.keep, prior),
            scale_of(self.repulsion_scale, batch=1 / rows, data=1 / count, number=1 / count),
        )
