"""What records of stochastic gradient samplers share: samples along a chain, and their checks."""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from credax.data.dataset import Split
from credax.errors import InputError
from credax.likelihood import require_posterior
from credax.methods.ensemble import choices
from credax.methods.modes import Kept, Modes, carries_statistics, collecting, members_of_modes
from credax.methods.sampling.chains import diagnose
from credax.posterior import Population, population
from credax.problem import Problem
from credax.training import Training
from credax.training.collecting import Buffer, Collecting
from credax.training.langevin import Langevin

BETA, EPSILON = 0.99, 1e-5


class TargetChanged(UserWarning):
    """Batch statistics or augmentation make the sampled distribution another than the posterior."""


@dataclass(frozen=True)
class Sampler(Modes):
    """Chains of stochastic gradient Langevin dynamics: one per mode, their samples are members."""

    title: ClassVar[str]

    samples: int = 20
    """Networks kept of each chain."""
    temperature: float = 1.0
    """Factor of the noise's variance: 1 samples the posterior, 0 is the optimiser."""

    def __post_init__(self):
        Modes.__post_init__(self)
        choices(self)
        if not self.temperature >= 0:
            raise InputError(
                f"temperature is {self.temperature}; 1 is the posterior, 0 no noise, less is "
                "impossible"
            )
        if self.samples < 1:
            raise InputError(f"samples is {self.samples}; keep at least 1")

    def chain(
        self,
        problem: Problem,
        data: Split,
        training: Training,
        captures: list[int],
        *,
        preconditioner: Literal["none", "rmsprop"] = "none",
        **options: Any,
    ) -> Collecting:
        """Langevin dynamics whose networks are kept after the given steps."""
        require_posterior(problem.likelihood, self.title)
        changed = []
        if carries_statistics(problem, data):
            changed.append("batch statistics (use filter response or group norm)")
        if training.augment:
            changed.append("augmentation")
        if changed:
            warnings.warn(
                f"{self.title} samples a distribution that is not the posterior, because of "
                + " and ".join(changed),
                TargetChanged,
                stacklevel=3,
            )
        decay = BETA if preconditioner == "rmsprop" else None
        descent = self.descent(problem, data, training)
        inner = Langevin(descent, self.temperature, decay=decay, eps=EPSILON, **options)
        return collecting(inner, Buffer(len(captures)), captures, training, data)

    def result(self, problem: Problem, dynamics: Collecting, kept: Kept, data: Split) -> Population:
        """The samples, chain by chain, and how well the chains have mixed."""
        diagnostics: dict[str, Any] = diagnose(kept.states.collected.params)
        if carries_statistics(problem, data):
            diagnostics["batch_statistics"] = True
        if dynamics.inner.descent.training.augment:
            diagnostics["augmented"] = True
        variables, indices = members_of_modes(kept, kept.states.collected)
        return population(problem, variables, data.x, indices, diagnostics)


def refuse_optimiser(training: Training, title: str) -> None:
    """Raise an error if an optimiser of one's own is given to a method that moves by itself."""
    if not isinstance(training.optimiser, str):
        raise InputError(
            f"optimiser is an object and {title} moves by dynamics of its own; leave optimiser "
            "out (learning_rate and schedule are used), or use a method that descends"
        )


def spread_captures(samples: int, burn_in: float, steps: int) -> list[int]:
    """The last step and others before it at equal intervals, none in the burn-in.

    >>> spread_captures(4, 0.5, 20)
    [14, 16, 18, 20]
    """
    if not 0 <= burn_in < 1:
        raise InputError(f"burn_in is {burn_in}; give a share of the training in [0, 1)")
    every = int((1 - burn_in) * steps + 1e-9) // samples
    if every < 1:
        raise InputError(
            f"samples is {samples} and {int((1 - burn_in) * steps)} steps follow the burn-in; "
            "train longer, burn in less or keep fewer"
        )
    return [steps - every * (samples - 1 - i) for i in range(samples)]
