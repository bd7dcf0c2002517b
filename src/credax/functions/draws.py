"""Draws of whole functions: the same function at every input, in every batch and every call."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from credax.errors import InputError
from credax.functions.kernels import Kernel
from credax.keys import as_key

FEATURES = 1024
"""Random features of one function."""


def draw_keys(key: int | Key[Array, ""], n: int) -> Key[Array, " draws"]:
    """One key per draw: draw ``i`` of ``n`` is draw ``i`` of more."""
    if n < 1:
        raise InputError(f"n is {n}; draw at least 1 function")
    own = as_key(key)
    return jax.vmap(lambda i: jax.random.fold_in(own, i))(jnp.arange(n))


def prior_functions(
    kernel: Kernel,
    keys: Key[Array, " draws"],
    x: Float[Array, "points columns"],
    outputs: int,
    features: int = FEATURES,
) -> Float[Array, "draws points outputs"]:
    """Draws of a process of mean zero: ``f(x) = F^(-1/2) Σ_j w_j φ_j(x)``, ``w ~ N(0, 1)``.

    Every draw and output has ``F`` random features ``φ`` of its own, with ``E φ φ' = k``. So mean
    and covariance are exactly those of the process, and joint values are Gaussian up to a term of
    order ``1/F``. The result is a function of ``x`` alone: no other point enters.
    """

    def one(key):
        feature, weight = jax.random.split(key)
        drawn = jax.vmap(lambda k: kernel.feature(k, x))(jax.random.split(feature, features))
        return jax.random.normal(weight, (features,), x.dtype) @ drawn / np.sqrt(features)

    def member(key):
        return jax.lax.map(one, jax.random.split(key, outputs)).T

    return jax.lax.map(member, keys)


compiled_prior = eqx.filter_jit(prior_functions)


def normal_of(
    keys: Key[Array, " draws"], salt: int, shape: tuple[int, ...]
) -> Float[np.ndarray, "draws ..."]:
    """Standard normal numbers of every draw, apart from its features."""
    with jax.enable_x64(True):
        draw = jax.vmap(lambda k: jax.random.normal(jax.random.fold_in(k, salt), shape, float))
        return np.asarray(draw(keys))
