"""Predictions of numbers that are no Gaussians: mixtures of any distribution, and quantiles."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from credax.distributions import Distribution, inverse
from credax.errors import InputError
from credax.mixing import member_mean, member_variance, pick_members
from credax.regression_prediction import Density, RegressionPrediction, squeeze

VARIANCE_FLOOR = 1e-6
# Central 90 % of a Gaussian are so many standard deviations wide.
_WIDTH_90 = 2 * 1.6448536269514722


class MixturePrediction(RegressionPrediction):
    """Mixture of any distribution, one per member, row and target.

    What a likelihood of one's own returns from ``predict``; see `credax.Distribution`.

    >>> from credax.distributions import PoissonDistribution
    >>> p = MixturePrediction(PoissonDistribution(jnp.array([[[1.0]], [[3.0]]])))
    >>> float(p.mean[0]), float(p.aleatoric[0]), float(p.epistemic[0]), float(p.quantile(0.5)[0])
    (2.0, 2.0, 1.0, 2.0)
    """

    each: Distribution

    @property
    def density(self) -> Density:
        """A probability of whole numbers, or a density."""
        return "mass" if self.each.whole else "continuous"

    @property
    def means(self) -> Float[Array, "members batch *grid targets"]:
        """The members' means."""
        return self.each.mean

    @property
    def variances(self) -> Float[Array, "members batch *grid targets"]:
        """The members' variances."""
        return self.each.variance

    @property
    def own_epistemic(self) -> Float[Array, "members batch *grid targets"] | None:
        """What the members' distributions say of it."""
        return self.each.epistemic

    def in_units(self, shift: Array, scale: Array) -> "MixturePrediction":
        """The prediction of ``shift + scale y``; whole numbers have no other units."""
        if self.each.whole:
            raise InputError(
                "targets has units and the likelihood predicts whole numbers, which have none; "
                "leave targets out"
            )
        return MixturePrediction(self.each.moved(shift, scale), weights=self.weights)

    def member_log_prob(self, y: Array) -> Float[Array, "..."]:
        """Log-density or log-probability of every target under every member."""
        return self.each.log_prob(y)

    def cdf(self, y: Float[Array, "batch ..."]) -> Float[Array, "batch ..."]:
        """Mean of the members' distribution functions, target by target."""
        return squeeze(member_mean(self.each.cdf(self._targets(y)), self.weights))

    def quantile(self, level: float) -> Float[Array, "batch *targets"]:
        """Quantile of the mixture by bisection; of counts the smallest count that reaches it."""
        _check_level(level)
        return squeeze(_mixture_quantiles(self, jnp.asarray([level], self.means.dtype))[0])

    def quantiles(self, levels: Sequence[float]) -> Float[Array, "levels batch *grid targets"]:
        """Quantiles at many levels, in one program; every target has its axis."""
        return _mixture_quantiles(self, jnp.asarray(levels, self.means.dtype))

    def sample(self, key: Key[Array, ""], n: int = 1) -> Float[Array, "n batch *targets"]:
        """Targets drawn from the mixture; rows choose their member independently."""
        which, inner = jax.random.split(key)
        members, *batch, _ = self.means.shape
        places = jnp.meshgrid(*map(jnp.arange, batch), indexing="ij")
        pick = (pick_members(which, (n, *batch), members, self.weights), *places)
        return squeeze(jax.tree.map(lambda leaf: leaf[pick], self.each).sample(inner))


