"""What an activation makes of two correlated Gaussians: closed forms of E φ(u)φ(v), E φ'(u)φ'(v).

``(u, v)`` are centred with variances ``q1``, ``q2`` and covariance ``c``; ``d = q1 + q2 - 2c`` is
their squared distance, carried beside ``c`` because for inputs that (nearly) coincide the textbook
root ``sqrt(q1 q2 - c²)`` keeps half the digits only. Each rule returns the new covariance, the
covariance of the derivatives (its slope in ``c``, Price's theorem) and the new distance; all are
finite, with finite gradients, at equal, opposite and zero inputs.

References: Cho and Saul 2009 (ReLU), Williams 1997 (erf), Tsuchida et al. 2021 (GELU).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

SNAP = 2.0**-46
"""Distances below this share of the variances are rounding, not distance (about 1.4e-14)."""


class Dual(NamedTuple):
    """The covariance of activations, of their derivatives, and the new squared distance."""

    covariance: Array
    derivative: Array
    distance: Array


Rule = Callable[..., Dual]


def namespace(x: Any) -> Any:
    """NumPy for NumPy arrays, which need no compiling; else jax.numpy."""
    return np if isinstance(x, np.ndarray) else jnp


def root(x: Array) -> Array:
    """The square root with zero, not infinite, slope at and below zero."""
    xp = namespace(x)
    positive = x > 0
    return xp.where(positive, xp.sqrt(xp.where(positive, x, 1.0)), 0.0)


def snap(distance: Array, size: Array) -> Array:
    """A distance found as a difference: what cannot be told from zero is zero."""
    xp = namespace(distance)
    return xp.where(distance > SNAP * size, distance, 0.0)


def slopes(c, q1, q2, d, low: float, high: float) -> Dual:
    """``low x`` below zero, ``high x`` above: ReLU (0, 1), leaky ReLU, absolute value (-1, 1)."""
    xp = namespace(c)
    determinant = (2 * (q1 + q2) * d - d**2 - (q1 - q2) ** 2) / 4
    sine = root(determinant)
    somewhere = q1 * q2 > 0
    cosine = xp.where(somewhere, c, 1.0)
    angle = xp.where(somewhere, xp.arctan2(sine, cosine), xp.pi / 2)
    bend = (low - high) ** 2 / (2 * math.pi)
    mean = (low**2 + high**2) / 2
    derivative = mean - bend * angle
    small = angle < 0.1
    series = xp.where(small, angle, 0.0)
    near = series**3 * (1 / 3 - series**2 / 30 + series**4 / 840 - series**6 / 45360)
    gap = xp.where(small, near, xp.sin(angle) - angle * xp.cos(angle))
    distance = xp.maximum(mean * d - 2 * bend * root(q1 * q2) * gap, 0.0)
    return Dual(bend * sine + derivative * c, derivative, distance)


def sign(c, q1, q2, d) -> Dual:
    """The sign; its derivative is zero where it exists: what training by gradients sees."""
    xp = namespace(c)
    sine = root((2 * (q1 + q2) * d - d**2 - (q1 - q2) ** 2) / 4)
    somewhere = q1 * q2 > 0
    covariance = 2 / xp.pi * xp.arctan2(xp.where(somewhere, c, 0.0), xp.where(somewhere, sine, 1.0))
    one = xp.where(q1 > 0, 1.0, 0.0)
    other = xp.where(q2 > 0, 1.0, 0.0)
    return Dual(covariance, xp.zeros_like(covariance), xp.maximum(one + other - 2 * covariance, 0))


def _smooth(moments: Callable[..., tuple[Array, Array]]) -> Rule:
    """A rule without a root: the distance is the difference of the new covariances."""

    def rule(c, q1, q2, d, *parameters: float) -> Dual:
        covariance, derivative = moments(c, q1, q2, *parameters)
        first, second = moments(q1, q1, q1, *parameters)[0], moments(q2, q2, q2, *parameters)[0]
        distance = snap(first + second - 2 * covariance, first + second)
        return Dual(covariance, derivative, namespace(d).where(d > 0, distance, 0.0))

    return rule


def _erf(c, q1, q2, scale, slope, offset):
    xp = namespace(c)
    c, q1, q2 = (slope**2 * value for value in (c, q1, q2))
    width = xp.sqrt((1 + 2 * q1) * (1 + 2 * q2) - 4 * c**2)
    covariance = 2 / xp.pi * xp.arctan2(2 * c, width)
    return scale**2 * covariance + offset**2, (scale * slope) ** 2 * 4 / (xp.pi * width)


def _gelu(c, q1, q2):
    xp = namespace(c)
    outer, inner = (1 + q1) * (1 + q2), q1 * q2
    width = xp.sqrt(outer - c**2)
    angle = xp.arctan2(c, width)
    covariance = c / 4 + ((c**2 + inner * width**2) / (outer * width) + c * angle) / (2 * xp.pi)
    bracket = 1 / width**2 + (1 - inner) / outer + 1
    return covariance, 1 / 4 + angle / (2 * xp.pi) + c / (2 * xp.pi * width) * bracket


def _waves(c, q1, q2, b):
    xp = namespace(c)
    middle = (q1 + q2) / 2
    return xp.exp(b**2 * (c - middle)), xp.exp(-(b**2) * (c + middle))


def _sine(c, q1, q2, b):
    minus, plus = _waves(c, q1, q2, b)
    return (minus - plus) / 2, b**2 * (minus + plus) / 2


def _cosine(c, q1, q2, b):
    minus, plus = _waves(c, q1, q2, b)
    return (minus + plus) / 2, b**2 * (minus - plus) / 2


def _radial_basis(c, q1, q2, gamma):
    xp = namespace(c)
    covariance = xp.exp(-gamma * (q1 + q2 - 2 * c))
    return covariance, 2 * gamma * covariance


def _exponential(c, q1, q2, b):
    xp = namespace(c)
    covariance = xp.exp(b**2 * (q1 + q2 + 2 * c) / 2)
    return covariance, b**2 * covariance


def _gaussian(c, q1, q2, b):
    width = (1 + 2 * b * q1) * (1 + 2 * b * q2) - 4 * b**2 * c**2
    return width**-0.5, 4 * b**2 * c * width**-1.5


def _monomial(c, q1, q2, power):
    xp = namespace(c)
    p = q1 * q2
    covariance, derivative = {
        1: (c, xp.ones_like(c)),
        2: (p + 2 * c**2, 4 * c),
        3: (9 * p * c + 6 * c**3, 9 * p + 18 * c**2),
        4: (9 * p**2 + 72 * p * c**2 + 24 * c**4, 144 * p * c + 96 * c**3),
        5: (
            225 * p**2 * c + 600 * p * c**3 + 120 * c**5,
            225 * p**2 + 1800 * p * c**2 + 600 * c**4,
        ),
    }[power]
    return covariance, derivative


DUALS: dict[str, Rule] = {
    "slopes": slopes,
    "sign": sign,
    "erf": _smooth(_erf),
    "gelu": _smooth(_gelu),
    "sine": _smooth(_sine),
    "cosine": _smooth(_cosine),
    "radial-basis": _smooth(_radial_basis),
    "exponential": _smooth(_exponential),
    "gaussian": _smooth(_gaussian),
    "monomial": _smooth(_monomial),
}

FUNCTIONS: dict[str, Callable[..., Array]] = {
    "slopes": lambda x, low, high: jnp.where(x > 0, high * x, low * x),
    "sign": jnp.sign,
    "erf": lambda x, a, b, c: a * jax.scipy.special.erf(b * x) + c,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "sine": lambda x, b: jnp.sin(b * x),
    "cosine": lambda x, b: jnp.cos(b * x),
    "radial-basis": lambda x, g: math.sqrt(2) * jnp.sin(math.sqrt(2 * g) * x + math.pi / 4),
    "exponential": lambda x, b: jnp.exp(b * x),
    "gaussian": lambda x, b: jnp.exp(-b * x**2),
    "monomial": lambda x, power: x**power,
}
