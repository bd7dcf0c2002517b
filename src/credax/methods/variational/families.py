"""Families of Gaussians that variational inference fits: free numbers and their law."""

import math
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from credax.errors import InputError
from credax.laws import FullGaussian, Law, LowRankGaussian

LARGEST_FULL = 4000


class Family(Protocol):
    """From free numbers to a law, and the first of them."""

    def start(self, key: Any, mean: PyTree, scale: float) -> PyTree:
        """Free numbers of a law around ``mean`` with standard deviations ``scale``."""
        ...

    def law(self, free: PyTree) -> Law:
        """The law of free numbers."""
        ...


class LowRank(eqx.Module):
    """``N(μ, diag(softplus(ρ)²) + U Uᵀ)`` with ``rank`` columns; rank 0 is the mean field.

    A scale of zero stays zero: the law is then a point.
    """

    rank: int = 0
    point: bool = False

    def start(self, key, mean, scale):
        """Columns start at random with a tenth of the scale (at zero they would stay there)."""
        raw = math.log(math.expm1(scale)) if scale else 0.0
        keys = _keys_like(key, mean)
        columns = jax.tree.map(
            lambda k, m: 0.1 * scale * jax.random.normal(k, (self.rank, *m.shape), m.dtype),
            keys,
            mean,
        )
        free = {"mean": mean, "raw": jax.tree.map(lambda m: jnp.full_like(m, raw), mean)}
        return {**free, "columns": columns} if self.rank else free

    def law(self, free):
        """Diagonal and columns as they are."""
        spread = (lambda r: jnp.zeros_like(r)) if self.point else jax.nn.softplus
        std = jax.tree.map(spread, free["raw"])
        none = lambda m: jnp.zeros((0, *m.shape), m.dtype)  # noqa: E731
        columns = free["columns"] if self.rank else jax.tree.map(none, free["mean"])
        return LowRankGaussian(free["mean"], std, columns)


class Full(eqx.Module):
    """``N(μ, L Lᵀ)``, L lower-triangular with a diagonal ``softplus(raw)``: P (P + 1)/2 numbers."""

    def start(self, key, mean, scale):
        """A multiple of the identity."""
        size = ravel_pytree(mean)[0].size
        if size > LARGEST_FULL:
            raise InputError(
                f"the network has {size} parameters and a full covariance needs "
                f"{4 * size**2 / 1e9:.1f} GB a copy; up to {LARGEST_FULL} are allowed: use "
                "LowRankVI or MeanFieldVI"
            )
        raw = math.log(math.expm1(scale))
        flat = ravel_pytree(mean)[0]
        return {"mean": mean, "raw": raw * jnp.eye(size, dtype=flat.dtype)}

    def law(self, free):
        """The triangular factor."""
        raw = free["raw"]
        diagonal = jax.nn.softplus(jnp.diag(raw))
        return FullGaussian(free["mean"], jnp.tril(raw, -1) + jnp.diag(diagonal))


def _keys_like(key, tree):
    structure = jax.tree.structure(tree)
    return jax.tree.unflatten(structure, list(jax.random.split(key, structure.num_leaves)))
