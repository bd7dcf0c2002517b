"""Dense layers, masked aggregation of sets and attention, as pure functions of parameters."""

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

Aggregate = Literal["mean", "mean_and_count", "sum"]
AGGREGATES = ("mean", "mean_and_count", "sum")
UNIT = 10.0
"""A sum counts in tens of points, so that layers see numbers of order one."""
FREQUENCY = 0.9
"""Lowest frequency in standard units: one wave over seven standard deviations."""
COUNTS = 2
"""Numbers that say how large a set is."""


def init_dense(key: Key[Array, ""], inputs: int, outputs: int, gain: float = 1.0) -> dict:
    """Weights of variance ``gain / inputs``, biases of zero."""
    scale = np.sqrt(gain / inputs)
    weight = scale * jax.random.normal(key, (inputs, outputs))
    return {"weight": weight, "bias": jnp.zeros(outputs, weight.dtype)}


def dense(params: dict, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
    """``x W + b``."""
    return x @ params["weight"] + params["bias"]


def init_layers(key: Key[Array, ""], sizes: tuple[int, ...]) -> list[dict]:
    """A multilayer perceptron: inputs, hidden units, outputs."""
    keys = jax.random.split(key, len(sizes) - 1)
    last = len(sizes) - 2
    return [
        init_dense(keys[i], sizes[i], sizes[i + 1], 1.0 if i == last else 2.0)
        for i in range(last + 1)
    ]


def layers(params: list[dict], x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
    """Dense layers with ReLU between them."""
    for one in params[:-1]:
        x = jax.nn.relu(dense(one, x))
    return dense(params[-1], x)


def fourier_features(
    x: Float[Array, "*batch columns"], count: int
) -> Float[Array, "*batch features"]:
    """The columns, followed by ``sin(k ω x)`` and ``cos(k ω x)`` for ``k = 1 .. count``.

    With them a mean over points can hold what a curve does at every scale, as the Fourier
    coefficients of a curve do.

    >>> fourier_features(jnp.zeros((1, 2)), 3).shape
    (1, 14)
    """
    if not count:
        return x
    angles = x[..., None] * (FREQUENCY * jnp.arange(1, count + 1, dtype=x.dtype))
    angles = angles.reshape(*x.shape[:-1], -1)
    return jnp.concatenate([x, jnp.sin(angles), jnp.cos(angles)], axis=-1)


def counted(mask: Bool[Array, "tasks points"], dtype: Any) -> Float[Array, "tasks 2"]:
    """The size ``n`` of each set as ``log(1 + n)`` and ``1 / (1 + n)``."""
    n = jnp.sum(mask, axis=-1, dtype=dtype)
    return jnp.stack([jnp.log1p(n), 1 / (1 + n)], axis=-1)


def aggregated_size(width: int, how: Aggregate) -> int:
    """Numbers that stand for a set."""
    return width + COUNTS * (how == "mean_and_count")


def aggregate(
    values: Float[Array, "tasks points width"],
    mask: Bool[Array, "tasks points"],
    empty: Float[Array, " width"],
    how: Aggregate,
) -> Float[Array, "tasks size"]:
    """The mean or sum over the points of a mask, or ``empty`` where there are none.

    ``mean_and_count`` appends the size of the set, which a mean loses.
    """
    n = jnp.sum(mask, axis=-1, keepdims=True, dtype=values.dtype)
    total = jnp.sum(jnp.where(mask[..., None], values, 0), axis=-2)
    found = total / UNIT if how == "sum" else total / jnp.maximum(n, 1)
    found = jnp.where(n > 0, found, empty)
    if how != "mean_and_count":
        return found
    return jnp.concatenate([found, counted(mask, values.dtype)], axis=-1)


def init_attention(key: Key[Array, ""], width: int) -> dict:
    """Projections of queries, keys and values for all heads, and of what they found."""
    names = ("query", "key", "value", "out")
    keys = jax.random.split(key, len(names))
    return {name: init_dense(k, width, width) for name, k in zip(names, keys, strict=True)}


def attend(
    params: dict,
    queries: Float[Array, "tasks targets width"],
    keys: Float[Array, "tasks points width"],
    values: Float[Array, "tasks points width"],
    mask: Bool[Array, "tasks points"],
    heads: int,
) -> Float[Array, "tasks targets width"]:
    """Multihead attention: softmax of ``q k / √(width/heads)`` over the points of a mask.

    A task without points gets zeros. Queries of weight zero make all weights ``1/n``.
    Reference: Vaswani et al., Attention is all you need, NeurIPS 2017.
    """

    def split(name, x):
        found = dense(params[name], x)
        return found.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)

    q, k, v = split("query", queries), split("key", keys), split("value", values)
    scores = jnp.einsum("tqhd,tphd->thqp", q, k) / np.sqrt(q.shape[-1])
    some = jnp.any(mask, axis=-1)[:, None, None, None]
    allowed = jnp.where(some, mask[:, None, None, :], True)
    weights = jax.nn.softmax(scores, axis=-1, where=allowed)
    found = jnp.einsum("thqp,tphd->tqhd", jnp.where(some, weights, 0), v)
    return dense(params["out"], found.reshape(queries.shape))
