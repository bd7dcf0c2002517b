"""How kernels start: truncated normals scaled by the number of inputs of a unit."""

import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from credax.errors import InputError, unknown

Initialiser = Literal["he", "lecun", "truncated", "zeros"]

# The standard deviation of a standard normal cut at two standard deviations.
_TRUNCATED_STD = 0.87962566103423978


def kernel(
    initialiser: str, key: Key[Array, ""], shape: tuple[int, ...], fan_in: int, dtype: Any
) -> Float[Array, "..."]:
    """A kernel drawn by name; the normals are cut at two standard deviations.

    ``he``: variance ``2 / fan_in`` (He et al. 2015); ``lecun``: variance ``1 / fan_in`` (LeCun et
    al. 1998); ``truncated``: a normal of scale ``1 / sqrt(fan_in)`` *before* it is cut, hence
    variance ``0.774 / fan_in``; ``zeros``: zeros.

    >>> kernel("zeros", jax.random.key(0), (2, 1), 2, jnp.float32).tolist()
    [[0.0], [0.0]]
    """
    if initialiser == "zeros":
        return jnp.zeros(shape, dtype)
    variances = {"he": 2 / _TRUNCATED_STD**2, "lecun": 1 / _TRUNCATED_STD**2, "truncated": 1.0}
    if initialiser not in variances:
        raise unknown("initialiser", initialiser, [*variances, "zeros"])
    scale = math.sqrt(variances[initialiser] / fan_in)
    return scale * jax.random.truncated_normal(key, -2, 2, shape, dtype)


def float_dtype(x: Any) -> Any:
    """The dtype of ``x``, which must be a float: networks cast nothing silently."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise InputError(
            f"x has dtype {x.dtype}; networks take float inputs, so standardise or cast it first"
        )
    return x.dtype
