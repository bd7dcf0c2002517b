"""Dense layers, masked aggregation of sets and attention, as pure functions of parameters."""

from collections.abc import Callable
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
Activation = Literal["relu", "gelu"]
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {"relu": jax.nn.relu, "gelu": jax.nn.gelu}


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


def layers(
    params: list[dict],
    x: Float[Array, "*batch inputs"],
    activation: Callable[[Array], Array] = jax.nn.relu,
) -> Float[Array, "*batch outputs"]:
    """Dense layers with an activation between them."""
    for one in params[:-1]:
        x = activation(dense(one, x))
    return dense(params[-1], x)


def layers_of_tasks(
    params: list[dict],
    x: Float[Array, "tasks points columns"],
    whole: Float[Array, "tasks size"],
    activation: Callable[[Array], Array],
) -> Float[Array, "tasks points outputs"]:
    """`layers` of every point's own numbers, followed by those that its whole task shares.

    What is shared is multiplied once per task, not once per point.
    """
    first, own = params[0], x.shape[-1]
    shared = whole @ first["weight"][own:] + first["bias"]
    h = x @ first["weight"][:own] + shared[:, None]
    return layers(params[1:], activation(h), activation) if len(params) > 1 else h


def init_residual(key: Key[Array, ""], inputs: int, width: int, blocks: int) -> dict:
    """A linear layer to ``width``, and blocks of two layers whose second begins small."""
    lift, *keys = jax.random.split(key, 1 + 2 * blocks)
    pairs = zip(keys[::2], keys[1::2], strict=True)
    return {
        "lift": init_dense(lift, inputs, width),
        "blocks": [
            {"in": init_dense(a, width, width, 2.0), "out": init_dense(b, width, width, 0.1)}
            for a, b in pairs
        ],
    }


def residual(
    params: dict, x: Float[Array, "*batch inputs"], activation: Callable[[Array], Array]
) -> Float[Array, "*batch width"]:
    """``h + W₂ a(W₁ a(h))`` block after block, and the activation of the last."""
    h = dense(params["lift"], x)
    for block in params["blocks"]:
        h = h + dense(block["out"], activation(dense(block["in"], activation(h))))
    return activation(h)


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
