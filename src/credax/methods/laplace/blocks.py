"""Curvature block by block, and what a prior makes of it: roots of covariances.

A block holds the curvature of some weights, without prior, in double precision on the host. Its
``factor(scale, prior)`` is ``R`` with ``R Rᵀ = (scale H + prior)⁻¹``, in the network's precision.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.methods.laplace.spectra import eigenpairs


class DenseFactor(eqx.Module):
    """A triangular root ``[p, p]``."""

    root: Float[Array, "params params"]

    def half(self, rows: Float[Array, "... params"]) -> Array:
        """``rows R``: its squared length is the variance along a row."""
        return rows @ self.root

    def draw(self, noise: Float[Array, " params"]) -> Array:
        """``R noise``."""
        return self.root @ noise


class DiagonalFactor(eqx.Module):
    """Standard deviations."""

    std: Float[Array, " params"]

    def half(self, rows: Float[Array, "... params"]) -> Array:
        """``rows R``."""
        return rows * self.std

    def draw(self, noise: Float[Array, " params"]) -> Array:
        """``R noise``."""
        return self.std * noise


class LowRankFactor(eqx.Module):
    """``R = deviation (I - V diag(shrink) Vᵀ)``, symmetric."""

    vectors: Float[Array, "params rank"]
    shrink: Float[Array, " rank"]
    deviation: Float[Array, ""]

    def half(self, rows: Float[Array, "... params"]) -> Array:
        """``rows R``."""
        return self.deviation * (rows - ((rows @ self.vectors) * self.shrink) @ self.vectors.T)

    def draw(self, noise: Float[Array, " params"]) -> Array:
        """``R noise``."""
        return self.half(noise)


class KroneckerFactor(eqx.Module):
    """``R = (Q_A ⊗ Q_G) diag(deviation)`` on matrices ``[inputs, outputs]``."""

    inputs: Float[Array, "inputs inputs"]
    outputs: Float[Array, "outputs outputs"]
    deviation: Float[Array, "inputs outputs"]

    def draw(self, noise: Float[Array, " params"]) -> Array:
        """``R noise``, raveled."""
        noise = noise.reshape(self.deviation.shape)
        return (self.inputs @ (self.deviation * noise) @ self.outputs.T).ravel()

    def half(self, rows: Float[Array, "... params"]) -> Array:
        """``rows R`` for raveled matrices."""
        matrix = rows.reshape(*rows.shape[:-1], *self.deviation.shape)
        return ((self.inputs.T @ matrix @ self.outputs) * self.deviation).reshape(rows.shape)

    def covariance(
        self, a: Float[Array, "positions inputs"], g: Float[Array, "columns positions outputs"]
    ) -> Float[Array, "columns columns"]:
        """``J Σ Jᵀ`` for ``J_c = Σ_positions a g_cᵀ``, which one position never materialises."""
        a, g = a @ self.inputs, g @ self.outputs
        if len(a) == 1:
            scaled = g[:, 0] * jnp.sqrt(jnp.square(a[0]) @ jnp.square(self.deviation))
        else:
            rows = jnp.einsum("ti,cto->cio", a, g) * self.deviation
            scaled = rows.reshape(len(g), -1)
        return scaled @ scaled.T


class DenseBlock(eqx.Module):
    """The whole matrix ``[p, p]``."""

    matrix: Float[np.ndarray, "params params"]

    kind = "dense"

    def spectrum(self) -> np.ndarray:
        """Eigenvalues; negative ones are rounding."""
        return np.maximum(np.linalg.eigvalsh(self.matrix), 0.0)

    def log_det(self, scale: float, prior: Any) -> float:
        """``log det(scale H + prior)``."""
        return float(2 * np.sum(np.log(np.diag(self._cholesky(scale, prior)))))

    def factor(self, scale: float, prior: Any, dtype: Any) -> DenseFactor:
        """The transposed inverse of the precision's Cholesky factor."""
        lower = self._cholesky(scale, prior)
        inverse = scipy.linalg.solve_triangular(lower, np.eye(len(lower)), lower=True)
        return DenseFactor(jnp.asarray(inverse.T, dtype))

    def precision(self, scale: float, prior: Any) -> np.ndarray:
        """``scale H + prior``."""
        return scale * self.matrix + np.diag(np.broadcast_to(prior, len(self.matrix)))

    def _cholesky(self, scale, prior):
        try:
            return np.linalg.cholesky(self.precision(scale, prior))
        except np.linalg.LinAlgError as error:
            raise _not_positive(prior, scale * np.linalg.eigvalsh(self.matrix)[0]) from error


class DiagonalBlock(eqx.Module):
    """The diagonal only."""

    values: Float[np.ndarray, " params"]

    kind = "diagonal"

    def spectrum(self) -> np.ndarray:
        """The diagonal."""
        return self.values

    def log_det(self, scale: float, prior: Any) -> float:
        """``log det(scale H + prior)``."""
        return float(np.sum(np.log(self.precision(scale, prior))))

    def factor(self, scale: float, prior: Any, dtype: Any) -> DiagonalFactor:
        """One over the root of the precision."""
        return DiagonalFactor(jnp.asarray(1 / np.sqrt(self.precision(scale, prior)), dtype))

    def precision(self, scale: float, prior: Any) -> np.ndarray:
        """The diagonal of ``scale H + prior``."""
        precision = scale * self.values + prior
        if not np.all(precision > 0):
            raise _not_positive(prior, scale * float(np.min(self.values)))
        return precision


