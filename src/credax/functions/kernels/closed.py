"""Kernels with a closed form, in terms of logarithms of their positive hyper-parameters."""

import abc
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credax.functions.kernels.base import Kernel, Parameter, to_positive

EXACT_COLUMNS = 32
"""Up to so many columns squared distances are summed column by column, which loses no digits."""


class Stationary(Kernel):
    """Abstract: ``variance · g(r²)`` with ``r² = Σ_d ((x_d - x'_d) / lengthscale_d)²``.

    One length-scale, or one for each column (automatic relevance determination).
    """

    log_lengthscale: Parameter
    log_variance: Parameter

    def __init__(self, lengthscale: Any = 1.0, variance: Any = 1.0):
        self.log_lengthscale = to_positive("lengthscale", lengthscale)
        self.log_variance = to_positive("variance", variance)

    @abc.abstractmethod
    def shape(self, squared: Float[Array, "first second"]) -> Float[Array, "first second"]:
        """The correlation of a squared distance in units of the length-scale."""

    @abc.abstractmethod
    def radius(self, key) -> Float[Array, ""]:
        """A random factor: frequencies are it times a standard normal over the length-scale."""

    def __call__(self, x1, x2):
        """``variance · g(r²)``."""
        scale = jnp.exp(self.log_lengthscale)
        return jnp.exp(self.log_variance) * self.shape(squared_distance(x1 / scale, x2 / scale))

    def diagonal(self, x):
        """The variance."""
        return jnp.full(len(x), jnp.exp(self.log_variance), x.dtype)

    @property
    def columns(self) -> int | None:
        """As many as there are length-scales, or any number."""
        return len(self.log_lengthscale) if np.ndim(self.log_lengthscale) else None

    @property
    def has_features(self) -> bool:
        """A cosine of random frequency (Rahimi and Recht 2007)."""
        return True

    def feature(self, key, x):
        """``√(2 variance) cos(ω·x + b)``, the frequency from the spectral density."""
        radius, direction, phase = jax.random.split(key, 3)
        normal = jax.random.normal(direction, x.shape[-1:], x.dtype)
        frequency = self.radius(radius) * normal / jnp.exp(self.log_lengthscale)
        offset = jax.random.uniform(phase, (), x.dtype, maxval=2 * jnp.pi)
        return jnp.sqrt(2 * jnp.exp(self.log_variance)) * jnp.cos(x @ frequency + offset)


class RBF(Stationary):
    """``variance · exp(-r²/2)``: smooth functions.

    >>> round(float(RBF(lengthscale=1.0)(jnp.zeros((1, 1)), jnp.ones((1, 1)))[0, 0]), 4)
    0.6065
    """

    def __init__(self, lengthscale: Any = 1.0, variance: Any = 1.0):
        Stationary.__init__(self, lengthscale, variance)

    def shape(self, squared):
        """``exp(-r²/2)``."""
        return jnp.exp(-0.5 * squared)

    def radius(self, key):
        """The spectral density is a Gaussian."""
        return jnp.ones(())


class Matern(Stationary):
    """Abstract: Matern kernels, whose spectral density is Student's t of ``freedom = 2ν``."""

    freedom: ClassVar[int]

    def radius(self, key):
        """``√(2ν / χ²)``."""
        half = jax.random.gamma(key, self.freedom / 2)
        return jnp.sqrt(self.freedom / (2 * half))


class Matern12(Matern):
    """``variance · exp(-r)``: continuous, nowhere differentiable functions."""

    freedom: ClassVar[int] = 1

    def __init__(self, lengthscale: Any = 1.0, variance: Any = 1.0):
        Stationary.__init__(self, lengthscale, variance)

    def shape(self, squared):
        """``exp(-r)``."""
        return jnp.exp(-root(squared))


class Matern32(Matern):
    """``variance · (1 + √3 r) exp(-√3 r)``: functions with one derivative."""

    freedom: ClassVar[int] = 3

    def __init__(self, lengthscale: Any = 1.0, variance: Any = 1.0):
        Stationary.__init__(self, lengthscale, variance)

    def shape(self, squared):
        """``(1 + √3 r) exp(-√3 r)``."""
        r = root(3 * squared)
        return (1 + r) * jnp.exp(-r)


