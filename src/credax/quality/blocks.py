"""Weights of a population, a slice of coordinates at a time: what all comparisons here read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Float

from credax.errors import InputError
from credax.files import tree_names
from credax.network import Variables


@runtime_checkable
class Blocks(Protocol):
    """A population that can be read in slices, from memory or from disk.

    Every array of a member is a flat run of coordinates; ``read`` gives some of them for all
    members. `credax.zoo.Zoo` is one; `as_blocks` makes one of a `Population` or of arrays.
    """

    @property
    def members(self) -> int:
        """How many networks there are."""
        ...

    @property
    def paths(self) -> Mapping[str, int]:
        """The arrays by name, each with its number of coordinates, in a fixed order."""
        ...

    def read(self, path: str, coordinates: slice) -> Float[np.ndarray, "members coordinates"]:
        """Some coordinates of one array, for all members."""
        ...


@dataclass(frozen=True)
class ArrayBlocks:
    """Arrays in memory, ``[members, ...]`` each."""

    arrays: Mapping[str, np.ndarray]

    @property
    def members(self) -> int:
        """How many networks there are."""
        return len(next(iter(self.arrays.values())))

    @property
    def paths(self) -> dict[str, int]:
        """The arrays by name with their number of coordinates."""
        return {name: array[0].size for name, array in self.arrays.items()}

    def read(self, path: str, coordinates: slice) -> np.ndarray:
        """Some coordinates of one array, for all members."""
        array = self.arrays[path]
        return array.reshape(len(array), -1)[:, coordinates]


def as_blocks(source: Any, *, include_state: bool = False) -> Blocks:
    """A population as `Blocks`: one already, a `Population`, `Variables`, a mapping or an array.

    Of variables only ``params`` are taken unless ``include_state``. A single array
    ``[members, ...]`` is called ``"x"``. Nothing is copied.

    >>> as_blocks(np.zeros((5, 2, 3))).paths
    {'x': 6}
    """
    if isinstance(source, Blocks):
        return source
    variables = getattr(source, "variables", source)
    if isinstance(variables, Variables):
        tree = variables if include_state else variables.params
        leaves = map(np.asarray, jax.tree.leaves(tree))
        arrays = dict(zip(tree_names(tree), leaves, strict=True))
    elif isinstance(variables, Mapping):
        arrays = {name: np.asarray(array) for name, array in variables.items()}
    else:
        arrays = {"x": np.asarray(variables)}
    counts = {array.shape[0] if array.ndim else None for array in arrays.values()}
    if len(counts) != 1 or None in counts or 0 in counts:
        raise InputError(
            "a population must be arrays with the same, non-zero number of members on the first "
            f"axis; got shapes {[a.shape for a in arrays.values()][:4]}"
        )
    return ArrayBlocks(arrays)


def common_paths(x: Blocks, y: Blocks) -> dict[str, int]:
    """The arrays of both, or one sentence that says where they differ."""
    if dict(x.paths) != dict(y.paths):
        odd = [name for name in {**x.paths, **y.paths} if x.paths.get(name) != y.paths.get(name)]
        raise InputError(
            f"the two populations are not of one network: array {odd[0]!r} has "
            f"{x.paths.get(odd[0], 'no')} coordinates in x and {y.paths.get(odd[0], 'no')} in y"
        )
    return dict(x.paths)
