"""Nested dicts with string keys: the one pytree the adapters hand out, so leaves have paths."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.tree_util as jtu
from jaxtyping import Array, PyTree

from credax.errors import InputError

Name = tuple[str, ...]


def name_of(path: tuple[Any, ...]) -> Name:
    """A JAX key path as strings.

    >>> [name_of(path) for path, _ in jtu.tree_leaves_with_path({"a": [1.0, 2.0]})]
    [('a', '0'), ('a', '1')]
    """
    return tuple(jtu.keystr((key,), simple=True) for key in path)


def nest(leaves: Mapping[Name, Any]) -> dict[str, Any]:
    """Leaves by name as nested dicts.

    >>> nest({("a", "0"): 1.0, ("a", "1"): 2.0})
    {'a': {'0': 1.0, '1': 2.0}}
    """
    tree: dict[str, Any] = {}
    for name, leaf in leaves.items():
        branch = tree
        for part in name[:-1]:
            branch = branch.setdefault(part, {})
        branch[name[-1]] = leaf
    return tree


def find(tree: Mapping[str, Any], name: Name) -> Any:
    """The leaf of that name, or the sentence that says it is missing."""
    branch: Any = tree
    for part in name:
        if not isinstance(branch, Mapping) or part not in branch:
            raise InputError(
                f"variables have no array '{'/'.join(name)}', which this network needs; give "
                "variables that came from this network's init"
            )
        branch = branch[part]
    return branch


def is_floating(leaf: Array | jax.ShapeDtypeStruct) -> bool:
    """Whether an array can be a parameter: real floating point."""
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def require_floating(params: PyTree, remedy: str) -> None:
    """Refuse parameters that no gradient method can move (integers, complex numbers, keys)."""
    for path, leaf in jtu.tree_leaves_with_path(params):
        if not is_floating(leaf):
            raise InputError(
                f"parameter '{'/'.join(name_of(path))}' has dtype {leaf.dtype}, "
                f"and only real floating-point arrays can be trained; {remedy}"
            )
