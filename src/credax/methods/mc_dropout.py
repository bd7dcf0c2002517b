"""Monte Carlo dropout: a network's dropout stays on (Gal and Ghahramani 2016)."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from credax.data.dataset import Split
from credax.dropout_posterior import DropoutPosterior, check_dropout
from credax.errors import InputError
from credax.methods.modes import Around, Kept, Modes, collecting, example_variables
from credax.posterior import population
from credax.problem import Problem
from credax.training import Training
from credax.training.collecting import Collecting, Nothing


@dataclass(frozen=True)
class MCDropout(Modes):
    """One network with dropout, predicted under ``samples`` masks.

    ``p(y|x) = (1/S) Σ p(y|x, θ, mask_s)``. Trained with its own dropout layers; at prediction only
    they are on, and batch statistics are at rest. With ``consistent`` a member has one mask for all
    rows, so that it is one function. Costs one training, and ``samples`` passes a prediction; one
    network a mode is stored. Reference: Gal and Ghahramani, Dropout as a Bayesian approximation,
    ICML 2016.

    >>> MCDropout().samples
    100
    """

    name: ClassVar[str] = "mc-dropout"
    title: ClassVar[str] = "MC dropout"

    samples: int = 100
    """Masks drawn for each mode."""
    consistent: bool = True
    """One mask a member for all rows, or one a row."""
    modes: int = 1
    """Independent networks, mixed uniformly."""
    around: Around = None
    """A population to go on from, one mode a member."""

    def __post_init__(self):
        Modes.__post_init__(self)
        if self.samples < 1:
            raise InputError(f"samples is {self.samples}; draw at least 1")

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Descent, which knows a seed for the masks."""
        example = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
        check_dropout(problem, example_variables(problem, data), example)
        return collecting(self.descent(problem, data, training), Nothing(), [], training, data)

    def result(
        self, problem: Problem, dynamics: Collecting, kept: Kept, data: Split
    ) -> DropoutPosterior:
        """The networks and the seeds of their masks, each independent of how many there are."""
        networks = jax.tree.map(jnp.asarray, kept.states.inner.variables)
        number = jnp.arange(self.samples)
        fold = jax.vmap(lambda key: jax.vmap(lambda s: jax.random.fold_in(key, s))(number))
        seeds = jax.random.key_data(fold(kept.keys))
        trained = population(problem, networks, data.x, kept.modes)
        return DropoutPosterior(trained, seeds, self.consistent)

    def load(self, path, problem: Problem) -> DropoutPosterior:
        """Read networks and seeds back."""
        return DropoutPosterior.load(path, problem)
