"""The weights of each unit of a group as rows, dead units, and populations as host arrays."""

from typing import Any

import jax
import numpy as np

from credax.files import tree_names
from credax.network import Variables
from credax.structure.groups import Place, Structure, UnitGroup, place_of
from credax.structure.symmetry import frame, is_population
from credax.structure.views import MEMBERS, pieces

Arrays = dict[str, np.ndarray]


def host_arrays(structure: Structure, variables: Variables) -> Arrays:
    """Every array in float64 with a leading members axis (of one where there was none)."""
    members = is_population(structure, variables)
    arrays = {}
    for name, leaf in zip(tree_names(variables), jax.tree.leaves(variables), strict=True):
        array = np.asarray(leaf)
        if np.issubdtype(array.dtype, np.floating) or array.dtype.name == "bfloat16":
            array = array.astype(np.float64)
        arrays[name] = array if members else array[None]
    return arrays


def unit_rows(structure: Structure, arrays: Arrays, group: UnitGroup, places: list[Place]) -> Any:
    """All numbers at some places, ``[members, base..., units, numbers]`` in the arrays' order."""
    found = []
    for path in dict.fromkeys(place.path for place in places):
        labels, sizes = frame(structure, path, arrays[path], True)
        for view in pieces(arrays[path], labels, sizes):
            for axis, leaf in enumerate(view.leaves):
                if leaf is None or leaf.atom != group.atom or place_of(leaf) not in places:
                    continue
                front = [view.axis(MEMBERS), *(view.axis(a) for a in group.base), axis]
                rest = [i for i in range(view.array.ndim) if i not in front]
                array = view.array.transpose([*front, *rest])
                found.append(array.reshape(*array.shape[: len(front)], -1))
    return np.concatenate(found, -1)


def producer_places(structure: Structure, group: UnitGroup) -> list[Place]:
    """Where a group's incoming weights stand; without any, all but its consumers' places."""
    found = [o.place for o in group.occurrences if o.role == "output" and _learned(o.path)]
    if found:
        return found
    others = [o.place for o in group.occurrences if o.role != "input" and _learned(o.path)]
    return others or [o.place for o in group.occurrences]


def _learned(path: str) -> bool:
    return path.startswith("params")


def dead_units(structure: Structure, population: Any) -> dict[int, np.ndarray]:
    """By group, which units have only zeros coming in or only zeros going out.

    Boolean ``[members, base..., units]`` (no members axis for one network). Such units keep their
    scale in `canonicalise`, are left out of `minimum_mass`, and have symmetries of their own that
    nothing here removes. Groups without such units are left out.

    >>> import jax, credax as cx
    >>> network, x = cx.networks.MLP((3,), outputs=2), jax.ShapeDtypeStruct((2, 4), "float32")
    >>> variables = network.init(jax.random.key(0), x)
    >>> variables.params["0_dense"]["kernel"] = np.zeros((4, 3), np.float32)
    >>> dead_units(cx.structure.trace(network, variables, x), variables)[0].tolist()
    [True, True, True]
    """
    variables = getattr(population, "variables", population)
    arrays = host_arrays(structure, variables)
    members = is_population(structure, variables)
    found = {}
    for group in structure.groups:
        leaving = [o.place for o in group.occurrences if o.role == "input"]
        silent = ~unit_rows(structure, arrays, group, producer_places(structure, group)).any(-1)
        if leaving:
            silent = silent | ~unit_rows(structure, arrays, group, leaving).any(-1)
        if silent.any():
            found[group.id] = silent if members else silent[0]
    return found
