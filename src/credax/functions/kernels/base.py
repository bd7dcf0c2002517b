"""What every kernel is: a covariance of function values that can be added and multiplied."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Key

from credax.errors import InputError

Parameter = Any
"""A logarithm: a NumPy array in float64, which keeps its digits outside double precision too, or
an array of jax while it is differentiated."""


class Kernel(eqx.Module):
    """Abstract: ``k(x, x')`` for rows of numbers, ``[rows, columns]``.

    Positive hyper-parameters are kept as logarithms, so that every real vector is a kernel and an
    optimiser needs no constraint. ``k1 + k2``, ``k1 * k2`` and ``2.0 * k`` are kernels.
    """

    @abc.abstractmethod
    def __call__(
        self, x1: Float[Array, "first columns"], x2: Float[Array, "second columns"]
    ) -> Float[Array, "first second"]:
        """The matrix ``k(x1_i, x2_j)``."""

    @abc.abstractmethod
    def diagonal(self, x: Float[Array, "rows columns"]) -> Float[Array, " rows"]:
        """``k(x_i, x_i)`` without the other pairs."""

    @property
    def columns(self) -> int | None:
        """A hook: columns that inputs must have; by default any number."""
        return None

    @property
    def has_features(self) -> bool:
        """A hook: whether `feature` is there, so that draws are functions of any input."""
        return False

    def feature(
        self, key: Key[Array, ""], x: Float[Array, "rows columns"]
    ) -> Float[Array, " rows"]:
        """A hook: one random function ``φ`` with ``E φ(x) φ(x') = k(x, x')``, at rows ``x``."""
        raise InputError(
            f"{type(self).__name__} has no random features, so its draws are joint at given points "
            "only; use joint='points'"
        )

    def check(self, columns: int) -> None:
        """Raise an error if inputs of so many columns do not fit."""
        if self.columns not in (None, columns):
            raise InputError(
                f"the kernel {type(self).__name__} has hyper-parameters of {self.columns} columns "
                f"and x has {columns}; give one number, or one for each column of x"
            )

    def __add__(self, other: "Kernel | float") -> "Sum":
        """The kernel of a sum of independent functions."""
        return Sum(self, _kernel(other))

    def __radd__(self, other: float) -> "Sum":
        return Sum(_kernel(other), self)

    def __mul__(self, other: "Kernel | float") -> "Product":
        """The kernel of a product of independent functions; a number scales the variance."""
        return Product(self, _kernel(other))

    def __rmul__(self, other: float) -> "Product":
        return Product(_kernel(other), self)


class Sum(Kernel):
    """``k1(x, x') + k2(x, x')``."""

    first: Kernel
    second: Kernel

    def __call__(self, x1, x2):
        """The sum of both matrices."""
        return self.first(x1, x2) + self.second(x1, x2)

    def diagonal(self, x):
        """The sum of both diagonals."""
        return self.first.diagonal(x) + self.second.diagonal(x)

    @property
    def columns(self) -> int | None:
        """What either part asks for."""
        return _agreed(self.first, self.second)

    @property
    def has_features(self) -> bool:
        """Where both parts have them."""
        return self.first.has_features and self.second.has_features

    def feature(self, key, x):
        """``φ1 + s φ2`` with a random sign ``s``, which removes the cross term on average."""
        one, other, sign = jax.random.split(key, 3)
        signed = jax.random.rademacher(sign, (), x.dtype) * self.second.feature(other, x)
        return self.first.feature(one, x) + signed


class Product(Kernel):
    """``k1(x, x') k2(x, x')``."""

    first: Kernel
    second: Kernel

    def __call__(self, x1, x2):
        """The product of both matrices, entry by entry."""
        return self.first(x1, x2) * self.second(x1, x2)

    def diagonal(self, x):
        """The product of both diagonals."""
        return self.first.diagonal(x) * self.second.diagonal(x)

    @property
    def columns(self) -> int | None:
        """What either part asks for."""
        return _agreed(self.first, self.second)

    @property
    def has_features(self) -> bool:
        """Where both parts have them."""
        return self.first.has_features and self.second.has_features

    def feature(self, key, x):
        """``φ1 φ2``, drawn independently."""
        one, other = jax.random.split(key)
        return self.first.feature(one, x) * self.second.feature(other, x)


def _kernel(other: Any) -> Kernel:
    from credax.functions.kernels.closed import Constant

    if isinstance(other, Kernel):
        return other
    if isinstance(other, int | float) and not isinstance(other, bool):
        return Constant(float(other))
    raise InputError(
        f"a kernel meets a {type(other).__name__}; add or multiply kernels and positive numbers, "
        "others through credax.functions.kernels.as_kernel"
    )


def _agreed(first: Kernel, second: Kernel) -> int | None:
    one, other = first.columns, second.columns
    if None not in (one, other) and one != other:
        raise InputError(
            f"the kernels {type(first).__name__} and {type(second).__name__} have hyper-parameters "
            f"of {one} and {other} columns; give both as many as the inputs have"
        )
    return other if one is None else one


def to_positive(name: str, value: Any) -> Parameter:
    """The logarithm of a positive number or vector in float64, or an error that names it."""
    if isinstance(value, Tracer):
        return jnp.log(value)
    array = np.asarray(value, np.float64)
    if array.ndim > 1 or not np.all(np.isfinite(array) & (array > 0)):
        raise InputError(
            f"{name} is {value}; give a positive number, or one for each column of the inputs"
        )
    return np.log(array)
