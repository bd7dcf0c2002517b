"""Functional variational inference as a method: a Bayesian network with a prior on functions."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from credax.data.dataset import Split
from credax.errors import InputError
from credax.functions.descent import with_adam, with_steps
from credax.functions.exact import KernelSetting
from credax.functions.function_priors import PriorName
from credax.functions.implicit import ImplicitProcess
from credax.functions.kernels import named_kernel
from credax.functions.measurement import measure
from credax.functions.prior_fitting import FittedPrior, fit_prior
from credax.gaussian_posterior import GaussianPosterior, gaussian_posterior
from credax.likelihood import refuse_grid, require_posterior
from credax.likelihoods.learned import VARIANCE_FLOOR
from credax.methods.ensemble import choices
from credax.methods.modes import Kept, Modes, carries_statistics
from credax.methods.variational.families import LowRank
from credax.methods.variational.functional_descent import FunctionalDescent, raw_variance
from credax.methods.variational.variational import with_points
from credax.problem import Problem
from credax.training import Training

if TYPE_CHECKING:
    PriorSetting = PriorName | ImplicitProcess
else:
    # The command line offers names; processes as objects are for Python.
    PriorSetting = PriorName


@dataclass(frozen=True)
class FunctionalVI(Modes):
    """Independent Gaussians over the weights, fitted with a prior on functions.

    Minimised is ``mean NLL + KL(q(f) || p(f)) / N``, the KL at ``data_points`` rows of the batch
    and ``points`` new ones from the box of the training inputs, with noise ``gamma`` on all values.
    The prior is a Gaussian process, its hyper-parameters fitted by the evidence and then kept, or
    any implicit process. The KL grows with the number of points and with one over ``gamma``: both
    belong to the model. Reference: Sun et al., Functional variational Bayesian neural networks,
    ICLR 2019; linearised: Rudner et al., Tractable function-space variational inference in Bayesian
    neural networks, NeurIPS 2022.

    >>> FunctionalVI(points=40, gamma=0.1).points
    40
    """

    name: ClassVar[str] = "functional-vi"
    title: ClassVar[str] = "Functional VI"

    objective: Literal["ssge", "linearised"] = "ssge"
    """The KL's gradient from scores of draws, or the exact KL of the linearised network."""
    prior: PriorSetting = "gp"
    """A Gaussian process, the network with weights of the problem's prior, or broken lines; in
    Python any ImplicitProcess in standard units."""
    kernel: KernelSetting = "rbf"
    """Of gp: rbf, matern12, matern32, matern52, rational-quadratic, periodic, linear, constant,
    white, or such names with + and *."""
    ard: bool = True
    """A length-scale for each column."""
    optimise: bool = True
    """Whether the process's hyper-parameters are fitted by the evidence before training."""
    restarts: int = 2
    """Starts of that fit; the best is kept."""
    prior_rows: int = 1000
    """Training rows that the fit uses at most; of classes so many over the number of logits."""
    prior_score: Literal["auto", "exact", "ssge"] = "auto"
    """The prior's score in closed form (Gaussian processes) or from its draws."""
    points: int = 20
    """New measurement points per step."""
    data_points: int = 20
    """Rows of the batch among the measurement points."""
    measurement: Literal["uniform", "gaussian"] = "uniform"
    """New points over the box of the training inputs, or with their mean and deviation."""
    margin: float = 0.0
    """Share of the box's width added on each side."""
    gamma: float = 0.01
    """Standard deviation of the noise on function values, in standard units."""
    samples: int = 100
    """Networks drawn per step."""
    threshold: float = 0.99
    """Share of the eigenvalues that a spectral score uses."""
    kl_weight: Literal["data", "batch"] = "data"
    """One over all training rows (the evidence bound), or over the rows of a batch."""
    noise_floor: float = 0.05
    """Least standard deviation of a learned noise level, in standard units; the fitted process's
    own noise where that is larger."""
    initial_scale: float = 0.1
    """Standard deviation of every weight at the start."""
    rank: int = 0
    """Columns of a low-rank covariance beside the independent weights."""
    members: int = 100
    """Networks drawn from each mode's Gaussian and kept."""
    least_steps: int = 3000
    """Gradient steps: where the epochs give fewer there are more of them."""

    def __post_init__(self):
        Modes.__post_init__(self)
        choices(self)
        for name in ("points", "members", "least_steps", "restarts", "prior_rows"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it is at least 1")
        for name, least in (("samples", 2), ("data_points", 0), ("rank", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}; it is at least {least}")
        for name in ("gamma", "initial_scale", "noise_floor"):
            if not 0 < getattr(self, name) < np.inf:
                raise InputError(
                    f"{name} is {getattr(self, name)}; it is a standard deviation: give a positive "
                    "number, such as the default"
                )
        if not 0 < self.threshold <= 1:
            raise InputError(f"threshold is {self.threshold}; it is a share: give one in (0, 1]")
        if not 0 <= self.margin < np.inf:
            raise InputError(f"margin is {self.margin}; it is a share: give a number from 0 on")
        if isinstance(self.kernel, str):
            named_kernel(self.kernel, 1)
        self._check_prior()

    def _check_prior(self) -> None:
        prior: Any = self.prior
        if not isinstance(prior, str | ImplicitProcess):
            raise InputError(
                f"prior is a {type(prior).__name__}; give 'gp', 'weights', 'piecewise-constant', "
                "'piecewise-linear' or an object of credax.functions.ImplicitProcess"
            )
        if self.prior_score == "exact" and prior != "gp":
            raise InputError(
                "prior_score is 'exact' and the prior is no Gaussian process, whose score alone is "
                "known; use prior_score='ssge', or prior='gp'"
            )
        if self.objective == "linearised" and prior not in ("gp", "weights"):
            raise InputError(
                "objective is 'linearised' and the prior is known by its draws alone; use "
                "objective='ssge', or prior='gp' or 'weights'"
            )

    def settings(self, training: Training, num_data: int) -> Training:
        """Adam in place of sgd, with rate 0.01 in place of the default one; enough epochs."""
        return with_steps(with_adam(training), num_data, self.least_steps)

    def dynamics(self, problem: Problem, data: Split, training: Training) -> FunctionalDescent:
        """Descent on the bound, one Gaussian per mode; the prior is fitted first."""
        require_posterior(problem.likelihood, self.title)
        refuse_grid(problem.likelihood, self.title)
        if carries_statistics(problem, data):
            raise InputError(
                "the network carries batch statistics, which depend on all rows of a batch, so "
                "that a draw of weights is no function; use one without, such as MLP, or "
                "norm='layer'"
            )
        fitted = fit_prior(self, problem, data)
        likelihood = problem.likelihood
        least = None
        if likelihood.has_one_noise and likelihood.learns:
            least = jnp.float32(raw_variance(self._floor(fitted)))
        return FunctionalDescent(
            self.descent(problem, data, training),
            LowRank(self.rank),
            fitted.prior,
            measure(problem, data, self.measurement, self.margin),
            jnp.float32(self.gamma),
            self.initial_scale,
            fitted.weight_std,
            least,
            self.objective,
            self.data_points,
            self.points,
            self.samples,
            self.threshold,
            self.kl_weight == "batch",
        )

    def _floor(self, fitted: FittedPrior) -> float:
        return max(fitted.noise, self.noise_floor)

    def result(
        self, problem: Problem, dynamics: FunctionalDescent, kept: Kept, data: Split
    ) -> GaussianPosterior:
        """Each mode's Gaussian, and draws from it."""
        states = jax.tree.map(jnp.asarray, kept.states)

        def one(free, points):
            return with_points(problem, dynamics.family.gaussian(free), points)

        gaussian = jax.vmap(one)(states.free, states.points)
        return gaussian_posterior(
            problem,
            gaussian,
            states.carried,
            kept.modes,
            kept.keys,
            self.members,
            data,
            diagnostics=self._diagnostics(dynamics),
        )

    def _diagnostics(self, dynamics: FunctionalDescent) -> dict[str, Any]:
        batch = dynamics.descent.training.batch_size
        rows = min(self.data_points, batch)
        found: dict[str, Any] = {
            "gamma": self.gamma,
            "measurement_points": rows + self.points,
            "points": self.points,
        }
        if dynamics.least_raw is not None:
            variance = np.logaddexp(0.0, float(dynamics.least_raw)) + VARIANCE_FLOOR
            found["noise_floor"] = float(np.sqrt(variance))
        return found

    def load(self, path, problem: Problem) -> GaussianPosterior:
        """Read Gaussians and draws back."""
        return GaussianPosterior.load(path, problem)
