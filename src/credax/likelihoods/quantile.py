"""Quantile regression: several levels at once by the pinball loss."""

from typing import ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.likelihoods.base import Likelihood
from credax.likelihoods.checks import check_multiple, check_targets
from credax.mixture_prediction import QuantilePrediction


class Quantile(Likelihood):
    """Quantiles at several ``levels``: the loss is the sum of their pinball losses.

    ``Σ_τ max(τ (y - q_τ), (τ - 1)(y - q_τ))`` (Koenker and Bassett 1978). The network has one
    output per level and target, levels last. An objective, not a likelihood. A prediction holds the
    quantiles: their mean over members is the mixture's quantile, and there is no density (see
    `credax.QuantilePrediction`). The outermost levels are at most 0.05 and at least 0.95, because
    tables and reports show central 90 % intervals.

    >>> float(Quantile().log_prob(jnp.zeros((1, 3)), jnp.array([2.0]))[0])
    -3.0
    """

    levels: tuple[float, ...] = eqx.field(default=(0.05, 0.5, 0.95), static=True)

    task: ClassVar[Literal["classification", "regression"]] = "regression"
    no_posterior: ClassVar[str | None] = "a pinball loss is no log-density"

    def __check_init__(self):
        inside = all(0 < level < 1 for level in self.levels)
        if len(self.levels) < 2 or not inside or list(self.levels) != sorted(set(self.levels)):
            raise InputError(f"levels are {self.levels}; give rising numbers between 0 and 1")
        if self.levels[0] > 0.05 or self.levels[-1] < 0.95:
            raise InputError(
                f"levels are {self.levels}; the lowest is at most 0.05 and the highest at least "
                "0.95, because results show central 90 % intervals"
            )

    def num_outputs(self, targets: int) -> int:
        """One output per target and level."""
        return targets * len(self.levels)

    def num_targets(self, outputs: int) -> int:
        """Outputs over levels."""
        return outputs // len(self.levels)

    def log_prob(self, outputs: Array, y: Float[Array, "batch *targets"]) -> Array:
        """Minus the pinball losses of each row, summed over levels and targets."""
        values = self._values(outputs)
        above = jnp.reshape(y, values.shape[:-1])[..., None] - values
        levels = jnp.asarray(self.levels, outputs.dtype)
        return -jnp.sum(jnp.maximum(levels * above, (levels - 1) * above), axis=(-2, -1))

    def predict(self, outputs: Float[Array, "members batch *grid outputs"]) -> QuantilePrediction:
        """The members' quantiles."""
        return QuantilePrediction(self._values(outputs), self.levels)

    def check(self, y: np.ndarray, outputs: int) -> None:
        """One output per level and target, all targets finite."""
        count = len(self.levels)
        check_multiple(outputs, count, "Quantile", "one for each level")
        check_targets(y, outputs // count)

    def compared(self, outputs, *, raw):
        """All quantiles."""
        return outputs

    def _values(self, outputs):
        shape = (*outputs.shape[:-1], outputs.shape[-1] // len(self.levels), len(self.levels))
        return outputs.reshape(shape)
