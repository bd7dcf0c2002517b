"""The metric in which unit input gradients are compared: identity, data PCA, and mixes of the two.

A metric is a positive semi-definite matrix ``S``; ``|a - b|²_S = (a - b)^T S (a - b)``. It is never
needed as a matrix: `project` gives two sets of coordinates whose inner products are ``a^T S b``,
and `lift` takes a combination of the second ones back to the input space.
"""

from typing import Literal, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from credax.data.pca import Components
from credax.errors import InputError

Mixing = Literal["inverse", "linear"]
HIGHEST = jax.lax.Precision.HIGHEST


class InputMetric(Protocol):
    """How directions in the input space are weighed."""

    def project(self, s: Float[Array, "*batch inputs"]) -> tuple[Array, Array]:
        """Left and right coordinates with ``left(a) . right(b) = a^T S b``."""
        ...

    def lift(self, mixed: Float[Array, "*batch coordinates"]) -> Float[Array, "*batch inputs"]:
        """``Σ c_j S s_j`` from ``Σ c_j right(s_j)``."""
        ...

    def mean_weight(self, dimension: int) -> float | Array:
        """Mean eigenvalue of S over so many input coordinates."""
        ...


class Identity(eqx.Module):
    """``S = I``: all directions alike."""

    def project(self, s):
        """The vectors themselves."""
        return s, s

    def lift(self, mixed):
        """Nothing to do."""
        return mixed

    def mean_weight(self, dimension: int):
        """One."""
        return 1.0


class DenseMetric(eqx.Module):
    """``S`` as a matrix: one product, best when nearly all directions are kept."""

    matrix: Float[Array, "inputs inputs"]

    def project(self, s):
        """The vectors and their images under S."""
        return s, jnp.matmul(s, self.matrix, precision=HIGHEST)

    def lift(self, mixed):
        """Images under S are in the input space already."""
        return mixed

    def mean_weight(self, dimension: int):
        """The trace over the dimension."""
        return jnp.trace(self.matrix) / dimension


class Factored(eqx.Module):
    """``S = U diag(w - c) U^T + c I`` with few columns: two thin products."""

    vectors: Float[Array, "inputs rank"]
    weights: Float[Array, " rank"]
    rest: float = eqx.field(default=0.0, static=True)

    def project(self, s):
        """Coordinates along U scaled by sqrt(w), or images under S where the rest counts."""
        if self.rest:
            along = self._along(s) * (self.weights - self.rest)
            return s, jnp.matmul(along, self.vectors.T, precision=HIGHEST) + self.rest * s
        q = self._along(s) * self.weights**0.5
        return q, q

    def _along(self, s):
        return jnp.matmul(s, self.vectors, precision=HIGHEST)

    def lift(self, mixed):
        """Back to the input space."""
        if self.rest:
            return mixed
        return jnp.matmul(mixed * self.weights**0.5, self.vectors.T, precision=HIGHEST)

    def mean_weight(self, dimension: int):
        """The trace over the dimension."""
        return (jnp.sum(self.weights) + self.rest * (dimension - len(self.weights))) / dimension


class Graph(eqx.Module):
    """A metric with one more coordinate, weighed by the mean of the others' weights."""

    inner: InputMetric

    def project(self, s):
        """The coordinates of the inputs, and the extra one."""
        left, right = self.inner.project(s[..., :-1])
        extra = s[..., -1:]
        weighed = extra * self.inner.mean_weight(s.shape[-1] - 1)
        return jnp.concatenate([left, extra], -1), jnp.concatenate([right, weighed], -1)

    def lift(self, mixed):
        """Back to the inputs and the extra coordinate."""
        return jnp.concatenate([self.inner.lift(mixed[..., :-1]), mixed[..., -1:]], -1)

    def mean_weight(self, dimension: int):
        """The inner metric's."""
        return self.inner.mean_weight(dimension)


def mix_spectrum(values: np.ndarray, share: float, mixing: Mixing) -> np.ndarray:
    """Weights of the tuned metric: identity at share 0, PCA at share 1.

    ``inverse``: ``λ / (a + (1 - a) λ)`` (the paper's appendix D.4); ``linear``: ``(1 - a) + a λ``
    (its web page).
    """
    values = np.asarray(values, np.float64)
    if share == 0:
        return np.ones_like(values)
    if mixing == "linear":
        return (1 - share) + share * values
    return values / (share + (1 - share) * values)


def metric_from(
    components: Components,
    share: float = 1.0,
    mixing: Mixing = "inverse",
    residual: Literal["drop", "mean"] = "drop",
    unit_spectrum: bool = False,
) -> InputMetric:
    """The metric of data whose principal components are given.

    All components kept become one matrix, few become factors. Truncation at rank ``r`` changes a
    squared distance of unit vectors by at most ``4 w_{r+1}`` (``residual="drop"``), or
    ``2 (w_{r+1} - w_D)`` with the mean of the rest kept (``residual="mean"``).
    """
    if share == 0:
        return Identity()
    weights = mix_spectrum(components.values / _unit(components, unit_spectrum), share, mixing)
    rank, dimension = len(weights), components.dimension
    rest = 0.0
    if rank < dimension and residual == "mean":
        rest = float(_outside(components, share, mixing, unit_spectrum).mean())
    if rank <= dimension // 2:
        return Factored(jnp.asarray(components.vectors), jnp.asarray(weights), rest)
    vectors = np.asarray(components.vectors, np.float64)
    matrix = (vectors * (weights - rest)) @ vectors.T + rest * np.eye(dimension)
    return DenseMetric(jnp.asarray(matrix))


def _unit(components: Components, unit_spectrum: bool) -> float:
    """What eigenvalues are measured in: their mean, or one."""
    return components.total / components.dimension if unit_spectrum else 1.0


def _outside(components: Components, share: float, mixing: Mixing, unit_spectrum: bool):
    """Greatest and least weight of the directions that were cut."""
    ends = np.array([components.next_value, components.last_value])
    return mix_spectrum(ends / _unit(components, unit_spectrum), share, mixing)


def dense_metric(
    moment: Float[np.ndarray, "inputs inputs"], share: float, mixing: Mixing
) -> DenseMetric:
    """The full metric straight from the second moment, without any eigenvectors (float64).

    PCA: ``S = C``; linear mix ``(1 - a) I + a C``; inverse mix ``C (a I + (1 - a) C)^-1`` by a
    Cholesky solve.
    """
    dimension = len(moment)
    if mixing == "linear" or share in (0.0, 1.0):
        matrix = (1 - share) * np.eye(dimension) + share * moment
    else:
        below = share * np.eye(dimension) + (1 - share) * moment
        matrix = scipy.linalg.cho_solve(scipy.linalg.cho_factor(below), moment)
    return DenseMetric(jnp.asarray(0.5 * (matrix + matrix.T)))


def check_share(lengthscale: float) -> float:
    """A tuned lengthscale lies between the identity (0) and PCA (1)."""
    if not 0 <= lengthscale <= 1:
        raise InputError(
            f"lengthscale is {lengthscale}; give 'pca', 'identity' or a number from 0 to 1"
        )
    return float(lengthscale)
