"""Small networks of every kind, credax's own and those of other libraries, for one example each."""

from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
from flax import nnx

from credax import adapters, networks
from credax.network import FunctionNetwork

OUTPUTS = 3


class Case(NamedTuple):
    """A network, the shape of one row, and which axis of a row is that of its units."""

    network: Any
    shape: tuple[int, ...]
    units: int = -1


def attention(heads=2, width=4, head=3, hidden=5):
    """One block with attention of several heads and a hidden layer, and a head on the mean."""
    shapes = {
        "embed": (5, width), "q": (width, heads, head), "k": (width, heads, head),
        "v": (width, heads, head), "o": (heads, head, width), "up": (width, hidden),
        "bias": (hidden,), "down": (hidden, width), "out": (width, OUTPUTS),
    }  # fmt: skip

    def initialise(key, x):
        keys = jax.random.split(key, len(shapes))
        return {
            name: jax.random.normal(k, shape)
            for k, (name, shape) in zip(keys, shapes.items(), strict=True)
        }

    def function(p, x):
        h = x @ p["embed"]
        q, k, v = (jnp.einsum("btd,dhe->bthe", h, p[name]) for name in "qkv")
        scores = jax.nn.softmax(jnp.einsum("bthe,bshe->bhts", q, k))
        h = h + jnp.einsum("bthe,heo->bto", jnp.einsum("bhts,bshe->bthe", scores, v), p["o"])
        h = h + jax.nn.relu(h @ p["up"] + p["bias"]) @ p["down"]
        return h.mean(1) @ p["out"]

    return FunctionNetwork(initialise, function)


def equinox_convolution(width=4):
    """Channels come first, and the module maps one row."""

    def make(key):
        first, second = jax.random.split(key)
        return eqx.nn.Sequential(
            [
                eqx.nn.Conv2d(2, width, 3, padding=1, key=first),
                eqx.nn.Lambda(jax.nn.relu),
                eqx.nn.Lambda(lambda h: h.mean((1, 2))),
                eqx.nn.Linear(width, OUTPUTS, key=second),
            ]
        )

    return adapters.from_equinox(make)


class NnxNormed(nnx.Module):
    def __init__(self, rngs, width=4):
        self.first = nnx.Linear(5, width, rngs=rngs)
        self.norm = nnx.BatchNorm(width, rngs=rngs)
        self.last = nnx.Linear(width, OUTPUTS, rngs=rngs)

    def __call__(self, x):
        return self.last(jnp.tanh(self.norm(self.first(x))))


class LinenNormed(nn.Module):
    width: int = 4

    @nn.compact
    def __call__(self, x, train: bool = False):
        h = nn.Conv(self.width, (3, 3))(x)
        h = nn.BatchNorm(use_running_average=not train)(h)
        return nn.Dense(OUTPUTS)(nn.relu(h).mean((1, 2)))


def haiku_convolution(width=4):
    def function(x):
        h = jax.nn.relu(hk.Conv2D(width, 3)(x))
        return hk.nets.MLP((5, OUTPUTS))(h.mean((1, 2)))

    return adapters.from_haiku(function)


def residual():
    """The least residual network with batch norm."""
    n = networks
    body = networks.Sequential((n.Conv(2, bias=False), n.BatchNorm()))
    layers = (n.Conv(2, bias=False), n.BatchNorm(), n.Activation("relu"), n.Residual(body))
    return networks.Sequential((*layers, n.GlobalAveragePool(), n.Dense(OUTPUTS)))


def resnet(**options):
    return networks.ResNet(OUTPUTS, widths=(2, 4), blocks=(1, 1), stem=2, **options)


CASES = {
    "mlp": Case(networks.MLP((4,), OUTPUTS), (5,)),
    "lenet": Case(networks.LeNet5(OUTPUTS, widths=(2, 3, 4, 5)), (12, 12, 2)),
    "cnn": Case(networks.CNN(OUTPUTS, (4,), 3), (4, 4, 2)),
    "residual": Case(residual(), (4, 4, 2)),
    "resnet": Case(networks.ResNet(OUTPUTS, widths=(4,), blocks=(1,), stem=4), (8, 8, 2)),
    "preactivated": Case(resnet(block="preactivated"), (8, 8, 2)),
    "frn": Case(resnet(norm="frn", padded_shortcuts=True), (8, 8, 2)),
    "attention": Case(attention(), (3, 5)),
    "equinox": Case(equinox_convolution(), (2, 8, 8), 0),
    "nnx": Case(adapters.from_nnx(NnxNormed), (5,)),
    "linen": Case(adapters.from_linen(LinenNormed()), (8, 8, 2)),
    "haiku": Case(haiku_convolution(), (8, 8, 2)),
}
