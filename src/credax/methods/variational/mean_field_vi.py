"""Mean-field variational inference, Bayes by backprop (Blundell et al. 2015)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from credax.methods.modes import Around
from credax.methods.variational.families import LowRank
from credax.methods.variational.variational import VariationalRecord


@dataclass(frozen=True)
class MeanFieldVI(VariationalRecord):
    """An independent Gaussian for every weight, fitted to the posterior.

    ``w = μ + softplus(ρ) ε``; minimised is ``mean NLL + KL(q || prior) / N``, the KL a sum over all
    weights of all layers. Works on any network; the prior may be a scale mixture. Costs one
    training with twice the parameters. Reference: Blundell et al., Weight uncertainty in neural
    networks, ICML 2015.

    >>> MeanFieldVI().initial_scale
    0.01
    """

    name: ClassVar[str] = "mean-field-vi"
    title: ClassVar[str] = "Mean-field VI"

    samples: int = 100
    """Networks drawn from each mode's law and kept."""
    initial_scale: float = 0.01
    """Standard deviation of every weight at the start."""
    draws: int = 1
    """Draws of the weights a step, each for its own part of the batch."""
    temperature: float = 1.0
    """Factor of the KL: 1 is the evidence bound, 0 maximum likelihood under weight noise."""
    annealing: float = 0.0
    """Share of the training over which the KL's weight rises from 0 to 1."""
    minibatch_weights: Literal["uniform", "blundell"] = "uniform"
    """The KL's share of each batch in an epoch: equal, or halving from batch to batch."""
    divergence: Literal["auto", "analytic", "path"] = "auto"
    """The KL in closed form, or at the draw; auto is closed for a Gaussian prior."""
    estimator: Literal["shared", "local", "flipout"] = "shared"
    """One draw a batch, or noise of each row's own: on products, or one draw with random signs."""
    modes: int = 1
    """Independent runs, mixed uniformly."""
    around: Around = None
    """A population to go on from, one mode a member."""

    def family(self) -> LowRank:
        """Independent weights."""
        return LowRank(0, point=self.initial_scale == 0)
