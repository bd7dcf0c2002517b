"""SWAG: a Gaussian from the moments of late iterates (Maddox et al. 2019)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from credax.data.dataset import Split
from credax.errors import InputError
from credax.gaussian_posterior import GaussianPosterior, gaussian_posterior
from credax.gaussians import LowRankGaussian
from credax.methods.ensemble import choices
from credax.methods.modes import (
    Kept,
    Modes,
    averaging_settings,
    check_captures,
    collecting,
    regular_captures,
)
from credax.methods.trajectory.swa import check_rate
from credax.problem import Problem
from credax.training import Training
from credax.training.collecting import Averaging, Collecting, IterateMoments

SMALLEST_VARIANCE = 1e-30


@dataclass(frozen=True)
class SWAG(Modes):
    """A Gaussian around the mean of one network's late iterates, diagonal plus low rank.

    ``θ = w_SWA + sqrt(scale) (sqrt(v) z₁ + D z₂ / sqrt(K - 1))``: ``v`` is the iterates' variance,
    the columns of ``D`` are the last K iterates minus the mean, and one ``z₂`` is shared by all
    arrays, which is the covariance between layers. ``scale`` multiplies the variance; 1/2 is the
    paper's equation, and ``rank=0, scale=1`` its diagonal variant. Costs (2 + rank) copies of the
    parameters, and one pass over the data per draw if there are batch statistics.
    Reference: Maddox et al., A simple baseline for Bayesian uncertainty, NeurIPS 2019.

    >>> SWAG().rank, SWAG().samples, SWAG().scale
    (20, 30, 0.5)
    """

    name: ClassVar[str] = "swag"
    title: ClassVar[str] = "SWAG"

    rank: int = 20
    """Last iterates kept as columns of the covariance; 0 is the diagonal variant."""
    samples: int = 30
    """Networks drawn from each mode's Gaussian and kept."""
    scale: float = 0.5
    """Factor of the whole covariance."""
    deviation: Literal["final", "running"] = "final"
    """Columns are deviations from the final mean, or from the running mean at each capture."""
    start: float = 0.5
    """Share of the training after which collecting begins, in whole epochs."""
    every: int | None = None
    """Steps between collected networks; an epoch by default."""
    averaging_rate: float | None = 0.5
    """Learning rate while collecting over the base rate; None keeps the training's schedule."""
    modes: int = 1
    """Independent runs, mixed uniformly: multi-SWAG."""

    def __post_init__(self):
        Modes.__post_init__(self)
        choices(self)
        check_captures(self.start, self.every)
        check_rate(self.averaging_rate)
        if self.rank < 0 or self.rank == 1:
            raise InputError(f"rank is {self.rank}; give 0 for a diagonal, or at least 2 columns")
        if self.samples < 1:
            raise InputError(f"samples is {self.samples}; draw at least 1")
        if not self.scale >= 0:
            raise InputError(f"scale is {self.scale}; a factor of a variance is not negative")

    def settings(self, training: Training, num_data: int) -> Training:
        """The training with the rate of averaging."""
        return averaging_settings(training, self.start, self.averaging_rate)

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Descent with running moments and a ring of iterates."""
        _, captures = regular_captures(self.start, self.every, training, len(data))
        check_collected(len(captures))
        collector = Averaging(min(self.rank, len(captures)), self.deviation == "running")
        return collecting(
            self.descent(problem, data, training), collector, captures, training, data
        )

    def result(self, problem: Problem, dynamics, kept: Kept, data: Split) -> GaussianPosterior:
        """Each mode's Gaussian, and draws from it with batch statistics of their own."""
        moments = jax.tree.map(jnp.asarray, kept.states.collected)
        check_collected(int(moments.seen[0]))
        gaussian = jax.vmap(lambda m: swag_gaussian(m, self.scale, self.deviation == "running"))(
            moments
        )
        state = jax.tree.map(jnp.asarray, kept.states.inner.variables.state)
        return gaussian_posterior(
            problem, gaussian, state, kept.modes, kept.keys, self.samples, data
        )

    def load(self, path, problem: Problem) -> GaussianPosterior:
        """Read Gaussians and draws back."""
        return GaussianPosterior.load(path, problem)


def swag_gaussian(moments: IterateMoments, scale: float, running: bool = False) -> LowRankGaussian:
    """The Gaussian of collected moments; columns never written to stay zero."""
    count = moments.seen

    def std(m2) -> jax.Array:
        return jnp.sqrt(scale) * jnp.sqrt(jnp.maximum(m2 / count, SMALLEST_VARIANCE))

    def columns(ring, mean) -> jax.Array:
        stored = jnp.minimum(count, len(ring))
        gaps = ring if running else ring - mean
        used = (jnp.arange(len(ring)) < stored).reshape(-1, *(1,) * mean.ndim)
        return jnp.where(used, gaps, 0) * jnp.sqrt(scale / jnp.maximum(stored - 1, 1))

    stds: PyTree = jax.tree.map(std, moments.m2)
    return LowRankGaussian(moments.mean, stds, jax.tree.map(columns, moments.ring, moments.mean))


def check_collected(count: int) -> None:
    """Raise an error unless at least two networks were collected."""
    if count < 2:
        raise InputError(
            f"SWAG has collected {count} network(s) and a variance needs at least 2; train more "
            "epochs, begin earlier with a lower start, or collect more often with every"
        )