class Matern52(Matern):
    """``variance · (1 + √5 r + 5r²/3) exp(-√5 r)``: functions with two derivatives."""

    freedom: ClassVar[int] = 5

    def __init__(self, lengthscale: Any = 1.0, variance: Any = 1.0):
        Stationary.__init__(self, lengthscale, variance)

    def shape(self, squared):
        """``(1 + √5 r + 5r²/3) exp(-√5 r)``."""
        r = root(5 * squared)
        return (1 + r + 5 / 3 * squared) * jnp.exp(-r)


class RationalQuadratic(Stationary):
    """``variance · (1 + r²/(2 alpha))^-alpha``: a mixture of RBF kernels of all length-scales."""

    log_alpha: Parameter

    def __init__(self, lengthscale: Any = 1.0, variance: Any = 1.0, alpha: Any = 1.0):
        Stationary.__init__(self, lengthscale, variance)
        self.log_alpha = to_positive("alpha", alpha)

    def shape(self, squared):
        """``(1 + r²/(2 alpha))^-alpha``."""
        alpha = jnp.exp(self.log_alpha)
        return jnp.exp(-alpha * jnp.log1p(squared / (2 * alpha)))

    def radius(self, key):
        """The root of a gamma variable of mean one."""
        alpha = jnp.exp(self.log_alpha)
        return jnp.sqrt(jax.random.gamma(key, alpha) / alpha)


class Periodic(Kernel):
    """``variance · exp(-2 Σ_d sin²(π (x_d - x'_d) / period_d) / lengthscale_d²)``.

    A product over columns, and so positive definite in any number of them.
    """

    log_lengthscale: Parameter
    log_period: Parameter
    log_variance: Parameter

    def __init__(self, lengthscale: Any = 1.0, period: Any = 1.0, variance: Any = 1.0):
        self.log_lengthscale = to_positive("lengthscale", lengthscale)
        self.log_period = to_positive("period", period)
        self.log_variance = to_positive("variance", variance)

    def __call__(self, x1, x2):
        """Column by column."""
        scale = jnp.broadcast_to(jnp.exp(self.log_lengthscale), x1.shape[-1:])
        period = jnp.broadcast_to(jnp.exp(self.log_period), x1.shape[-1:])
        total = jnp.zeros((len(x1), len(x2)), x1.dtype)
        for d in range(x1.shape[-1]):
            angle = jnp.pi * (x1[:, None, d] - x2[None, :, d]) / period[d]
            total = total + jnp.square(jnp.sin(angle) / scale[d])
        return jnp.exp(self.log_variance - 2 * total)

    def diagonal(self, x):
        """The variance."""
        return jnp.full(len(x), jnp.exp(self.log_variance), x.dtype)

    @property
    def columns(self) -> int | None:
        """As many as there are length-scales or periods, or any number."""
        vector = next((a for a in (self.log_lengthscale, self.log_period) if np.ndim(a)), None)
        return None if vector is None else len(vector)

    @property
    def has_features(self) -> bool:
        """A cosine of a random harmonic."""
        return True

    def feature(self, key, x):
        """``√(2 variance) cos(Σ_d 2π j_d x_d / period_d + b)``, ``j`` a difference of Poissons."""
        up, down, phase = jax.random.split(key, 3)
        rate = 0.5 * jnp.exp(-2 * self.log_lengthscale)
        rates = jnp.broadcast_to(rate, x.shape[-1:])
        harmonic = jax.random.poisson(up, rates) - jax.random.poisson(down, rates)
        frequency = 2 * jnp.pi * harmonic / jnp.exp(self.log_period)
        offset = jax.random.uniform(phase, (), x.dtype, maxval=2 * jnp.pi)
        return jnp.sqrt(2 * jnp.exp(self.log_variance)) * jnp.cos(x @ frequency + offset)