class LowRankBlock(eqx.Module):
    """Leading eigenpairs; the curvature of all other directions counts as zero."""

    vectors: Float[np.ndarray, "params rank"]
    values: Float[np.ndarray, " rank"]

    kind = "low-rank"

    def spectrum(self) -> np.ndarray:
        """All eigenvalues, zeros included."""
        return np.concatenate([self.values, np.zeros(len(self.vectors) - len(self.values))])

    def log_det(self, scale: float, prior: Any) -> float:
        """``log det(scale H + prior)`` for one prior precision."""
        return float(np.sum(np.log(scale * self.spectrum() + _one(prior))))

    def factor(self, scale: float, prior: Any, dtype: Any) -> LowRankFactor:
        """The symmetric root."""
        prior = _one(prior)
        shrink = 1 - np.sqrt(prior / (scale * self.values + prior))
        arrays = self.vectors, shrink, 1 / np.sqrt(prior)
        return LowRankFactor(*(jnp.asarray(a, dtype) for a in arrays))

    def precision(self, scale: float, prior: Any) -> np.ndarray:
        """``scale H + prior`` as a dense matrix (small networks only)."""
        low = (self.vectors * (scale * self.values)) @ self.vectors.T
        return low + _one(prior) * np.eye(len(low))


class Kronecker(eqx.Module):
    """``(1/N) A ⊗ G`` of one kernel by the eigenpairs of both, on matrices ``[inputs, outputs]``.

    ``(Q_A ⊗ Q_G)(λ_A λ_Gᵀ + prior)(Q_A ⊗ Q_G)ᵀ``: a prior precision is added exactly.
    """

    inputs: Float[np.ndarray, "inputs inputs"]
    input_values: Float[np.ndarray, " inputs"]
    outputs: Float[np.ndarray, "outputs outputs"]
    output_values: Float[np.ndarray, " outputs"]

    kind = "kronecker"

    @classmethod
    def of(
        cls,
        a: np.ndarray,
        g: np.ndarray,
        dtype: Any = np.float64,
        ranks: tuple[int, int] | None = None,
    ) -> "Kronecker":
        """From both factors, sums in ``dtype`` of so many (``ranks``) outer products each."""
        first, second = ranks or (len(a), len(g))
        return cls(*eigenpairs(a, dtype, first), *eigenpairs(g, dtype, second))

    def spectrum(self) -> np.ndarray:
        """All products of eigenvalues."""
        return np.outer(self.input_values, self.output_values).ravel()

    def log_det(self, scale: float, prior: Any) -> float:
        """``log det(scale H + prior)`` for one prior precision."""
        return float(np.sum(np.log(scale * self.spectrum() + _one(prior))))

    def factor(self, scale: float, prior: Any, dtype: Any) -> KroneckerFactor:
        """Both bases, and a standard deviation for each pair."""
        shape = len(self.input_values), len(self.output_values)
        deviation = 1 / np.sqrt(scale * self.spectrum() + _one(prior))
        arrays = self.inputs, self.outputs, deviation.reshape(shape)
        return KroneckerFactor(*(jnp.asarray(a, dtype) for a in arrays))

    def precision(self, scale: float, prior: Any) -> np.ndarray:
        """``scale H + prior`` as a dense matrix (small networks only)."""
        a = (self.inputs * self.input_values) @ self.inputs.T
        g = (self.outputs * self.output_values) @ self.outputs.T
        return scale * np.kron(a, g) + _one(prior) * np.eye(len(a) * len(g))


Block = DenseBlock | DiagonalBlock | LowRankBlock | Kronecker
Factor = DenseFactor | DiagonalFactor | LowRankFactor | KroneckerFactor
BLOCKS = {block.kind: block for block in (DenseBlock, DiagonalBlock, LowRankBlock, Kronecker)}


def shapes_of(block: Block) -> list[list[int]]:
    """The shapes of a block's arrays, for a file's metadata."""
    return [list(leaf.shape) for leaf in jax.tree.leaves(block)]


def template(kind: str, shapes: list[list[int]]) -> Block:
    """A block of shapes only, to read a file into."""
    structs: Any = [jax.ShapeDtypeStruct(tuple(shape), np.float64) for shape in shapes]
    return BLOCKS[kind](*structs)


def _one(prior: Any) -> float:
    prior = np.unique(np.asarray(prior, np.float64))
    if len(prior) > 1:
        raise InputError(
            "prior_precision differs within a Kronecker or low-rank block, which takes one value; "
            "use structure='full' or 'diagonal', or one value per array"
        )
    if not prior[0] > 0:
        raise _not_positive(prior[0])
    return float(prior[0])


def _not_positive(prior: Any, curvature: float = 0.0) -> InputError:
    least = float(np.min(prior))
    if least > 0 and curvature < 0:
        return InputError(
            f"the least eigenvalue of the curvature is {curvature:.3g} and the prior precision "
            f"{least:.3g}, so that the network is at no maximum of the posterior; train longer, "
            f"give a prior_precision above {-curvature:.3g}, or use curvature='ggn'"
        )
    return InputError(
        f"the posterior precision is not positive (prior precision {least:.3g}); give the problem "
        "a weight_decay, or Laplace a prior_precision such as 1.0 or 'evidence'"
    )
