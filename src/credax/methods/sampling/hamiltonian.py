"""Hamiltonian chains on the full log joint, by blackjax."""

import dataclasses
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from credax.data.dataset import Split
from credax.errors import InputError
from credax.likelihood import require_posterior
from credax.methods.modes import Kept, Modes, carries_statistics, collecting, members_of_modes
from credax.methods.sampling.chains import diagnose
from credax.methods.sampling.first import ensemble_first, whole_batches
from credax.methods.sampling.hamiltonian_chain import Chain
from credax.methods.sampling.observed import chain_diagnostics
from credax.methods.sampling.stochastic import refuse_optimiser
from credax.methods.sampling.warmup import blackjax
from credax.posterior import Population, population
from credax.problem import Problem
from credax.training import Training
from credax.training.collecting import Buffer, Collecting
from credax.training.supply import narrow


class ChainRejected(UserWarning):
    """A chain in which no proposal was accepted; it is left out of the result."""


@dataclass(frozen=True)
class HamiltonianRecord(Modes):
    """What `HMC` and `NUTS` share: chains, warm-up, samples and what is said about them."""

    name: ClassVar[str]
    title: ClassVar[str]

    samples: int = 100
    """Networks kept of each chain."""
    warmup: int = 500
    """Transitions before the first sample, in which step size and masses are found."""
    thinning: int = 1
    """Transitions from one kept network to the next."""
    step_size: float | None = None
    """Step of the leapfrog; found in warm-up by default."""
    acceptance: float = 0.8
    """Rate of acceptance that warm-up aims at."""
    pretrain: bool = False
    """Train an ensemble by the settings of the training first, and begin at its networks."""

    def __post_init__(self):
        Modes.__post_init__(self)
        for name in ("samples", "warmup", "thinning"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it is at least 1")
        if self.step_size is not None and not self.step_size > 0:
            raise InputError(f"step_size is {self.step_size}; give a positive number or leave it")
        if not 0 < self.acceptance < 1:
            raise InputError(f"acceptance is {self.acceptance}; it lies between 0 and 1")
        if self.pretrain and self.around is not None:
            raise InputError("pretrain and around are both given; leave one of them out")

    def first_stage(self, training: Training, num_data: int) -> tuple[Any, Training] | None:
        """A deep ensemble, where it is asked for."""
        return ensemble_first(self.modes, training, num_data) if self.pretrain else None

    def beginning_at(self, population: Population) -> Any:
        """The same record around these networks."""
        return dataclasses.replace(self, pretrain=False, modes=1, around=population)

    def settings(self, training: Training, num_data: int) -> Training:
        """One transition per epoch, warm-up first, on all rows, without augmentation."""
        if self.pretrain:
            return whole_batches(training, num_data, self.warmup + self.samples * self.thinning)
        refuse_optimiser(training, self.title)
        return training.replace(
            epochs=self.warmup + self.samples * self.thinning,
            batch_size=num_data,
            schedule="constant",
            warmup_epochs=0.0,
            augment=(),
        )

    def options(self) -> dict[str, int | None]:
        """What the algorithm takes beside step size and masses."""
        return {}

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Chains with a buffer of samples."""
        require_posterior(problem.likelihood, self.title)
        if carries_statistics(problem, data):
            raise InputError(
                "the network carries batch statistics, so its log joint is not a function of its "
                "parameters; use filter response or group norm"
            )
        blackjax()
        inner = Chain(
            self.descent(problem, data, training, shared_batches=True),
            jnp.asarray(data.x),
            jnp.asarray(narrow(data.y)),
            self.name,
            self.warmup,
            self.step_size,
            self.acceptance,
            tuple(self.options().items()),
        )
        captures = [self.warmup + self.thinning * (i + 1) for i in range(self.samples)]
        return collecting(inner, Buffer(self.samples), captures, training, data)

    def result(self, problem: Problem, dynamics: Collecting, kept: Kept, data: Split) -> Population:
        """The samples of the chains that moved, chain by chain, and how well they have mixed."""
        moves = np.asarray(kept.states.inner.moves)
        stuck = [kept.modes[i] for i in np.flatnonzero(moves == 0)]
        if len(stuck) == len(kept.modes):
            raise InputError(
                f"every proposal of every chain was rejected (step_size is "
                f"{np.asarray(kept.states.inner.step_size).max():.3g}); give a smaller step_size, "
                "or leave it out and let a longer warmup find one"
            )
        if stuck:
            warnings.warn(
                f"chains {stuck} accepted no proposal and are left out; a smaller step_size or a "
                "longer warmup may help",
                ChainRejected,
                stacklevel=4,
            )
        moved = np.flatnonzero(moves > 0)
        states = jax.tree.map(lambda leaf: leaf[moved], kept.states)
        kept = Kept(tuple(kept.modes[i] for i in moved), states)
        transitions = self.samples * self.thinning
        diagnostics: dict[str, Any] = {
            **diagnose(states.collected.params),
            **chain_diagnostics(problem, states.collected.params, data, kept.modes),
            "divergences": int(np.sum(states.inner.divergences)),
            "acceptance": float(np.mean(states.inner.acceptance) / transitions),
            "step_sizes": [float(step) for step in np.asarray(states.inner.step_size)],
            "e_bfmi": [_number(v) for v in np.asarray(states.inner.energies.bfmi)],
            "leapfrog_steps": float(np.mean(states.inner.leapfrogs) / transitions),
        }
        variables, indices = members_of_modes(kept, states.collected)
        return population(problem, variables, data.x, indices, diagnostics)


def _number(value: np.ndarray) -> float | None:
    return float(value) if np.isfinite(value) else None
