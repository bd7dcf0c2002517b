"""Particle optimisation in function space, f-POVI (Wang, Ren, Zhu, Zhang 2019)."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from jaxtyping import Array

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.ensemble import Ensemble, choices, positive
from credax.methods.repulsive.embeddings import Functions, Noise
from credax.methods.repulsive.function_prior import FunctionPrior
from credax.methods.repulsive.repulsive import Repulsive
from credax.methods.repulsive.updates import ScoreUpdate, SteinUpdate
from credax.problem import Problem
from credax.training import Training

# The reference's 1e-5 in its form of the kernel, exp(-d²/2h).
BANDWIDTH_FLOOR = 2e-5

# Inputs of one's own are for Python; the command line offers a number.
if TYPE_CHECKING:
    Extra = float | Callable[[Array, Array], Array]
else:
    Extra = float


@dataclass(frozen=True)
class FunctionSVGD(Ensemble):
    """The Stein direction (or gfsf, blob) of members' outputs on the batch and on points near it.

    The other points are the batch with noise of deviation ``extra / sqrt(N D)``; the prior over
    functions is a Gaussian matched to networks drawn from the weight prior. A learned noise level
    is each member's own.

    >>> FunctionSVGD().members
    20
    """

    name: ClassVar[str] = "function-svgd"
    title: ClassVar[str] = "Function SVGD"

    members: int = 20
    """Networks in the ensemble."""
    estimator: Literal["svgd", "gfsf", "blob", "mixed"] = "svgd"
    """Stein direction, a density estimate of the members' functions, or mean of svgd and blob."""
    bandwidth: Literal["median_plus_one", "median", "heat"] | float = "median_plus_one"
    """Median squared distance over ln(M + 1) or ln M, by the heat equation, or a number."""
    extra: Extra = 0.1
    """Noise of the points beside the batch, times 1 / sqrt(rows x inputs); or extra(key, x)."""
    function_prior: Literal["moments", "spectral", "cauchy", "none"] = "moments"
    """Prior over functions."""
    prior_draws: int = 40
    """Networks drawn for the prior at every step."""

    def __post_init__(self):
        Ensemble.__post_init__(self)
        choices(self)
        positive(self, "bandwidth", "prior_draws")
        if not callable(self.extra) and not self.extra >= 0:
            raise InputError(f"extra is {self.extra}; it is not negative")

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Repulsive:
        """Function space (raw outputs) on the batch and near it."""
        other = self.extra
        if not callable(other):
            other = Noise(other / math.sqrt(len(data) * math.prod(data.x.shape[1:])))
        space = Functions("logit", "both", other)
        prior = None
        if self.function_prior != "none":
            prior = FunctionPrior(self.function_prior, draws=self.prior_draws, space=space)
        descent = self.descent(problem, data, training)
        options = {"bandwidth": self.bandwidth, "prior": prior, "floor": BANDWIDTH_FLOOR}
        if self.estimator in ("svgd", "mixed"):
            update = SteinUpdate(with_blob=self.estimator == "mixed", **options)
            return Repulsive(descent, space, update, 1.0)
        update = ScoreUpdate({"gfsf": "sge", "blob": "blob"}[self.estimator], **options)
        return Repulsive(descent, space, update, 1 / len(data))
