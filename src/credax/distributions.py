"""Distributions of one number for every member, row and target, for predictions that mix them."""

import abc
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy import stats
from jax.scipy.special import betainc, betaln, gammaincc, gammaln, xlogy
from jaxtyping import Array, Bool, Float, Key

BISECTIONS = 60
DOUBLINGS = 64


class Distribution(eqx.Module):
    """One distribution per entry; every array it holds is ``[members, batch, targets]``.

    Give your own ``mean``, ``variance``, ``log_prob`` and ``cdf``; then `credax.MixturePrediction`
    has quantiles, intervals, draws, metrics and reports of it.
    """

    whole: ClassVar[bool] = False
    """Whether values are whole numbers: `log_prob` is then the log of a probability."""

    @property
    @abc.abstractmethod
    def mean(self) -> Float[Array, "*entries"]:
        """Expected value."""

    @property
    @abc.abstractmethod
    def variance(self) -> Float[Array, "*entries"]:
        """Variance; finite."""

    @abc.abstractmethod
    def log_prob(self, y: Array) -> Float[Array, "*entries"]:
        """Log-density, or log-probability of whole numbers."""

    @abc.abstractmethod
    def cdf(self, y: Array) -> Float[Array, "*entries"]:
        """Probability of values up to ``y``."""

    @property
    def epistemic(self) -> Float[Array, "*entries"] | None:
        """A hook: the epistemic part of the variance, from uncertain parameters."""
        return None

    def sample(self, key: Key[Array, ""]) -> Float[Array, "*entries"]:
        """One draw per entry; a hook, by default the quantile at a uniform level."""
        mean = self.mean
        level = jax.random.uniform(key, mean.shape, mean.dtype, minval=jnp.finfo(mean.dtype).eps)
        return inverse(self.cdf, mean, jnp.sqrt(self.variance), level, self.whole)

    def moved(self, shift: Array, scale: Array) -> "Distribution":
        """The distribution of ``shift + scale y``: a hook, by default a wrapper."""
        like = jnp.ones_like(self.mean)
        return Affine(self, like * shift, like * scale)


def inverse(
    cdf: Callable[[Array], Array], centre: Array, deviation: Array, level: Array, whole: bool
) -> Array:
    """The smallest value with ``cdf >= level``, by doubling a bracket and bisecting it.

    ``centre`` and ``deviation`` say where to begin; of whole numbers the answer is one.
    """
    level = jnp.broadcast_to(level, centre.shape)
    width = jnp.maximum(deviation, jnp.finfo(centre.dtype).tiny)

    def outside(bracket) -> Bool[Array, ""]:
        low, high, _, count = bracket
        missed = jnp.any(cdf(low) >= level) | jnp.any(cdf(high) < level)
        return missed & (count < DOUBLINGS)

    def widen(bracket):
        low, high, width, count = bracket
        low = jnp.where(cdf(low) >= level, low - width, low)
        high = jnp.where(cdf(high) < level, high + width, high)
        return low, high, 2 * width, count + 1

    def halve(_, bounds):
        low, high = bounds
        middle = 0.5 * (low + high)
        below = cdf(middle) < level
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    start = centre - 3 * width, centre + 3 * width, 3 * width, jnp.int32(0)
    low, high, *_ = jax.lax.while_loop(outside, widen, start)
    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, (low, high))
    return jnp.round(high) if whole else 0.5 * (low + high)


class Affine(Distribution):
    """``shift + scale y`` of a distribution of real numbers."""

    inner: Distribution
    shift: Float[Array, "*entries"]
    scale: Float[Array, "*entries"]

    @property
    def mean(self):
        """Expected value."""
        return self.shift + self.scale * self.inner.mean

    @property
    def variance(self):
        """Variance."""
        return jnp.square(self.scale) * self.inner.variance

    @property
    def epistemic(self):
        """As the inner distribution's, in these units."""
        own = self.inner.epistemic
        return None if own is None else jnp.square(self.scale) * own

    def log_prob(self, y):
        """The inner density at the standard value, over the scale."""
        return self.inner.log_prob((y - self.shift) / self.scale) - jnp.log(self.scale)

    def cdf(self, y):
        """The inner distribution function at the standard value."""
        return self.inner.cdf((y - self.shift) / self.scale)

    def sample(self, key):
        """An inner draw in these units."""
        return self.shift + self.scale * self.inner.sample(key)


class PoissonDistribution(Distribution):
    """``p(k) = e^-λ λ^k / k!``."""

    whole: ClassVar[bool] = True
    rate: Float[Array, "*entries"]

    @property
    def mean(self):
        """``λ``."""
        return self.rate

    @property
    def variance(self):
        """``λ``."""
        return self.rate

    def log_prob(self, y):
        """Log-probability of a count."""
        y = jnp.asarray(y, self.rate.dtype)
        value = xlogy(y, self.rate) - self.rate - gammaln(y + 1)
        return jnp.where((y >= 0) & (y == jnp.floor(y)), value, -jnp.inf)

    def cdf(self, y):
        """``Q(⌊y⌋ + 1, λ)``, the regularised upper incomplete gamma function."""
        count = jnp.floor(jnp.maximum(y, 0.0))
        return jnp.where(y < 0, 0.0, gammaincc(count + 1, self.rate))


