"""Gaussians over a parameter pytree: diagonal plus shared low-rank columns, or full covariance.

A record holds one mode's arrays; several modes are the same record with a leading axis on every
leaf.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key, PyTree

_LOG_2PI = math.log(2 * math.pi)


class LowRankGaussian(eqx.Module):
    """``θ = mean + std z₁ + Σ_k columns_k z₂ₖ``: covariance ``diag(std²) + U Uᵀ``.

    ``columns`` has a leading axis of length K on every leaf (K may be 0: a diagonal Gaussian). One
    ``z₂`` is shared by all leaves, which is the covariance between them. Cost of a draw: O(K P).
    """

    mean: PyTree
    std: PyTree
    columns: PyTree

    kind = "low-rank"

    def draw(self, key: Key[Array, ""]) -> PyTree:
        """One set of parameters."""
        own, shared = jax.random.split(key)
        mean, structure = jax.tree.flatten(self.mean)
        keys = jax.random.split(own, len(mean))
        columns, std = jax.tree.leaves(self.columns), jax.tree.leaves(self.std)
        z = jax.random.normal(shared, columns[0].shape[:1], mean[0].dtype)
        drawn = [
            m + s * jax.random.normal(k, m.shape, m.dtype) + jnp.tensordot(z, c, 1)
            for m, s, c, k in zip(mean, std, columns, keys, strict=True)
        ]
        return jax.tree.unflatten(structure, drawn)

    def log_prob(self, params: PyTree) -> Float[Array, ""]:
        """Log-density, by the capacitance matrix ``I + Uᵀ D⁻¹ U``: O(K² P)."""
        std, columns = self._flat()
        gap = (ravel_pytree(params)[0] - ravel_pytree(self.mean)[0]) / std
        scaled = columns / std
        factor = jnp.linalg.cholesky(jnp.eye(len(scaled)) + scaled @ scaled.T)
        inner = jax.scipy.linalg.solve_triangular(factor, scaled @ gap, lower=True)
        squared = jnp.sum(gap**2) - jnp.sum(inner**2)
        log_det = 2 * jnp.sum(jnp.log(std)) + 2 * jnp.sum(jnp.log(jnp.diag(factor)))
        return -0.5 * (squared + log_det + std.size * _LOG_2PI)

    def entropy(self) -> Float[Array, ""]:
        """Differential entropy, ``(P (1 + log 2π) + log det Σ) / 2``."""
        std, columns = self._flat()
        scaled = columns / std
        inner = jnp.linalg.slogdet(jnp.eye(len(scaled)) + scaled @ scaled.T)[1]
        return 0.5 * (std.size * (1 + _LOG_2PI) + inner) + jnp.sum(jnp.log(std))

    def second_moment(self) -> Float[Array, ""]:
        """``E |θ|²``: squared mean plus the trace of the covariance."""
        parts = (self.mean, self.std, self.columns)
        return sum((jnp.sum(jnp.square(a)) for a in jax.tree.leaves(parts)), jnp.zeros(()))

    def covariance(self) -> Float[Array, "params params"]:
        """The dense covariance, in the order of `ravel_pytree` (small networks only)."""
        std, columns = self._flat()
        return jnp.diag(std**2) + columns.T @ columns

    def _flat(self):
        columns = [
            c.reshape(c.shape[0], math.prod(c.shape[1:])) for c in jax.tree.leaves(self.columns)
        ]
        return ravel_pytree(self.std)[0], jnp.concatenate(columns, axis=1)

    def describe(self) -> dict:
        """What `template` needs, as JSON."""
        return {"rank": jax.tree.leaves(self.columns)[0].shape[1]}

    @staticmethod
    def template(params: PyTree, modes: int, rank: int) -> "LowRankGaussian":
        """Shapes of a stacked Gaussian for such parameters, to read a file into."""

        def shapes(*lead):
            return jax.tree.map(
                lambda p: jax.ShapeDtypeStruct((modes, *lead, *p.shape), p.dtype), params
            )

        return LowRankGaussian(shapes(), shapes(), shapes(rank))


class FullGaussian(eqx.Module):
    """``θ = mean + L z``: covariance ``L Lᵀ`` with a lower-triangular ``factor`` L ``[P, P]``.

    The order of parameters is that of `jax.flatten_util.ravel_pytree`. Cost of a draw: O(P²).
    """

    mean: PyTree
    factor: Float[Array, "params params"]

    kind = "full"

    def draw(self, key: Key[Array, ""]) -> PyTree:
        """One set of parameters."""
        flat, build = ravel_pytree(self.mean)
        return build(flat + self.factor @ jax.random.normal(key, flat.shape, flat.dtype))

    def log_prob(self, params: PyTree) -> Float[Array, ""]:
        """Log-density, by the triangular factor: O(P²)."""
        gap = ravel_pytree(params)[0] - ravel_pytree(self.mean)[0]
        white = jax.scipy.linalg.solve_triangular(self.factor, gap, lower=True)
        log_det = 2 * jnp.sum(jnp.log(jnp.abs(jnp.diag(self.factor))))
        return -0.5 * (jnp.sum(white**2) + log_det + gap.size * _LOG_2PI)

    def entropy(self) -> Float[Array, ""]:
        """Differential entropy, ``P (1 + log 2π) / 2 + Σ log |L_ii|``."""
        diagonal = jnp.diag(self.factor)
        return 0.5 * len(diagonal) * (1 + _LOG_2PI) + jnp.sum(jnp.log(jnp.abs(diagonal)))

    def second_moment(self) -> Float[Array, ""]:
        """``E |θ|²``: squared mean plus the trace of the covariance."""
        return jnp.sum(jnp.square(ravel_pytree(self.mean)[0])) + jnp.sum(jnp.square(self.factor))

    def covariance(self) -> Float[Array, "params params"]:
        """The dense covariance."""
        return self.factor @ self.factor.T

    def describe(self) -> dict:
        """What `template` needs, as JSON."""
        return {}

    @staticmethod
    def template(params: PyTree, modes: int) -> "FullGaussian":
        """Shapes of a stacked Gaussian for such parameters, to read a file into."""
        leaves = jax.tree.leaves(params)
        size = sum(math.prod(leaf.shape) for leaf in leaves)
        mean = jax.tree.map(lambda p: jax.ShapeDtypeStruct((modes, *p.shape), p.dtype), params)
        factor: Any = jax.ShapeDtypeStruct((modes, size, size), leaves[0].dtype)
        return FullGaussian(mean, factor)


WeightGaussian = LowRankGaussian | FullGaussian
GAUSSIANS = {gaussian.kind: gaussian for gaussian in (LowRankGaussian, FullGaussian)}
