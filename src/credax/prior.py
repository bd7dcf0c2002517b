"""Priors over parameters. The number of data is always an explicit argument."""

import math
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from credax.errors import InputError


@runtime_checkable
class Prior(Protocol):
    """A density over a parameter pytree."""

    def log_prob(self, params: PyTree, *, num_data: int) -> Float[Array, ""]:
        """Log-density, constants included."""
        ...

    def penalty(self, params: PyTree, *, num_data: int) -> Float[Array, ""]:
        """What a mean loss over ``num_data`` rows adds: ``-log p / num_data + constant``."""
        ...


@runtime_checkable
class TracedPrior(Protocol):
    """A prior whose numbers can be arrays: one compiled program serves all of them."""

    def traced(self) -> Prior:
        """The same prior with arrays for its numbers."""
        ...


Strength = float | np.ndarray | Array


def with_arrays(record: Any) -> Any:
    """A record with a (weakly typed) array in place of every Python float."""
    return jax.tree.map(lambda leaf: jnp.asarray(leaf) if type(leaf) is float else leaf, record)


class GaussianPrior(eqx.Module):
    """Isotropic Gaussian around zero, given by its precision or by a weight decay.

    A weight decay ``λ`` on the mean loss, ``loss + λ/2 |θ|²``, is the prior ``N(0, 1/(N λ))``:
    precision ``= N λ``. Exactly one of the two is given; weight decay 0 is the flat prior.

    >>> GaussianPrior(weight_decay=0.01).precision_for(num_data=500)
    5.0
    """

    precision: Strength | None = None
    weight_decay: Strength | None = None

    def __check_init__(self):
        if (self.precision is None) == (self.weight_decay is None):
            raise InputError(
                f"precision is {self.precision} and weight_decay is {self.weight_decay}; "
                "give exactly one of them"
            )
        value: Any = self.precision if self.weight_decay is None else self.weight_decay
        if isinstance(value, Tracer):
            return
        if not np.all(np.isfinite(value) & (np.asarray(value) >= 0)):
            raise InputError(f"the prior's strength is {value}; give a number that is not negative")

    def traced(self) -> "GaussianPrior":
        """The same prior with an array for its number, so that programs do not depend on it.

        The flat prior stays as it is: nothing is computed for it.
        """
        value = self.precision if self.weight_decay is None else self.weight_decay
        return self if type(value) is float and value == 0 else with_arrays(self)

    def precision_for(self, num_data: int) -> Any:
        """Precision of each parameter for so many rows of data."""
        return self.precision if self.precision is not None else self.weight_decay * num_data  # pyright: ignore[reportOptionalOperand]

    def log_prob(self, params, *, num_data):
        """``-τ/2 |θ|² + P/2 log(τ / 2π)``; the flat prior gives zero."""
        precision = self.precision_for(num_data)
        count = sum(leaf.size for leaf in jax.tree.leaves(params))
        if isinstance(precision, int | float):
            if precision == 0:
                return jnp.zeros(())
            constant = 0.5 * count * math.log(precision / (2 * math.pi))
            return constant - 0.5 * precision * _sum_of_squares(params)
        # Twice where: the derivative of the logarithm at zero must not reach the sum.
        flat = precision == 0
        constant = 0.5 * count * jnp.log(jnp.where(flat, 1.0, precision) / (2 * math.pi))
        return jnp.where(flat, 0.0, constant - 0.5 * precision * _sum_of_squares(params))

    def penalty(self, params, *, num_data) -> Any:
        """``λ/2 |θ|²`` with ``λ = τ/N``."""
        if self.precision is None and not isinstance(self.weight_decay, int | float):
            strength: Any = self.weight_decay
            return 0.5 * strength * _sum_of_squares(params)
        decay = self.precision_for(num_data) / num_data
        if isinstance(decay, int | float) and not decay:
            return jnp.zeros(())
        return 0.5 * decay * _sum_of_squares(params)


class ScaleMixturePrior(eqx.Module):
    """``π N(0, σ₁²) + (1 - π) N(0, σ₂²)`` on every parameter (Blundell et al. 2015)."""

    weight: float = 0.5
    first: float = 1.0
    second: float = 0.0025

    def traced(self) -> "ScaleMixturePrior":
        """The same prior with arrays for its numbers, so that programs do not depend on them."""
        return with_arrays(self)

    def __check_init__(self):
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(self)):
            return
        if not (0 < self.weight < 1 and self.first > 0 and self.second > 0):
            raise InputError(
                f"weight, first, second are {self.weight}, {self.first}, {self.second}; the weight "
                "lies strictly between 0 and 1 and both standard deviations are positive"
            )

    def log_prob(self, params, *, num_data):
        """Sum of the mixture's log-densities over all parameters."""
        return sum(
            (jnp.sum(self._log_density(leaf)) for leaf in jax.tree.leaves(params)), jnp.zeros(())
        )

    def penalty(self, params, *, num_data):
        """``-log p(θ) / N``."""
        return -self.log_prob(params, num_data=num_data) / num_data

    def _log_density(self, w):
        return jnp.logaddexp(
            _log(self.weight) + jax.scipy.stats.norm.logpdf(w, scale=self.first),
            _log(1 - self.weight, -self.weight) + jax.scipy.stats.norm.logpdf(w, scale=self.second),
        )


def _log(value, more=None):
    """The logarithm, or ``log1p(more)``; of Python numbers in double precision."""
    plain = isinstance(value, int | float)
    if more is not None:
        return math.log1p(more) if plain else jnp.log1p(more)
    return math.log(value) if plain else jnp.log(value)


def _sum_of_squares(params):
    return sum((jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(params)), jnp.zeros(()))
