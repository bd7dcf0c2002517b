"""Which weights have a posterior: all, those of the last layer, arrays by name, single entries."""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from credax.errors import InputError
from credax.files import tree_names
from credax.network import Variables
from credax.problem import Problem


class Subset(eqx.Module):
    """Arrays of a network's weights as one vector: raveled, in the order of ``names``.

    ``entries`` picks single numbers of that vector; None takes all.
    """

    names: tuple[str, ...]
    entries: Int[Array, " params"] | None = None

    def take(self, weights: PyTree) -> Float[Array, " params"]:
        """The vector."""
        arrays = named(weights)
        flat = jnp.concatenate([jnp.ravel(arrays[name]) for name in self.names])
        return flat if self.entries is None else flat[self.entries]

    def put(self, weights: PyTree, vector: Float[Array, " params"]) -> PyTree:
        """The weights with the vector in its place."""
        arrays = named(weights)
        if self.entries is not None:
            whole = jnp.concatenate([jnp.ravel(arrays[name]) for name in self.names])
            vector = whole.at[self.entries].set(vector)
        start = 0
        for name in self.names:
            size = arrays[name].size
            arrays[name] = vector[start : start + size].reshape(arrays[name].shape)
            start += size
        return jax.tree.unflatten(jax.tree.structure(weights), list(arrays.values()))

    def size(self, weights: PyTree) -> int:
        """How many numbers the vector has."""
        if self.entries is not None:
            return len(self.entries)
        arrays = named(weights)
        return sum(math.prod(arrays[name].shape) for name in self.names)


def named(weights: PyTree) -> dict[str, Any]:
    """The arrays of a pytree by name, in its order."""
    return dict(zip(tree_names(weights), jax.tree.leaves(weights), strict=True))


def with_weights(problem: Problem, variables: Variables, weights: PyTree) -> Variables:
    """The variables with other weights; a learned noise level stays."""
    likelihood = problem.likelihood
    return Variables(likelihood.join(weights, likelihood.own(variables.params)), variables.state)


def matching(weights: PyTree, wanted: Sequence[str]) -> tuple[str, ...]:
    """The names that equal one of ``wanted`` or lie below it."""
    names = tree_names(weights)
    for name in wanted:
        if not any(_below(known, name) for known in names):
            raise InputError(
                f"leaves has {name!r} and the network has no such array; choose from "
                f"{', '.join(names[:6])}{', ...' if len(names) > 6 else ''}"
            )
    return tuple(n for n in names if any(_below(n, name) for name in wanted))


def _below(known: str, name: str) -> bool:
    return known == name or known.startswith(name.rstrip("/") + "/")


def smallest(values: np.ndarray, count: int) -> np.ndarray:
    """Positions of the ``count`` smallest values, rising; ties go to the first."""
    if count > len(values):
        raise InputError(
            f"size is {count} and the network has {len(values)} weights; give at most so many"
        )
    return np.sort(np.argsort(values, kind="stable")[:count])