class QuantilePrediction(RegressionPrediction):
    """Quantiles at some levels; ``values`` is ``[members, batch, targets, levels]``.

    A member's values are sorted (Chernozhukov et al. 2010). The mixture's quantile is the mean of
    the members' (Vincent averaging), on a line between two levels; beyond the outermost levels
    nothing is known and nothing is said. There is no density. ``mean`` is the mean of the members'
    medians. ``aleatoric`` is the variance of a Gaussian with the mean width of the members'
    central 90 % intervals, ``epistemic`` the variance of their medians.

    >>> p = QuantilePrediction(jnp.array([[[[1.0, 2.0, 4.0]]]]), (0.05, 0.5, 0.95))
    >>> float(p.mean[0]), [float(end[0]) for end in p.interval(0.9)]
    (2.0, [1.0, 4.0])
    """

    values: Float[Array, "members batch *grid targets levels"]
    levels: tuple[float, ...] = eqx.field(static=True)

    @property
    def density(self) -> Density:
        """None: quantiles alone have no density."""
        return "none"

    @property
    def widest(self) -> float:
        """The interval between the outermost levels, or what is central of it."""
        return 1 - 2 * max(self.levels[0], 1 - self.levels[-1])

    @property
    def means(self) -> Float[Array, "members batch *grid targets"]:
        """The members' medians."""
        return self._at(0.5)

    @property
    def variances(self) -> Float[Array, "members batch *grid targets"]:
        """Of Gaussians with the members' central 90 % intervals."""
        return jnp.square((self._at(0.95) - self._at(0.05)) / _WIDTH_90) + VARIANCE_FLOOR

    def in_units(self, shift: Array, scale: Array) -> "QuantilePrediction":
        """The prediction of ``shift + scale y``."""
        return QuantilePrediction(
            self.values * scale[..., None] + jnp.asarray(shift)[..., None],
            self.levels,
            weights=self.weights,
        )

    def member_log_prob(self, y: Array) -> Float[Array, "..."]:
        """Not defined: always an error that says what to use instead."""
        raise InputError(
            "log_prob is not defined for quantiles, which have no density; use a pinball loss or "
            "the interval score, or a likelihood with a density, such as Gaussian"
        )

    def cdf(self, y: Float[Array, "batch ..."]) -> Float[Array, "batch ..."]:
        """On a line between the levels; beyond them half of what the outermost leaves."""
        y, table = self._targets(y), member_mean(self._sorted, self.weights)
        levels = jnp.asarray(self.levels, table.dtype)
        flat = y.reshape(-1), table.reshape(-1, table.shape[-1])
        inside = jax.vmap(lambda at, values: jnp.interp(at, values, levels))(*flat).reshape(y.shape)
        below = jnp.where(y < table[..., 0], levels[0] / 2, inside)
        return squeeze(jnp.where(y > table[..., -1], (1 + levels[-1]) / 2, below))

    def quantile(self, level: float) -> Float[Array, "batch *targets"]:
        """Mean of the members' quantiles, between the outermost levels."""
        _check_level(level)
        return squeeze(member_mean(self._at(level), self.weights))

    def sample(self, key: Key[Array, ""], n: int = 1) -> Float[Array, "n batch *targets"]:
        """Always an error: what lies beyond the outermost levels is not known."""
        raise InputError(
            "sample is not defined for quantiles: beyond the outermost levels nothing is known; "
            "use a likelihood with a density, such as Gaussian"
        )

    @property
    def _sorted(self) -> Float[Array, "members batch *grid targets levels"]:
        return jnp.sort(self.values, axis=-1)

    def _at(self, level: float) -> Float[Array, "members batch *grid targets"]:
        # Central intervals are asked for by (1 ± level) / 2, which rounds.
        if not self.levels[0] - 1e-9 <= level <= self.levels[-1] + 1e-9:
            raise InputError(
                f"level is {level:g} and the quantiles were learned from {self.levels[0]:g} to "
                f"{self.levels[-1]:g}; give Quantile more levels"
            )
        flat = self._sorted.reshape(-1, self.values.shape[-1])
        return jax.vmap(self._between(level))(flat).reshape(self.values.shape[:-1])

    def _between(self, level: float):
        levels = jnp.asarray(self.levels, self.values.dtype)
        return lambda values: jnp.interp(jnp.asarray(level, values.dtype), levels, values)


@eqx.filter_jit
def _mixture_quantiles(prediction: MixturePrediction, levels: Array) -> Array:
    each, weights = prediction.each, prediction.weights
    centre = member_mean(each.mean, weights)
    spread = jnp.sqrt(member_mean(each.variance, weights) + member_variance(each.mean, weights))
    cdf = lambda value: member_mean(each.cdf(value), weights)  # noqa: E731
    return jax.lax.map(lambda level: inverse(cdf, centre, spread, level, each.whole), levels)


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise InputError(f"level is {level}; a quantile level lies strictly between 0 and 1")
