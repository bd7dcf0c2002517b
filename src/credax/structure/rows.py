"""The numbers that belong to each unit of a group, as rows; and populations as host arrays."""

from typing import Any

import jax
import numpy as np

from credax.files import tree_names
from credax.network import Variables
from credax.structure.groups import Group, Place, Structure, place_of
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


def unit_rows(structure: Structure, arrays: Arrays, group: Group, places: list[Place]) -> Any:
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


def producer_places(structure: Structure, group: Group) -> list[Place]:
    """Where a group's incoming weights stand; without any, all but its consumers' places."""
    found = [o.place for o in group.occurrences if o.role == "output" and _learned(o.path)]
    if found:
        return found
    others = [o.place for o in group.occurrences if o.role != "input" and _learned(o.path)]
    return others or [o.place for o in group.occurrences]


def _learned(path: str) -> bool:
    return path.startswith("params")
