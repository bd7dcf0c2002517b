"""Families of Gaussians that variational inference fits, by unconstrained parameters."""

import math
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from credax.errors import InputError
from credax.gaussians import FullGaussian, LowRankGaussian, WeightGaussian

LARGEST_FULL = 4000


class Family(Protocol):
    """A Gaussian as a function of unconstrained parameters, and their initial values."""

    def start(self, key: Any, mean: PyTree, scale: float) -> PyTree:
        """Unconstrained parameters of ``N(mean, scale²)``, ``scale`` a standard deviation."""
        ...

    def gaussian(self, free: PyTree) -> WeightGaussian:
        """The Gaussian of unconstrained parameters."""
        ...


class LowRank(eqx.Module):
    """``N(μ, diag(softplus(ρ)²) + U Uᵀ)`` with ``rank`` columns; rank 0 is the mean field.

    A scale of zero stays zero: the Gaussian is then a point.
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

    def gaussian(self, free):
        """Diagonal and columns as they are."""
        transform = (lambda r: jnp.zeros_like(r)) if self.point else jax.nn.softplus
        std = jax.tree.map(transform, free["raw"])
        none = lambda m: jnp.zeros((0, *m.shape), m.dtype)  # noqa: E731
        columns = free["columns"] if self.rank else jax.tree.map(none, free["mean"])
        return LowRankGaussian(free["mean"], std, columns)


class Full(eqx.Module):
    """``N(μ, L Lᵀ)``, ``L = diag(softplus(raw)) + below / √P`` lower-triangular.

    A step in ``below`` changes a weight by a sum of P terms ``ε_j²``; the factor ``1/√P`` (once in
    the gradient, once in L) makes that sum a mean, so that one learning rate fits every size.
    """

    def start(self, key, mean, scale):
        """A multiple of the identity."""
        size = ravel_pytree(mean)[0].size
        if size > LARGEST_FULL:
            raise InputError(
                f"the network has {size} parameters and a full covariance needs "
                f"{4 * size**2 / 1e9:.1f} GB per copy; up to {LARGEST_FULL} are allowed: use "
                "LowRankVI or MeanFieldVI"
            )
        dtype = jax.tree.leaves(mean)[0].dtype
        raw = jnp.full(size, math.log(math.expm1(scale)), dtype)
        return {"mean": mean, "raw": raw, "below": jnp.zeros((size, size), dtype)}

    def gaussian(self, free):
        """The triangular factor."""
        below = jnp.tril(free["below"], -1) / math.sqrt(len(free["raw"]))
        return FullGaussian(free["mean"], below + jnp.diag(jax.nn.softplus(free["raw"])))


def _keys_like(key, tree):
    structure = jax.tree.structure(tree)
    return jax.tree.unflatten(structure, list(jax.random.split(key, structure.num_leaves)))