class Linear(Kernel):
    """``bias + Σ_d variance_d x_d x'_d``: straight lines, Bayesian linear regression."""

    log_variance: Parameter
    log_bias: Parameter

    def __init__(self, variance: Any = 1.0, bias: Any = 1.0):
        self.log_variance = to_positive("variance", variance)
        self.log_bias = to_positive("bias", bias)

    def __call__(self, x1, x2):
        """``bias + x1 · x2``, weighted."""
        return jnp.exp(self.log_bias) + (x1 * jnp.exp(self.log_variance)) @ x2.T

    def diagonal(self, x):
        """``bias + x · x``, weighted."""
        return jnp.exp(self.log_bias) + jnp.sum(jnp.exp(self.log_variance) * x**2, axis=-1)

    @property
    def columns(self) -> int | None:
        """As many as there are variances, or any number."""
        return len(self.log_variance) if np.ndim(self.log_variance) else None

    @property
    def has_features(self) -> bool:
        """A line with random signs."""
        return True

    def feature(self, key, x):
        """A line whose slopes and offset are standard deviations with random signs."""
        slope, offset = jax.random.split(key)
        signs = jax.random.rademacher(slope, x.shape[-1:], x.dtype)
        line = x @ (signs * jnp.exp(0.5 * self.log_variance))
        return line + jax.random.rademacher(offset, (), x.dtype) * jnp.exp(0.5 * self.log_bias)


class Constant(Kernel):
    """``variance`` everywhere: a random level, and the factor in ``2.0 * kernel``."""

    log_variance: Parameter

    def __init__(self, variance: Any = 1.0):
        self.log_variance = to_positive("variance", variance)

    def __call__(self, x1, x2):
        """The same number everywhere."""
        return jnp.full((len(x1), len(x2)), jnp.exp(self.log_variance), x1.dtype)

    def diagonal(self, x):
        """The same number everywhere."""
        return jnp.full(len(x), jnp.exp(self.log_variance), x.dtype)

    @property
    def has_features(self) -> bool:
        """A constant with a random sign."""
        return True

    def feature(self, key, x):
        """A constant with a random sign."""
        level = jnp.exp(0.5 * self.log_variance) * jax.random.rademacher(key, (), x.dtype)
        return jnp.full(len(x), level)


class White(Kernel):
    """``variance`` where ``x = x'`` and 0 elsewhere: noise that belongs to the function."""

    log_variance: Parameter

    def __init__(self, variance: Any = 1.0):
        self.log_variance = to_positive("variance", variance)

    def __call__(self, x1, x2):
        """The variance at equal rows."""
        same = jnp.ones((len(x1), len(x2)), bool)
        for d in range(x1.shape[-1]):
            same = same & (x1[:, None, d] == x2[None, :, d])
        return jnp.where(same, jnp.exp(self.log_variance), 0.0)

    def diagonal(self, x):
        """The variance."""
        return jnp.full(len(x), jnp.exp(self.log_variance), x.dtype)

    @property
    def has_features(self) -> bool:
        """A normal number from the bits of a row."""
        return True

    def feature(self, key, x):
        """A normal number that is a function of the row: its bits are folded into the key."""
        words = jax.lax.bitcast_convert_type(x + 0.0, jnp.uint32).reshape(len(x), -1)
        own = jax.vmap(lambda row: jax.lax.scan(_fold, key, row)[0])(words)
        normal = jax.vmap(lambda k: jax.random.normal(k, (), x.dtype))(own)
        return jnp.exp(0.5 * self.log_variance) * normal


def _fold(key, word):
    return jax.random.fold_in(key, word), None


def squared_distance(
    x1: Float[Array, "first columns"], x2: Float[Array, "second columns"]
) -> Float[Array, "first second"]:
    """Squared Euclidean distances; column by column where there are few, else by a product."""
    if x1.shape[-1] <= EXACT_COLUMNS:
        total = jnp.zeros((len(x1), len(x2)), x1.dtype)
        for d in range(x1.shape[-1]):
            total = total + jnp.square(x1[:, None, d] - x2[None, :, d])
        return total
    centre = jnp.mean(x2, axis=0)
    one, other = x1 - centre, x2 - centre
    lengths = jnp.sum(one**2, axis=-1)[:, None] + jnp.sum(other**2, axis=-1)[None]
    found = lengths - 2 * one @ other.T
    # What rounding leaves of equal rows is no distance: a root of it would be far from zero.
    return jnp.where(found > 8 * jnp.finfo(found.dtype).eps * lengths, found, 0.0)


def root(squared: Array) -> Array:
    """The square root, with derivative zero at zero."""
    positive = squared > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squared, 1.0)), 0.0)
