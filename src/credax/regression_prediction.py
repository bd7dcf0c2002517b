"""What all predictions of numbers share: a mixture, members on axis 0."""

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from credax.errors import InputError
from credax.mixing import Weights, as_weights, log_member_mean, member_mean, member_variance

Density = Literal["continuous", "mass", "none"]


class RegressionPrediction(eqx.Module):
    """A mixture of the members' predictions of numbers: what all of its kinds share.

    Every array that a prediction holds begins with ``[members, batch, targets]``. A single target
    has no trailing axis in what the properties return: ``mean`` is ``[batch]``. The axes of a grid
    lie between ``batch`` and ``targets`` and are kept by every property. Uncertainty is
    variance: total = aleatoric ``mean σ²`` + epistemic ``Var μ`` (law of total variance).
    """

    weights: Weights = eqx.field(default=None, static=True, kw_only=True)
    """Weights of the members, ``[members]``, made to sum to one; None: all alike."""

    def __post_init__(self):
        if self.weights is not None:
            self.weights = as_weights(self.weights, self.num_members)

    if TYPE_CHECKING:

        @property
        def means(self) -> Any:
            """The members' means."""

        @property
        def variances(self) -> Any:
            """The members' variances."""
    else:
        means: eqx.AbstractVar[Float[Array, "..."]]
        variances: eqx.AbstractVar[Float[Array, "..."]]

    @property
    @abc.abstractmethod
    def density(self) -> Density:
        """What `log_prob` is: a density, a probability of whole numbers, or not defined."""

    @property
    def members(self) -> Float[Array, "members batch *targets"]:
        """The members' own means."""
        return squeeze(self.means)

    @property
    def num_members(self) -> int:
        """How many members were mixed."""
        return self.means.shape[0]

    @property
    def mean(self) -> Float[Array, "batch *targets"]:
        """Mean of the mixture."""
        return squeeze(member_mean(self.means, self.weights))

    @property
    def var(self) -> Float[Array, "batch *targets"]:
        """Variance of the mixture, `aleatoric` + `epistemic`."""
        return self.aleatoric + self.epistemic

    @property
    def std(self) -> Float[Array, "batch *targets"]:
        """Square root of `var`."""
        return jnp.sqrt(self.var)

    @property
    def total(self) -> Float[Array, "batch *targets"]:
        """The same as `var`."""
        return self.var

    @property
    def widest(self) -> float:
        """A hook: the level of the widest central interval that is known."""
        return 1.0

    @property
    def own_epistemic(self) -> Float[Array, "members batch *grid targets"] | None:
        """A hook: the epistemic part of each member's own variance."""
        return None

    @property
    def aleatoric(self) -> Float[Array, "batch *targets"]:
        """Mean of the members' variances: the noise they see in the data."""
        own = self.own_epistemic
        noise = self.variances if own is None else self.variances - own
        return squeeze(member_mean(noise, self.weights))

    @property
    def epistemic(self) -> Float[Array, "batch *targets"]:
        """Variance of the members' means: where they disagree."""
        own, between = self.own_epistemic, member_variance(self.means, self.weights)
        return squeeze(between if own is None else between + member_mean(own, self.weights))

    @abc.abstractmethod
    def in_units(self, shift: Array, scale: Array) -> "RegressionPrediction":
        """The prediction of ``shift + scale y``, one number per target."""

    @abc.abstractmethod
    def member_log_prob(self, y: Array) -> Float[Array, "..."]:
        """Log-density of every target under every member."""

    @abc.abstractmethod
    def cdf(self, y: Float[Array, "batch ..."]) -> Float[Array, "batch ..."]:
        """Distribution function of the mixture, target by target."""

    @abc.abstractmethod
    def quantile(self, level: float) -> Float[Array, "batch *targets"]:
        """Quantile of the mixture (levels in (0, 1))."""

    @abc.abstractmethod
    def sample(self, key: Key[Array, ""], n: int = 1) -> Float[Array, "n batch *targets"]:
        """Targets drawn from the mixture; rows choose their member independently."""

    def log_prob(self, y: Array) -> Float[Array, "batch *grid"]:
        """Log-density of ``y`` under the mixture, joint over targets."""
        each = jnp.sum(self.member_log_prob(self._targets(y)), axis=-1)
        return log_member_mean(each, self.weights)

    def quantiles(self, levels: Sequence[float]) -> Float[Array, "levels batch *grid targets"]:
        """Quantiles at many levels; every target has its axis."""
        return jnp.stack([self.quantile(float(t)).reshape(self.means.shape[1:]) for t in levels])

    def interval(self, level: float = 0.9) -> "tuple[Array, Array]":
        """Central interval: the quantiles at ``(1 - level)/2`` and ``(1 + level)/2``."""
        if not 0.0 < level < 1.0:
            raise InputError(f"level is {level}; an interval's level lies between 0 and 1")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def summary(self) -> dict[str, Array]:
        """What a server answers, as plain arrays; the interval is the central one of level 0.9."""
        low, high = self.interval(0.9)
        return {
            "mean": self.mean,
            "std": self.std,
            "low_90": low,
            "high_90": high,
            "aleatoric": self.aleatoric,
            "epistemic": self.epistemic,
            "members": self.members,
        }

    def select(self, rows) -> Self:
        """The same prediction for some rows only."""
        return jax.tree.map(lambda leaf: leaf[:, rows], self)

    def _targets(self, y) -> Array:
        y = jnp.asarray(y)
        _, *batch, targets = self.means.shape
        if y.shape == (*batch,) and targets == 1:
            return y[..., None]
        if y.shape != (*batch, targets):
            raise InputError(
                f"y has shape {y.shape}; this prediction needs {(*batch, targets)}"
                + (f" or {(*batch,)}" if targets == 1 else "")
            )
        return y


def squeeze(a: Array) -> Array:
    """Without the axis of a single target."""
    return a[..., 0] if a.shape[-1] == 1 else a
