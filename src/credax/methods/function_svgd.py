"""Particle optimisation in function space, f-POVI (Wang, Ren, Zhu, Zhang 2019)."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from credax.data.dataset import Split
from credax.methods.ensemble import Ensemble, choices
from credax.methods.function_prior import FunctionPrior
from credax.methods.pushes import MixingPush, SteinPush
from credax.methods.repulsive import Repulsive
from credax.methods.spaces import Functions
from credax.problem import Problem
from credax.training import Training


@dataclass(frozen=True)
class FunctionSVGD(Ensemble):
    """The Stein direction (or gfsf, blob) of members' outputs on the batch and on points near it.

    The other points are the batch with noise of deviation ``extra / sqrt(N D)``; the prior over
    functions is a Gaussian matched to networks drawn from the weight prior.

    >>> FunctionSVGD().members
    20
    """

    name: ClassVar[str] = "function-svgd"
    title: ClassVar[str] = "Function SVGD"

    members: int = 20
    """Networks in the ensemble."""
    estimator: Literal["svgd", "gfsf", "blob"] = "svgd"
    """Stein direction, or a density estimate of the members' functions."""
    bandwidth: Literal["median_plus_one", "median"] | float = "median_plus_one"
    """Squared median distance over ln(M + 1) or ln M, or a number."""
    extra: float = 0.1
    """Noise of the points beside the batch, times 1 / sqrt(rows x inputs)."""
    function_prior: Literal["moments", "spectral", "cauchy", "none"] = "moments"
    """Prior over functions."""
    prior_draws: int = 40
    """Networks drawn for the prior at every step."""

    def __post_init__(self):
        Ensemble.__post_init__(self)
        choices(self)

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Repulsive:
        """Function space (raw outputs) on the batch and near it."""
        noise = self.extra / math.sqrt(len(data) * math.prod(data.x.shape[1:]))
        space = Functions("logit", "both", noise)
        prior = None
        if self.function_prior != "none":
            prior = FunctionPrior(self.function_prior, draws=self.prior_draws, space=space)
        descent = self.descent(problem, data, training)
        if self.estimator == "svgd":
            return Repulsive(descent, space, SteinPush("rbf", self.bandwidth, 1.0, prior), 1.0)
        estimator = {"gfsf": "sge", "blob": "blob"}[self.estimator]
        push = MixingPush(estimator, self.bandwidth, prior=prior)
        return Repulsive(descent, space, push, 1 / len(data))
