"""One small network, written once in every library, with the numbers in each one's own layout."""

from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
from flax import nnx

from credax import adapters

LIBRARIES = ["function", "equinox", "nnx", "linen", "haiku"]
STATEFUL = ["equinox", "equinox-ema", "nnx", "linen", "haiku"]
MOMENTUM, EPSILON, RATE = 0.9, 1e-5, 0.4


class Layout(NamedTuple):
    """A network, and where its four arrays live: (input, output) matrices and biases."""

    network: Any
    pack: Any
    unpack: Any


def keyed(first, second, weight="kernel", bias="bias"):
    """Params as ``{first: {weight, bias}, second: {weight, bias}}`` with nested paths allowed."""

    def at(tree, path):
        for part in path:
            tree = tree[part]
        return tree

    def pack(w1, b1, w2, b2):
        tree: dict = {}
        for path, w, b in ((first, w1, b1), (second, w2, b2)):
            branch = tree
            for part in path:
                branch = branch.setdefault(part, {})
            branch.update({weight: w, bias: b})
        return tree

    def unpack(tree):
        one, two = at(tree, first), at(tree, second)
        return one[weight], one[bias], two[weight], two[bias]

    return pack, unpack


def _equinox():
    def make(key):
        return eqx.nn.MLP(4, 3, 8, 1, activation=jnp.tanh, key=key)

    pack, unpack = keyed(("layers", "0"), ("layers", "1"), "weight")
    return Layout(
        adapters.from_equinox(make),
        lambda w1, b1, w2, b2: pack(w1.T, b1, w2.T, b2),
        lambda tree: tuple(a.T if a.ndim == 2 else a for a in unpack(tree)),
    )


class NnxMLP(nnx.Module):
    def __init__(self, rngs):
        self.layers = nnx.List([nnx.Linear(4, 8, rngs=rngs), nnx.Linear(8, 3, rngs=rngs)])

    def __call__(self, x):
        return self.layers[1](jnp.tanh(self.layers[0](x)))


def _function():
    def initialise(key, x):
        one, two = jax.random.split(key)
        first = {"kernel": jax.random.normal(one, (x.shape[-1], 8)), "bias": jnp.zeros(8)}
        return {"a": first, "b": {"kernel": jax.random.normal(two, (8, 3)), "bias": jnp.zeros(3)}}

    def function(params, x):
        hidden = jnp.tanh(x @ params["a"]["kernel"] + params["a"]["bias"])
        return hidden @ params["b"]["kernel"] + params["b"]["bias"]

    return Layout(adapters.from_function(initialise, function), *keyed(("a",), ("b",)))


def layout(library):
    if library == "function":
        return _function()
    if library == "equinox":
        return _equinox()
    if library == "nnx":
        return Layout(adapters.from_nnx(NnxMLP), *keyed(("layers", "0"), ("layers", "1")))
    if library == "linen":
        module = nn.Sequential([nn.Dense(8), jnp.tanh, nn.Dense(3)])
        return Layout(adapters.from_linen(module), *keyed(("layers_0",), ("layers_2",)))
    return Layout(
        adapters.from_haiku(lambda x: hk.nets.MLP((8, 3), activation=jnp.tanh)(x)),
        *keyed(("mlp/~/linear_0",), ("mlp/~/linear_1",), "w", "b"),
    )


def equinox_norm(mode):
    return lambda key: eqx.nn.BatchNorm(4, "batch", EPSILON, momentum=MOMENTUM, mode=mode)


def batch_norm(library):
    """One BatchNorm of four features, alone, so that its statistics are those of ``x``."""
    if library.startswith("equinox"):
        return adapters.from_equinox(equinox_norm("ema" if "ema" in library else "batch"))
    if library == "nnx":
        return adapters.from_nnx(lambda rngs: nnx.BatchNorm(4, momentum=MOMENTUM, rngs=rngs))
    if library == "linen":
        return adapters.from_linen(nn.BatchNorm(momentum=MOMENTUM))
    return adapters.from_haiku(
        lambda x, is_training: hk.BatchNorm(True, True, decay_rate=MOMENTUM)(x, is_training)
    )


class NnxDropout(nnx.Module):
    def __init__(self, rngs):
        self.drop = nnx.Dropout(RATE, rngs=rngs)

    def __call__(self, x):
        return self.drop(x)


def dropout(library):
    """Dropout and nothing else."""
    if library == "equinox":
        return adapters.from_equinox(lambda key: eqx.nn.Dropout(RATE))
    if library == "nnx":
        return adapters.from_nnx(NnxDropout)
    if library == "nnx-rngs":
        return adapters.from_nnx(lambda rngs: nnx.Dropout(RATE))
    if library == "linen":
        return adapters.from_linen(nn.Dropout(RATE))
    return adapters.from_haiku(
        lambda x, train: hk.dropout(hk.next_rng_key(), RATE, x) if train else x
    )
