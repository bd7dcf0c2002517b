"""Networks written in other libraries, as `credax.network.Network`.

One file a library, and no library is imported before its adapter is called. Every adapter keeps
the same promises: ``init`` runs under ``jax.vmap`` over keys, under ``jax.eval_shape`` and with a
``jax.ShapeDtypeStruct`` for ``x``; ``apply`` is pure; ``params`` holds floating-point arrays only;
``params`` and ``state`` are nested dicts with string keys, so every array has a path to be saved
under.
"""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Key, PyTree

from credax.adapters.calling import accepts, kind
from credax.adapters.equinox import EquinoxNetwork, from_equinox
from credax.adapters.flax_linen import LinenNetwork, from_linen
from credax.adapters.flax_nnx import NnxNetwork, from_nnx
from credax.adapters.haiku import HaikuNetwork, from_haiku
from credax.errors import InputError
from credax.network import FunctionNetwork

__all__ = [
    "EquinoxNetwork",
    "HaikuNetwork",
    "LinenNetwork",
    "NnxNetwork",
    "from_equinox",
    "from_function",
    "from_haiku",
    "from_linen",
    "from_nnx",
]


def from_function(
    initialise: Callable[[Key[Array, ""], Any], PyTree],
    function: Callable[[PyTree, Array], Array],
) -> FunctionNetwork:
    """A pair of plain functions as a network, without state, dropout or a training mode.

    - ``initialise(key, x) -> params``, where ``x`` may be a ``jax.ShapeDtypeStruct``: read its
      shape and dtype, not its values.
    - ``function(params, x) -> outputs``, batched: both have a leading ``batch`` axis.

    >>> import jax, jax.numpy as jnp
    >>> line = from_function(lambda key, x: {"w": jnp.ones(x.shape[-1])}, lambda p, x: x @ p["w"])
    >>> variables = line.init(jax.random.key(0), jax.ShapeDtypeStruct((1, 3), jnp.float32))
    >>> line.apply(variables, jnp.ones((2, 3)))[0].tolist()
    [3.0, 3.0]
    """
    for name, value, takes in (
        ("initialise", initialise, "key, x"),
        ("function", function, "params, x"),
    ):
        if not accepts(value, None, None):
            raise InputError(f"{name} is {kind(value)}; give a function {name}({takes})")
    return FunctionNetwork(initialise, function)
