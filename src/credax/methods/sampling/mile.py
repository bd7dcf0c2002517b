"""Microcanonical Langevin ensembles: one chain from each network of an ensemble (2025)."""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from credax.data.dataset import Split
from credax.errors import InputError
from credax.likelihood import require_posterior
from credax.methods.modes import (
    Kept,
    Modes,
    carries_statistics,
    collecting,
    example_variables,
    members_of_modes,
)
from credax.methods.sampling.chains import diagnose
from credax.methods.sampling.first import ensemble_first, whole_batches
from credax.methods.sampling.hamiltonian import ChainRejected
from credax.methods.sampling.log_joint import Tempered
from credax.methods.sampling.microcanonical import Microcanonical
from credax.methods.sampling.observed import chain_diagnostics
from credax.methods.sampling.warmup import blackjax
from credax.posterior import Population, population
from credax.problem import Problem
from credax.training import Training
from credax.training.collecting import Buffer, Collecting
from credax.training.supply import narrow


@dataclass(frozen=True)
class MILE(Modes):
    """Microcanonical Langevin chains, one from each network of an ensemble, mixed uniformly.

    First ``modes`` networks are trained as a deep ensemble by the settings of the training, with
    early stopping, unless ``around`` gives them. Then a chain of microcanonical Langevin Monte
    Carlo on the log joint of all rows begins at each. Warm-up finds the step size from the energy
    error and the decoherence length from the chain. No step is rejected: the bias is controlled by
    the energy error, which is in the posterior's ``diagnostics``. ``temperature`` divides the log
    joint; its limit 0 is not defined for this sampler. Costs two gradients of all rows per step.
    References: Sommer et al., Microcanonical Langevin ensembles: advancing the sampling of Bayesian
    neural networks, ICLR 2025; Robnik and Seljak 2024.

    >>> MILE(modes=4).expected_members
    400
    """

    name: ClassVar[str] = "mile"
    title: ClassVar[str] = "MILE"

    modes: int = 8
    """Networks of the ensemble, and chains."""
    samples: int = 100
    """Networks kept of each chain."""
    warmup: int = 8000
    """Steps before the first sample, in which step size and length are found."""
    thinning: int = 20
    """Steps from one kept network to the next."""
    temperature: float = 1.0
    """Divisor of the log joint: 1 samples the posterior."""

    def __post_init__(self):
        Modes.__post_init__(self)
        for name, least in (("samples", 1), ("warmup", 10), ("thinning", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} is {getattr(self, name)}; it is at least {least}")
        if not self.temperature > 0:
            raise InputError(
                f"temperature is {self.temperature}; give a positive number, 1 for the posterior"
            )

    @property
    def expected_members(self) -> int:
        """Networks kept of all chains."""
        return self.num_modes * self.samples

    def first_stage(self, training: Training, num_data: int) -> tuple[Any, Training] | None:
        """A deep ensemble, unless there is one to continue from."""
        return None if self.around is not None else ensemble_first(self.modes, training, num_data)

    def settings(self, training: Training, num_data: int) -> Training:
        """One step per epoch, warm-up first, on all rows; the rest is the ensemble's."""
        return whole_batches(training, num_data, self.warmup + self.samples * self.thinning)

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Chains with a buffer of samples."""
        require_posterior(problem.likelihood, self.title)
        if carries_statistics(problem, data):
            raise InputError(
                "the network carries batch statistics, so its log joint is not a function of its "
                "parameters; use filter response or group norm"
            )
        params = jax.tree.leaves(example_variables(problem, data).params)
        if sum(leaf.size for leaf in params) < 2:
            raise InputError(
                "the network has one parameter; a microcanonical chain needs at least 2: use hmc"
            )
        blackjax()
        inner = Microcanonical(
            self.descent(problem, data, training, shared_batches=True),
            Tempered(problem, jnp.asarray(data.x), jnp.asarray(narrow(data.y)), self.temperature),
            self.warmup,
        )
        captures = [self.warmup + self.thinning * (i + 1) for i in range(self.samples)]
        return collecting(inner, Buffer(self.samples), captures, training, data)

    def result(self, problem: Problem, dynamics: Collecting, kept: Kept, data: Split) -> Population:
        """The samples, chain by chain, with the energy error and how well chains have mixed."""
        steps = self.samples * self.thinning
        kept = _that_moved(kept, steps)
        states = kept.states
        dimension = states.inner.tuned.mean.shape[-1]
        energy = np.asarray(states.inner.energy, np.float64) / (steps * dimension)
        diagnostics: dict[str, Any] = {
            **diagnose(states.collected.params),
            **chain_diagnostics(problem, states.collected.params, data, kept.modes),
            "energy_error": float(energy.mean()),
            "refused_steps": int(np.sum(states.inner.refused)),
            "step_sizes": [float(v) for v in np.asarray(states.inner.tuned.step_size)],
            "lengths": [float(v) for v in np.asarray(states.inner.tuned.length)],
        }
        variables, indices = members_of_modes(kept, states.collected)
        return population(problem, variables, data.x, indices, diagnostics)


def _that_moved(kept: Kept, steps: int) -> Kept:
    """The chains of which at least one step after warm-up was taken."""
    moved = np.flatnonzero(np.asarray(kept.states.inner.refused) < steps)
    still = [mode for i, mode in enumerate(kept.modes) if i not in moved]
    if len(still) == len(kept.modes):
        raise InputError(
            "no step of any chain gave finite numbers; standardise the inputs, or begin at trained "
            "networks (around=)"
        )
    if still:
        warnings.warn(
            f"chains {still} took no step, for all gave states that are not finite, and are left "
            "out; a longer warmup may help",
            ChainRejected,
            stacklevel=5,
        )
    states = jax.tree.map(lambda leaf: leaf[moved], kept.states)
    return Kept(tuple(kept.modes[i] for i in moved), states)
