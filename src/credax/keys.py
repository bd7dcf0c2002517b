"""Random keys: one kind only, because others draw other numbers when members run together."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from credax.errors import InputError

IMPLEMENTATION = "threefry2x32"


def as_key(key: Any) -> Any:
    """A seed, a typed key, or two raw words as a typed key; other kinds are refused.

    With the generators ``rbg`` and ``unsafe_rbg`` a member's numbers would depend on how many
    members run beside it.

    >>> bool((jax.random.key_data(as_key(3)) == jax.random.key_data(jax.random.key(3))).all())
    True
    """
    if isinstance(key, int | np.integer) and not isinstance(key, bool):
        return jax.random.key(int(key), impl=IMPLEMENTATION)
    dtype, shape = getattr(key, "dtype", None), np.shape(key)
    if dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key):
        kind = str(jax.random.key_impl(key))
        if kind == IMPLEMENTATION and shape == ():
            return key
        what = f"a key of type {kind} and shape {shape}"
    elif dtype == np.uint32 and shape == (2,):
        return wrap(key)
    else:
        what = repr(key)
    raise InputError(
        f"key is {what}; give a whole number as seed, or one key of the type {IMPLEMENTATION}, "
        f"such as jax.random.key(0, impl={IMPLEMENTATION!r})"
    )


def wrap(words: Any) -> Key[Array, "..."]:
    """Keys from their stored words, whatever the process's default generator is."""
    return jax.random.wrap_key_data(jnp.asarray(words), impl=IMPLEMENTATION)


def numpy_generator(key: Key[Array, ""] | int) -> np.random.Generator:
    """NumPy's generator from a seed or a typed key."""
    words = np.atleast_1d(key if isinstance(key, int) else jax.random.key_data(key))
    return np.random.default_rng([int(word) for word in words.reshape(-1)])
