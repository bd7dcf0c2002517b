"""Networks of the specification's table 2.7, small, with what the trace must find in them."""

import jax
import jax.numpy as jnp

from credax import networks
from credax.adapters import from_function
from credax.networks import Sequential

F32 = jnp.float32


def struct(*shape, dtype=F32):
    return jax.ShapeDtypeStruct(shape, dtype)


def plain(shapes, function):
    """A plain function of a dict of arrays with these shapes."""

    def initialise(key, x):
        keys = jax.random.split(key, len(shapes))
        return {
            name: jax.random.normal(k, shape) / max(1, shape[0]) ** 0.5
            for k, (name, shape) in zip(keys, shapes.items(), strict=True)
        }

    return from_function(initialise, function)


def relu(x):
    return jnp.maximum(x, 0)


def layer_norm(x, scale, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-6) * scale + bias


def residual_flatten():
    """conv(8)-BN-ReLU-pool-[conv-ReLU-conv residual]-pool-flatten-dense(16)-LN-SiLU-dense."""
    n = networks
    inside = Sequential((n.Conv(8), n.Activation("relu"), n.Conv(8)))
    return Sequential(
        (
            *(n.Conv(8), n.BatchNorm(), n.Activation("relu"), n.MaxPool(2)),
            n.Residual(inside),
            *(n.AvgPool(2), n.Flatten(), n.Dense(16), n.GroupNorm(1), n.Activation("silu")),
            n.Dense(3),
        )
    )


def concatenations():
    """Concatenations, a gated linear unit and a product of two slices."""
    shapes = {
        "a": (5, 4), "b": (5, 6), "c": (10, 14), "d": (7, 5), "e": (11, 6), "f": (3, 2),
    }  # fmt: skip

    def function(p, x):
        left, right = relu(x @ p["a"]), relu(x @ p["b"])
        value, gate = jnp.split(jnp.concatenate([left, right], -1) @ p["c"], 2, -1)
        gated = value * jax.nn.sigmoid(gate)
        both = jnp.concatenate([relu(gated @ p["d"]), right], -1)
        halves = both @ p["e"]
        return (halves[:, :3] * halves[:, 3:]) @ p["f"]

    return plain(shapes, function)


def grouped():
    n = networks
    return Sequential(
        (
            *(n.Conv(8), n.Activation("relu"), n.Conv(10, groups=2), n.Activation("relu")),
            *(n.GlobalAveragePool(), n.Dense(3), n.Activation("relu"), n.Dense(2)),
        )
    )


def transformer(heads=2, width=16, head=8, hidden=12):
    """One pre-norm block with attention, a ReLU layer, and a head on the mean."""
    shapes = {
        "embed": (5, width), "s1": (width,), "b1": (width,),
        "q": (width, heads, head), "k": (width, heads, head), "v": (width, heads, head),
        "qb": (heads, head), "o": (heads, head, width), "s2": (width,), "b2": (width,),
        "up": (width, hidden), "upb": (hidden,), "down": (hidden, width), "out": (width, 3),
    }  # fmt: skip

    def function(p, x):
        h = x @ p["embed"]
        y = layer_norm(h, p["s1"], p["b1"])
        q = jnp.einsum("btd,dhe->bthe", y, p["q"]) + p["qb"]
        k, v = (jnp.einsum("btd,dhe->bthe", y, p[name]) for name in "kv")
        scores = jax.nn.softmax(jnp.einsum("bthe,bshe->bhts", q, k))
        h = h + jnp.einsum("bhts,bshe,heo->bto", scores, v, p["o"])
        y = layer_norm(h, p["s2"], p["b2"])
        h = h + relu(y @ p["up"] + p["upb"]) @ p["down"]
        return h.mean(1) @ p["out"]

    return plain(shapes, function)


def lstm(units=4):
    shapes = {"w": (5, 4 * units), "u": (units, 4 * units), "b": (4 * units,), "o": (units, 2)}

    def function(p, x):
        def step(carry, row):
            h, c = carry
            i, f, g, o = jnp.split(row @ p["w"] + h @ p["u"] + p["b"], 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), None

        zero = jnp.zeros((x.shape[0], units), x.dtype)
        (h, _), _ = jax.lax.scan(step, (zero, zero), x.swapaxes(0, 1))
        return h @ p["o"]

    return plain(shapes, function)


def stacked_blocks(layers=3, width=4, hidden=5):
    """Residual ReLU blocks whose parameters are stacked and scanned over."""
    shapes = {"in": (6, width), "up": (layers, width, hidden), "down": (layers, hidden, width),
              "out": (width, 2)}  # fmt: skip

    def function(p, x):
        def block(h, arrays):
            up, down = arrays
            return h + relu(h @ up) @ down, None

        h, _ = jax.lax.scan(block, x @ p["in"], (p["up"], p["down"]))
        return h @ p["out"]

    return plain(shapes, function)


def small(**options):
    return networks.ResNet(3, widths=(4, 8), blocks=(1, 1), stem=4, **options)


# name: (network, input shape, [(size, base sizes, number of scalings)])
TABLE = {
    "mlp": (networks.MLP((5, 6), 3), (2, 7), [(5, (), 1), (6, (), 1)]),
    "mlp-tanh": (networks.MLP((5,), 3, activation="tanh"), (2, 7), [(5, (), 0)]),
    "mlp-batch": (networks.MLP((5,), 3, norm="batch"), (2, 7), [(5, (), 2)]),
    "mlp-one-input": (networks.MLP((5,), 1), (2, 1), [(5, (), 1)]),
    "cnn": (networks.CNN(3, (4, 6), 5), (2, 8, 8, 3), [(4, (), 1), (6, (), 1), (5, (), 1)]),
    "lenet": (
        networks.LeNet5(3),
        (2, 12, 12, 1),
        [(6, (), 0), (16, (), 0), (120, (), 0), (84, (), 0)],
    ),
    "residual-flatten": (
        residual_flatten(),
        (2, 8, 8, 2),
        [(8, (), 2), (8, (), 1), (16, (), 0)],
    ),
    "resnet-batch": (
        small(),
        (2, 8, 8, 3),
        [(4, (), 3), (4, (), 2), (8, (), 2), (8, (), 3)],
    ),
    "resnet-frn-padded": (
        small(norm="frn", padded_shortcuts=True),
        (2, 8, 8, 3),
        [(4, (), 1), (4, (), 1), (8, (), 1), (2, (), 1), (2, (), 1)],
    ),
    "preact": (
        small(block="preactivated"),
        (2, 8, 8, 3),
        [(4, (), 3), (4, (), 2), (8, (), 2), (8, (), 2)],
    ),
    "concatenations": (
        concatenations(),
        (3, 5),
        [(4, (), 1), (6, (), 1), (7, (), 1), (5, (), 1), (3, (), 2)],
    ),
    "grouped": (
        grouped(),
        (2, 5, 5, 3),
        [(2, (), 0), (4, (2,), 1), (5, (2,), 1), (3, (), 1)],
    ),
    "transformer": (
        transformer(),
        (2, 4, 5),
        [(16, (), 2), (2, (), 0), (8, (2,), 1), (8, (2,), 1), (12, (), 1)],
    ),
    "lstm": (lstm(), (2, 3, 5), [(4, (), 0)]),
    "stacked": (stacked_blocks(), (2, 6), [(4, (), 1), (5, (3,), 1)]),
}


def variables_of(network, shape, key=0):
    return network.init(jax.random.key(key), struct(*shape))
