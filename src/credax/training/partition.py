"""Partition rules: which axis of which array of a network is divided over the ``"model"`` axis."""

import re
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from credax.errors import InputError
from credax.files import tree_names
from credax.posterior import Population
from credax.training.mesh import MODEL, automatic

Rules = Mapping[str, tuple[str | None, ...]]
"""Patterns of names of arrays (`credax.files.tree_names`); for each axis of an array that of the
mesh, or None where it is not divided."""


class Partition(eqx.Module):
    """Rules, in the order in which they are tried; arrays that none matches are not divided."""

    rules: tuple[tuple[str, tuple[str | None, ...]], ...] = eqx.field(static=True, default=())

    @classmethod
    def of(cls, rules: Rules | None) -> "Partition":
        """The rules of a user."""
        return cls(tuple((pattern, tuple(axes)) for pattern, axes in (rules or {}).items()))

    def specs(self, tree: PyTree) -> PyTree:
        """A partition of every array, which has a leading members axis.

        Names are searched, so what an optimiser keeps of an array is divided as the array is.
        """
        leaves, structure = jax.tree.flatten(tree)
        found = [self._spec(n, leaf) for n, leaf in zip(tree_names(tree), leaves, strict=True)]
        return jax.tree.unflatten(structure, found)

    def _spec(self, name: str, leaf: Any) -> PartitionSpec:
        for pattern, axes in self.rules:
            if re.search(pattern, name) and leaf.ndim == 1 + len(axes):
                return PartitionSpec("members", *axes)
        return PartitionSpec("members")

    def check(self, params: PyTree, mesh: Mesh) -> None:
        """Raise an error if rules do not fit the parameters of one network or the mesh."""
        if self.rules and MODEL not in mesh.axis_names:
            raise InputError(
                f"partition is given and the mesh has axes {mesh.axis_names}; give it an axis "
                f"'{MODEL}': jax.make_mesh(shape, ('members', 'data', '{MODEL}'))"
            )
        arrays = dict(zip(tree_names(params), jax.tree.leaves(params), strict=True))
        for pattern, axes in self.rules:
            _check_rule(pattern, axes, arrays, mesh)


def _check_rule(pattern: str, axes: tuple[str | None, ...], arrays: Any, mesh: Mesh) -> None:
    found = {name: leaf.shape for name, leaf in arrays.items() if re.search(pattern, name)}
    fits = {name: shape for name, shape in found.items() if len(shape) == len(axes)}
    if not fits:
        what = f"{next(iter(found))} has shape {found[next(iter(found))]}" if found else None
        raise InputError(
            f"partition has {pattern!r} for arrays of {len(axes)} axes and "
            f"{what or 'no array has such a name'}; names are {', '.join(list(arrays)[:6])}, ..."
        )
    for name, shape in fits.items():
        for axis, size in zip(axes, shape, strict=True):
            if axis not in (None, MODEL):
                raise InputError(
                    f"partition divides {name} over {axis!r}; give '{MODEL}' or None for each axis"
                )
            devices = 1 if axis is None else mesh.shape[axis]
            if size % devices:
                raise InputError(
                    f"partition divides an axis of {size} of {name} over {devices} devices; choose "
                    f"a width that is a multiple of {devices}, another axis or another mesh"
                )


def place(population: Population, mesh: Mesh, partition: Rules) -> Population:
    """A population with its members divided over devices, to predict with what fits on none alone.

    Args:
        population: as `credax.fit` returns it.
        mesh: as it was given to `credax.fit`.
        partition: as it was given to `credax.fit`.
    """
    rules, mesh = Partition.of(partition), automatic(mesh)
    rules.check(jax.tree.map(lambda leaf: leaf[0], population.variables.params), mesh)
    specs = rules.specs(population.variables)
    placed = jax.tree.map(
        lambda leaf, spec: jax.device_put(leaf, NamedSharding(mesh, spec)),
        population.variables,
        specs,
    )
    return eqx.tree_at(lambda p: p.variables, population, placed)
