"""Identities that make XLA compute an array once instead of again in every place that uses it.

XLA's CPU compiler fuses cheap producers into each of their consumers and so repeats them: the
backward of a pooling layer is then computed again for each shift of each convolution kernel. It
never repeats a division. Dividing by a one that it cannot know (``x == x`` fails for NaN only)
therefore pins an array in memory, at no extra pass over it; the numbers are exactly the same.
Where the default backend is an accelerator these functions do nothing.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def _pinned(x, witness):
    if jax.default_backend() != "cpu":
        return x
    return x / jax.lax.stop_gradient(jnp.where(witness == witness, 1, witness))


def computed_after(x: Float[Array, "..."], other: Float[Array, "..."]) -> Float[Array, "..."]:
    """``x``, which nothing can use before ``other`` is there: less memory is held until then.

    A product, unlike a quotient, is made where it is used: ``x`` itself is not kept twice.
    """
    if jax.default_backend() != "cpu":
        return x
    seen = jax.lax.stop_gradient(other.ravel()[0])
    return x * jnp.where(seen == seen, 1, seen)


@jax.custom_jvp
def computed_once(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """``x``, kept in memory; derivatives pass through."""
    return _pinned(x, x)


@computed_once.defjvp
def _computed_once_jvp(primals, tangents):
    return computed_once(*primals), tangents[0]


@jax.custom_jvp
def gradient_once(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """``x``, whose gradient is kept in memory on the way back."""
    return x


@gradient_once.defjvp
def _gradient_once_jvp(primals, tangents):
    (x,), (tangent,) = primals, tangents
    return gradient_once(x), _pinned(tangent, x)