class NegativeBinomialDistribution(Distribution):
    """Counts of mean ``μ`` and variance ``μ + α μ²``."""

    whole: ClassVar[bool] = True
    rate: Float[Array, "*entries"]
    dispersion: Float[Array, "*entries"]

    @property
    def mean(self):
        """``μ``."""
        return self.rate

    @property
    def variance(self):
        """``μ + α μ²``."""
        return self.rate + self.dispersion * jnp.square(self.rate)

    def log_prob(self, y):
        """``log Γ(y + r) / (Γ(r) y!) + r log(1 - q) + y log q``, ``r = 1/α``, ``q = αμ/(1 + αμ)``.

        In single precision gamma functions of ``r`` and ``y + r`` would cancel for small ``α``; a
        beta function of both does not, but is no more exact in double precision.
        """
        y = jnp.asarray(y, self.rate.dtype)
        r, product = 1 / self.dispersion, self.dispersion * self.rate
        count = jnp.maximum(y, 0.0)
        if y.dtype == jnp.float64:
            ways = gammaln(count + r) - gammaln(r) - gammaln(count + 1)
        else:
            ways = -betaln(r, count + 1) - jnp.log(count + r)
        value = ways + xlogy(y, product) - (y + r) * jnp.log1p(product)
        return jnp.where((y >= 0) & (y == jnp.floor(y)), value, -jnp.inf)

    def cdf(self, y):
        """``I_{1-q}(r, ⌊y⌋ + 1)``, the regularised incomplete beta function."""
        count = jnp.floor(jnp.maximum(y, 0.0))
        share = 1 / (1 + self.dispersion * self.rate)
        return jnp.where(y < 0, 0.0, betainc(1 / self.dispersion, count + 1, share))


class LaplaceDistribution(Distribution):
    """Laplace (double exponential): density ``exp(-|y - loc| / scale) / 2 scale``."""

    loc: Float[Array, "*entries"]
    scale: Float[Array, "*entries"]

    @property
    def mean(self):
        """``loc``."""
        return self.loc

    @property
    def variance(self):
        """``2 scale²``."""
        return 2 * jnp.square(self.scale)

    def log_prob(self, y):
        """Log-density."""
        return -jnp.abs(y - self.loc) / self.scale - jnp.log(2 * self.scale)

    def cdf(self, y):
        """``exp(z) / 2`` below ``loc``, and its mirror image."""
        z = (y - self.loc) / self.scale
        tail = 0.5 * jnp.exp(-jnp.abs(z))
        return jnp.where(z < 0, tail, 1 - tail)

    def sample(self, key):
        """A draw of every entry."""
        return self.loc + self.scale * jax.random.laplace(key, self.loc.shape, self.loc.dtype)

    def moved(self, shift, scale):
        """A location and scale family stays itself."""
        return LaplaceDistribution(self.loc * scale + shift, self.scale * scale)


class StudentTDistribution(Distribution):
    """Student's t around ``loc``: ``(y - loc) / scale`` has ``degrees`` degrees of freedom, > 2.

    ``epistemic_variance`` is that part of its variance, where a model gives it.
    """

    loc: Float[Array, "*entries"]
    scale: Float[Array, "*entries"]
    degrees: Float[Array, "*entries"]
    epistemic_variance: Float[Array, "*entries"] | None = None

    @property
    def mean(self):
        """``loc``."""
        return self.loc

    @property
    def variance(self):
        """``scale² ν / (ν - 2)``."""
        return jnp.square(self.scale) * self.degrees / (self.degrees - 2)

    @property
    def epistemic(self):
        """``epistemic_variance``."""
        return self.epistemic_variance

    def log_prob(self, y):
        """Log-density."""
        return stats.t.logpdf(y, self.degrees, self.loc, self.scale)

    def cdf(self, y):
        """``1 - I_{ν/(ν + z²)}(ν/2, 1/2) / 2`` for ``z >= 0``, and its mirror image."""
        z = (y - self.loc) / self.scale
        tail = 0.5 * betainc(self.degrees / 2, 0.5, self.degrees / (self.degrees + jnp.square(z)))
        return jnp.where(z < 0, tail, 1 - tail)

    def sample(self, key):
        """A normal draw over the root of a gamma draw."""
        return self.loc + self.scale * jax.random.t(
            key, self.degrees, self.loc.shape, self.loc.dtype
        )

    def moved(self, shift, scale):
        """A location and scale family stays itself."""
        own = self.epistemic_variance
        moved = None if own is None else own * jnp.square(scale)
        return StudentTDistribution(
            self.loc * scale + shift, self.scale * scale, self.degrees, moved
        )
