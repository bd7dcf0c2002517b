"""Mean-field variational inference, Bayes by backprop (Blundell et al. 2015)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from credax.methods.variational.families import LowRank
from credax.methods.variational.local_noise import Estimator
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

    estimator: Literal["shared", "local", "flipout"] = "shared"
    """One draw per batch, or noise of each row's own: on layer outputs, or by random signs."""

    def weight_noise(self) -> Estimator:
        """As the record says."""
        return self.estimator

    def family(self) -> LowRank:
        """Independent weights."""
        return LowRank(0, point=self.initial_scale == 0)
