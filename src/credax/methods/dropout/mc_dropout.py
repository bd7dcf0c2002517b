"""Monte Carlo dropout: masks stay on at prediction (Gal and Ghahramani 2016)."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from credax.data.dataset import Split
from credax.errors import InputError
from credax.methods.dropout.dropout_posterior import DropoutPosterior
from credax.methods.dropout.masks import MaskedDescent, Own, check_dropout, inserted_masks
from credax.methods.modes import Kept, Modes, collecting, example_variables
from credax.posterior import population
from credax.problem import Problem
from credax.training import Training
from credax.training.collecting import Collecting, Nothing


@dataclass(frozen=True)
class MCDropout(Modes):
    """One network whose kernels' inputs are masked, in training and in ``samples`` predictions.

    ``W_s = diag(z_s / (1 - p)) W`` with ``z ~ Bernoulli(1 - p)`` on the input units of every dense
    and convolution kernel, for any network; a draw has one mask for all rows, so that a member is
    one function. With ``rate=None`` the network's own dropout layers are used instead, and only
    they are on: batch normalisation uses its running statistics. Costs one training, and
    ``samples`` passes per prediction; one network per mode is stored. Reference: Gal and
    Ghahramani, Dropout as a Bayesian approximation, ICML 2016.

    >>> MCDropout().rate, MCDropout().samples
    (0.1, 100)
    """

    name: ClassVar[str] = "mc-dropout"
    title: ClassVar[str] = "MC dropout"

    rate: float | None = 0.1
    """Probability to drop an input of a kernel; None leaves it to the network's own layers."""
    samples: int = 100
    """Masks drawn for each mode."""
    mask_groups: int = 8
    """Number of equal parts of a training batch with own masks (own layers: one mask per row)."""
    consistent: bool = True
    """One mask per member for all rows; False, one mask per row, is for own layers only."""
    modes: int = 1
    """Independent networks, mixed uniformly."""

    def __post_init__(self):
        Modes.__post_init__(self)
        for name in ("samples", "mask_groups"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it is at least 1")
        if self.rate is not None and not 0 <= self.rate < 1:
            raise InputError(f"rate is {self.rate}; give a probability in [0, 1), or None")
        if self.rate is not None and not self.consistent:
            raise InputError(
                "consistent is False and rate is given; inserted masks are the same for all rows: "
                "use rate=None with dropout layers of the network's own"
            )

    @property
    def expected_members(self) -> int:
        """The masks of all modes."""
        return self.num_modes * self.samples

    def dynamics(self, problem: Problem, data: Split, training: Training) -> Collecting:
        """Descent under masks, which knows a seed for those of the prediction."""
        example = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
        descent = self.descent(problem, data, training)
        if self.rate is None:
            check_dropout(problem, example_variables(problem, data), example)
            return collecting(descent, Nothing(), [], training, data)
        masks = inserted_masks(problem, example, self.rate)
        size = training.batch_size
        groups = max(n for n in range(1, min(self.mask_groups, size) + 1) if size % n == 0)
        masked = MaskedDescent(descent, masks, groups)
        return collecting(masked, Nothing(), [], training, data)

    def result(
        self, problem: Problem, dynamics: Collecting, kept: Kept, data: Split
    ) -> DropoutPosterior:
        """The networks and the seeds of their masks, each independent of how many there are."""
        networks = jax.tree.map(jnp.asarray, kept.states.inner.variables)
        number = jnp.arange(self.samples)
        fold = jax.vmap(lambda key: jax.vmap(lambda s: jax.random.fold_in(key, s))(number))
        seeds = jax.random.key_data(fold(kept.keys))
        trained = population(problem, networks, data.x, kept.modes)
        inner = dynamics.inner
        masks = inner.masks if isinstance(inner, MaskedDescent) else Own(self.consistent)
        return DropoutPosterior(trained, seeds, masks)

    def load(self, path, problem: Problem) -> DropoutPosterior:
        """Read networks and seeds back."""
        return DropoutPosterior.load(path, problem)
