"""Activations of infinitely wide networks, by closed forms or by quadrature."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jaxtyping import Array

from credax.errors import InputError
from credax.infinite.duals import DUALS, FUNCTIONS, Dual, root, snap
from credax.networks.layers import Parameterless

HIGHEST_POWER = 5


@dataclass(frozen=True)
class Nonlinearity(Parameterless):
    """A function of each number whose Gaussian expectations are known in closed form.

    Made by `ReLU`, `LeakyReLU`, `Abs`, `Sign`, `Erf`, `GELU`, `Sine`, `Cosine`, `RadialBasis`,
    `Exponential`, `Gaussian` and `Monomial`.
    """

    name: str
    parameters: tuple[float, ...] = ()

    def __call__(self, x: Array) -> Array:
        """The function itself."""
        return FUNCTIONS[self.name](x, *self.parameters)

    def dual(self, c: Array, q1: Array, q2: Array, d: Array) -> Dual:
        """Expectations over Gaussians of these variances, covariance and squared distance."""
        return DUALS[self.name](c, q1, q2, d, *self.parameters)

    def apply(self, variables, x, *, key=None, train=False):
        """The function of each number."""
        return self(x), variables.state


@dataclass(frozen=True)
class Activation(Parameterless):
    """Any smooth function of each number, its expectations by Gauss-Hermite quadrature.

    ``E φ(u) φ(v)`` over a product grid of ``nodes²`` points with ``u = √q1 (α s + β t)`` and
    ``v = √q2 (β s + α t)``, ``α, β = (√(1+ρ) ± √(1-ρ)) / 2``: symmetric in its arguments to
    rounding and regular at ``ρ = ±1``. For tanh the error at unit variances is 1e-15 with 128
    nodes; it grows with the variance, and functions with a kink need a closed form. Cost:
    ``nodes²`` evaluations per pair.

    >>> Activation(jnp.tanh).nodes
    128
    """

    function: Callable[[Array], Array]
    nodes: int = 128

    def __post_init__(self):
        if self.nodes < 2:
            raise InputError(f"nodes is {self.nodes}; quadrature needs at least 2")

    def __call__(self, x: Array) -> Array:
        """The function itself."""
        return self.function(x)

    def dual(self, c: Array, q1: Array, q2: Array, d: Array) -> Dual:
        """Expectations by quadrature; see the class."""
        covariance, derivative = self._moments(c, q1, q2)
        first, second = self._moments(q1, q1, q1)[0], self._moments(q2, q2, q2)[0]
        distance = snap(first + second - 2 * covariance, first + second)
        return Dual(covariance, derivative, jnp.where(d > 0, distance, 0.0))

    def _moments(self, c, q1, q2):
        points, weights = _hermite(self.nodes)
        product = root(q1 * q2)
        correlation = jnp.where(product > 0, c / jnp.where(product > 0, product, 1.0), 0.0)
        correlation = jnp.clip(correlation, -1, 1)
        high, low = root(1 + correlation), root(1 - correlation)
        alpha, beta = (high + low) / 2, (high - low) / 2
        first, second = root(q1), root(q2)
        t = jnp.asarray(points).reshape(-1, *[1] * jnp.ndim(alpha))
        weight = jnp.asarray(weights).reshape(t.shape)

        def add(total, node):
            s, share = node
            u, v = first * (alpha * s + beta * t), second * (beta * s + alpha * t)
            (fu, du), (fv, dv) = self._slope(u), self._slope(v)
            return (
                total[0] + share * jnp.sum(weight * fu * fv, 0),
                total[1] + share * jnp.sum(weight * du * dv, 0),
            ), None

        zero = jnp.zeros(jnp.broadcast_shapes(alpha.shape, first.shape, second.shape), alpha.dtype)
        nodes = (jnp.asarray(points), jnp.asarray(weights))
        return jax.lax.scan(add, (zero, zero), nodes)[0]

    def _slope(self, x):
        return jax.jvp(self.function, (x,), (jnp.ones_like(x),))

    def apply(self, variables, x, *, key=None, train=False):
        """The function of each number."""
        return self(x), variables.state


@lru_cache
def _hermite(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    points, weights = scipy.special.roots_hermitenorm(nodes)
    return points, weights / weights.sum()


def ReLU() -> Nonlinearity:
    """``max(x, 0)``."""
    return Nonlinearity("slopes", (0.0, 1.0))


def LeakyReLU(negative: float = 0.01, positive: float = 1.0) -> Nonlinearity:
    """``negative x`` below zero and ``positive x`` above."""
    return Nonlinearity("slopes", (negative, positive))


def Abs() -> Nonlinearity:
    """``|x|``."""
    return Nonlinearity("slopes", (-1.0, 1.0))


def Identity() -> Nonlinearity:
    """``x``: a deep linear network."""
    return Nonlinearity("slopes", (1.0, 1.0))


def Sign() -> Nonlinearity:
    """The sign of ``x``; only the layers after the last sign are trained by gradients."""
    return Nonlinearity("sign")


def Erf(scale: float = 1.0, slope: float = 1.0, offset: float = 0.0) -> Nonlinearity:
    """``scale · erf(slope · x) + offset``."""
    return Nonlinearity("erf", (scale, slope, offset))


def GELU() -> Nonlinearity:
    """``x Φ(x)`` with the normal distribution function (not its tanh approximation)."""
    return Nonlinearity("gelu")


def Sine(frequency: float = 1.0) -> Nonlinearity:
    """``sin(frequency · x)``."""
    return Nonlinearity("sine", (frequency,))


def Cosine(frequency: float = 1.0) -> Nonlinearity:
    """``cos(frequency · x)``."""
    return Nonlinearity("cosine", (frequency,))


def RadialBasis(gamma: float = 1.0) -> Nonlinearity:
    """``√2 sin(√(2 gamma) x + π/4)``, whose covariance is ``exp(-gamma d)``."""
    return Nonlinearity("radial-basis", (gamma,))


def Exponential(rate: float = 1.0) -> Nonlinearity:
    """``exp(rate · x)``."""
    return Nonlinearity("exponential", (rate,))


def Gaussian(rate: float = 1.0) -> Nonlinearity:
    """``exp(-rate · x²)``."""
    return Nonlinearity("gaussian", (rate,))


def Monomial(power: int) -> Nonlinearity:
    """``x`` to a power of 1 to 5."""
    if power not in range(1, HIGHEST_POWER + 1):
        raise InputError(f"power is {power}; a monomial has a power of 1 to {HIGHEST_POWER}")
    return Nonlinearity("monomial", (power,))
