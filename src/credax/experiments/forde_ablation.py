"""Strength of the repulsion: from 0 to 10, the posterior's own, and a decay (unpublished)."""

from dataclasses import dataclass, replace
from functools import partial

import jax.numpy as jnp

from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Experiment, Outcome
from credax.experiments.forde_cifar10 import PAPER
from credax.experiments.forde_digits import CPU, SMALL, digits_scale, ensemble
from credax.experiments.forde_images import EPS, MEMBERS
from credax.experiments.shift import corruption_outcome, study
from credax.methods.repulsive.forde import FoRDE

STRENGTHS = (0.0, 0.1, 1.0, 10.0)
DECAY_SHARE = 80 / 300
"""The first research script let the strength fall over the first 80 of 300 epochs."""


@dataclass(frozen=True)
class Decay:
    """A strength that falls on a line from ``first`` to ``last`` over so many steps, then stays.

    >>> float(Decay(100.0, 1.0, 10)(5))
    50.5
    """

    first: float
    last: float
    steps: int

    def __call__(self, step):
        """The strength at a step."""
        share = jnp.minimum(step / self.steps, 1.0)
        return self.first + (self.last - self.first) * share


def arms(members: int, decay_steps: int, **options) -> tuple[Arm, ...]:
    """The deep ensemble and FoRDE-PCA at every strength; ``data`` is batch over rows."""
    forde = partial(FoRDE, members, **options)
    fixed = [
        Arm(f"rho-{rho:g}", f"FoRDE-PCA, ρ = {rho:g}", forde(repulsion_scale=rho))
        for rho in STRENGTHS
    ]
    decay = forde(repulsion_scale=Decay(100.0, 1.0, decay_steps))
    return (
        ensemble(members),
        fixed[0],
        Arm("rho-data", "FoRDE-PCA, ρ = B/N", forde(repulsion_scale="data")),
        *fixed[1:],
        Arm("rho-decay", "FoRDE-PCA, ρ 100 to 1", decay),
    )


def run(bench: Bench) -> Outcome:
    """Clean and corrupted scores, and how far apart the gradients are, by strength."""
    return corruption_outcome(study(bench))


EXPERIMENT = Experiment(
    name="forde-ablation",
    title="Strength of the repulsion",
    description=(
        "The released code repels N/B times as hard as the posterior asks for, and what the "
        "strength does has not been published. ρ = 1 is the released code, B/N the posterior's "
        "own, 0 a deep ensemble."
    ),
    scales={
        "test": digits_scale(arms(3, 2), 1, SMALL, small=True),
        "cpu": digits_scale(arms(10, round(DECAY_SHARE * 540)), 5, CPU),
        "paper": replace(
            PAPER,
            arms=arms(MEMBERS, 80 * 390, eps=EPS),
            note="CIFAR-10 at the README's settings; nothing of the kind has been published",
        ),
    },
    run=run,
)
