"""A network some of whose parameters are frozen: the others are all that training sees."""

import fnmatch
import re
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from credax.errors import InputError
from credax.files import tree_names
from credax.network import Network, Variables

Filter = str | re.Pattern | tuple[str, ...] | list[str] | Callable[[str, Any], bool]


class PartlyTrained(eqx.Module):
    """A network whose ``frozen`` arrays, by name, and ``state`` keep their values.

    ``params`` hold the other arrays only, by name: so no method updates the frozen ones, no prior
    and no weight decay covers them, and members share one copy. The network runs in evaluation
    mode: running statistics stay as they are, and dropout is off. `freeze` makes it.
    """

    network: Network
    frozen: dict[str, Array]
    state: PyTree
    names: tuple[str, ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    def init(self, key, x) -> Variables:
        """The trainable part of the network's variables; there is no state to carry."""
        return Variables(self.kept(self.network.init(key, x).params), {})

    def apply(self, variables, x, *, key=None, train=False) -> tuple[Array, PyTree]:
        """The network's outputs in evaluation mode."""
        whole = Variables(self.joined(variables.params), self.state)
        return self.network.apply(whole, x, key=key, train=False)[0], variables.state

    def kept(self, params: PyTree) -> dict[str, Any]:
        """The trainable arrays of all parameters, by name; those alone are returned as they are."""
        arrays = _named(params)
        return {name: leaf for name, leaf in arrays.items() if name not in self.frozen}

    def joined(self, params: Mapping[str, Any]) -> PyTree:
        """All parameters, from the trainable ones."""
        arrays = {**self.frozen, **params}
        return jax.tree.unflatten(self.structure, [arrays[name] for name in self.names])


def freeze(network: Network, variables: Any, trainable: Filter) -> PartlyTrained:
    """The network with all parameters frozen at ``variables`` but those that ``trainable`` names.

    ``trainable`` is a name or the beginning of one (``"1_dense"``), a pattern with ``*``, several
    of them, a compiled regular expression, or a function ``(name, array) -> bool``; names are
    paths such as ``1_dense/kernel``.

    >>> import credax as cx
    >>> network = cx.networks.MLP((4,), outputs=2)
    >>> variables = network.init(jax.random.key(0), jnp.zeros((1, 3)))
    >>> sorted(freeze(network, variables, "1_dense").init(jax.random.key(1), jnp.zeros((1, 3)))[0])
    ['1_dense/bias', '1_dense/kernel']
    """
    params, state = variables if isinstance(variables, Variables) else (variables, {})
    arrays = _named(params)
    chosen = {name for name, leaf in arrays.items() if _matches(trainable, name, leaf)}
    names = ", ".join(list(arrays)[:6]) + (", ..." if len(arrays) > 6 else "")
    if not chosen:
        raise InputError(
            f"trainable is {trainable!r} and no array has such a name; choose from {names}"
        )
    for pattern in _patterns(trainable):
        if not any(_matches(pattern, name, leaf) for name, leaf in arrays.items()):
            raise InputError(
                f"trainable has {pattern!r} and no array has such a name; choose from {names}"
            )
    frozen = {name: jnp.asarray(leaf) for name, leaf in arrays.items() if name not in chosen}
    state = jax.tree.map(jnp.asarray, state)
    return PartlyTrained(network, frozen, state, tuple(arrays), jax.tree.structure(params))


def _patterns(trainable: Filter) -> tuple[Any, ...]:
    return tuple(trainable) if isinstance(trainable, tuple | list) else ()


def _matches(trainable: Any, name: str, leaf: Any) -> bool:
    if isinstance(trainable, tuple | list):
        return any(_matches(pattern, name, leaf) for pattern in trainable)
    if isinstance(trainable, re.Pattern):
        return trainable.search(name) is not None
    if isinstance(trainable, str):
        below = name == trainable or name.startswith(f"{trainable}/")
        return below or fnmatch.fnmatchcase(name, trainable)
    if callable(trainable):
        return bool(trainable(name, leaf))
    raise InputError(
        f"trainable is a {type(trainable).__name__}; give a name, a pattern, several of them, or "
        "a function (name, array) -> bool"
    )


def _named(params: PyTree) -> dict[str, Any]:
    return dict(zip(tree_names(params), jax.tree.leaves(params), strict=True))
