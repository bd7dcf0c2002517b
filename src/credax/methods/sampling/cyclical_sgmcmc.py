"""Cyclical stochastic gradient MCMC: explore, then sample, again and again (Zhang et al. 2020)."""

import math
from dataclasses import dataclass
from typing import ClassVar

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.sampling.sghmc import check_friction
from credax.methods.sampling.stochastic import Sampler, refuse_optimiser
from credax.problem import Problem
from credax.training import Training
from credax.training.collecting import Collecting


@dataclass(frozen=True)
class CyclicalSGMCMC(Sampler):
    """Cosine cycles of the rate: without noise while it is high, sampling while it is low.

    Each of ``cycles`` cycles of C steps explores for its first ``exploration`` share (descent) and
    samples in the rest, ``samples`` networks at equal intervals up to its last step. The noise is
    that of `SGHMC`, or of `SGLD` with ``friction=1``. Temperature 1 is the posterior; the authors'
    released code divides the noise by N once more. Reference: Zhang et al., Cyclical stochastic
    gradient MCMC for Bayesian deep learning, ICLR 2020.

    >>> CyclicalSGMCMC(cycles=2, samples=2, exploration=0.5).captures(20)
    [8, 10, 18, 20]
    """

    name: ClassVar[str] = "cyclical-sgmcmc"
    title: ClassVar[str] = "Cyclical SG-MCMC"

    cycles: int = 4
    """Cycles of the learning rate."""
    samples: int = 3
    """Networks kept of each cycle."""
    exploration: float = 0.8
    """Share of each cycle without noise and samples."""
    friction: float = 0.1
    """Share of the velocity lost in a step; 1 is cyclical SGLD."""
    modes: int = 1
    """Independent chains, mixed uniformly."""

    def __post_init__(self):
        Sampler.__post_init__(self)
        check_friction(self.friction)
        if self.cycles < 1:
            raise InputError(f"cycles is {self.cycles}; there is at least 1")
        if not 0 <= self.exploration < 1:
            raise InputError(
                f"exploration is {self.exploration}; give a share of a cycle in [0, 1)"
            )

    def settings(self, training: Training, num_data: int) -> Training:
        """The training with cosine cycles and the sampler's momentum."""
        refuse_optimiser(training, self.title)
        return training.replace(
            optimiser="sgd",
            momentum=1 - self.friction,
            nesterov=False,
            schedule="cyclic-cosine",
            cycles=self.cycles,
        )

    def lengths(self, steps: int) -> tuple[int, int]:
        """Steps of a cycle, and of its exploration."""
        length = math.ceil(steps / self.cycles)
        return length, math.floor(self.exploration * length)

    def captures(self, steps: int) -> list[int]:
        """The steps after which a network is kept."""
        length, quiet = self.lengths(steps)
        last = steps - length * (self.cycles - 1)
        if (last - quiet) // self.samples < 1:
            raise InputError(
                f"samples is {self.samples} and the sampling part of a cycle has "
                f"{max(0, last - quiet)} steps; train longer, explore less or keep fewer"
            )
        kept = []
        for cycle in range(self.cycles):
            end = min(length * (cycle + 1), steps)
            every = (end - length * cycle - quiet) // self.samples
            kept += [end - every * (self.samples - 1 - i) for i in range(self.samples)]
        return kept

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Langevin dynamics with exploration steps without noise, and a buffer of samples."""
        steps = training.epochs * training.steps_per_epoch(len(data))
        length, quiet = self.lengths(steps)
        captures = self.captures(steps)
        return self.chain(
            problem, data, training, captures, friction=self.friction, quiet=quiet, cycle=length
        )
