"""Units that say nothing: no weights come in, or none go out."""

from typing import Any

import numpy as np

from credax.structure.groups import Structure
from credax.structure.rows import host_arrays, producer_places, unit_rows
from credax.structure.symmetry import is_population


def silent_units(structure: Structure, population: Any) -> dict[int, np.ndarray]:
    """By group, which units have only zeros coming in or only zeros going out.

    Boolean ``[members, base..., units]`` (no members axis for one network). Such units keep their
    scale in `canonicalise`, are left out of `minimum_mass`, and have symmetries of their own that
    nothing here removes. Groups without such units are left out.

    >>> import jax, credax as cx
    >>> network, x = cx.networks.MLP((3,), outputs=2), jax.ShapeDtypeStruct((2, 4), "float32")
    >>> variables = network.init(jax.random.key(0), x)
    >>> variables.params["0_dense"]["kernel"] = np.zeros((4, 3), np.float32)
    >>> silent_units(cx.structure.trace(network, variables, x), variables)[0].tolist()
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
