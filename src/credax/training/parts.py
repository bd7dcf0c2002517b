"""Checkpoints in parts: each process writes what its devices hold, and nobody gathers the whole.

An array's part is named ``name|start,start,...`` by where it begins along each axis. Parts that
several processes hold are written by one of them.
"""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from credax.errors import DamagedFile
from credax.files import tree_names


def own_parts(tree: PyTree, first: bool) -> dict[str, np.ndarray]:
    """What this process writes of arrays; those on its host alone only if it is the ``first``."""
    found = {}
    for name, leaf in zip(tree_names(tree), jax.tree.leaves(tree), strict=True):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
            if first:
                found[_named(name, (0,) * np.ndim(leaf))] = np.asarray(leaf)
            continue
        for shard in leaf.addressable_shards:
            if shard.replica_id == 0:
                starts = tuple(part.start or 0 for part in shard.index)
                found[_named(name, starts)] = np.asarray(shard.data)
    return found


def _named(name: str, starts: tuple[int, ...]) -> str:
    return f"{name}|{','.join(map(str, starts))}"


def assembled(parts: Iterable[dict[str, np.ndarray]], path: Any) -> dict[str, np.ndarray]:
    """Whole arrays by name from the parts of all processes."""
    pieces: dict[str, list[tuple[tuple[int, ...], np.ndarray]]] = {}
    for arrays in parts:
        for key, array in arrays.items():
            name, _, text = key.rpartition("|")
            found = text.split(",") if text else []
            starts = tuple(int(one) for one in found if one.isdecimal())
            if not len(starts) == len(found) == array.ndim:
                raise DamagedFile(f"{path} has parts that are none; remove the checkpoint")
            pieces.setdefault(name, []).append((starts, array))
    return {name: _joined(each, name, path) for name, each in pieces.items()}


def _joined(pieces: list[tuple[tuple[int, ...], np.ndarray]], name: str, path: Any) -> np.ndarray:
    ends = [[s + n for s, n in zip(starts, a.shape, strict=True)] for starts, a in pieces]
    whole = np.empty([max(each) for each in zip(*ends, strict=True)], pieces[0][1].dtype)
    if sum(array.size for _, array in pieces) != whole.size:
        raise DamagedFile(f"{path} lacks parts of {name}; remove the checkpoint to begin again")
    for (starts, array), stops in zip(pieces, ends, strict=True):
        whole[tuple(slice(s, e) for s, e in zip(starts, stops, strict=True))] = array
    return whole
