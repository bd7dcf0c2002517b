"""Layers without spatial structure: dense, flatten, activation, dropout."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp

from credax.errors import InputError, unknown
from credax.network import Variables
from credax.networks import initialisers
from credax.networks.initialisers import float_dtype
from credax.train_mode import use_dropout

Parameterisation = Literal["standard", "ntk"]

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "gelu": jax.nn.gelu,
    "silu": jax.nn.silu,
    "elu": jax.nn.elu,
    "leaky-relu": jax.nn.leaky_relu,
    "softplus": jax.nn.softplus,
    "sigmoid": jax.nn.sigmoid,
    "erf": jax.scipy.special.erf,
    "sin": jnp.sin,
    "identity": lambda x: x,
}


class Parameterless:
    """A layer without variables."""

    kind: ClassVar[str] = ""

    def init(self, key, x) -> Variables:
        """No variables."""
        return Variables({}, {})


@jax.tree_util.register_static
@dataclass(frozen=True)
class Dense:
    """An affine map of the last axis, ``y = x W + b``.

    With ``parameterisation="ntk"`` every number starts as a standard normal and the scales sit in
    the forward pass, ``y = weight_std / sqrt(fan_in) x W + bias_std b`` (Jacot et al. 2018);
    otherwise the kernel starts by ``initialiser`` and the bias at zero.

    >>> dense = Dense(3)
    >>> variables = dense.init(jax.random.key(0), jnp.ones((1, 2)))
    >>> dense.apply(variables, jnp.ones((5, 2)))[0].shape
    (5, 3)
    """

    features: int
    bias: bool = True
    initialiser: str = "lecun"
    parameterisation: Parameterisation = "standard"
    weight_std: float = 1.0
    bias_std: float = 0.1
    kind: ClassVar[str] = "dense"

    def __post_init__(self):
        if self.parameterisation not in ("standard", "ntk"):
            raise unknown("parameterisation", self.parameterisation, ["standard", "ntk"])

    def init(self, key, x) -> Variables:
        """A kernel ``[inputs, features]`` and, unless switched off, a bias ``[features]``."""
        dtype, fan_in = float_dtype(x), x.shape[-1]
        shape = (fan_in, self.features)
        if self.parameterisation == "ntk" and self.initialiser != "zeros":
            kernel_key, bias_key = jax.random.split(key)
            kernel = jax.random.normal(kernel_key, shape, dtype)
            bias = jax.random.normal(bias_key, (self.features,), dtype)
        else:
            kernel = initialisers.kernel(self.initialiser, key, shape, fan_in, dtype)
            bias = jnp.zeros((self.features,), dtype)
        return Variables({"kernel": kernel, "bias": bias} if self.bias else {"kernel": kernel}, {})

    def apply(self, variables, x, *, key=None, train=False):
        """The affine map; there is no state."""
        params = variables.params
        outputs = x @ params["kernel"]
        ntk = self.parameterisation == "ntk"
        if ntk:
            outputs = outputs * (self.weight_std / math.sqrt(x.shape[-1]))
        if self.bias:
            outputs = outputs + (self.bias_std * params["bias"] if ntk else params["bias"])
        return outputs, variables.state


@jax.tree_util.register_static
@dataclass(frozen=True)
class Flatten(Parameterless):
    """Every axis but the batch into one."""

    def apply(self, variables, x, *, key=None, train=False):
        """``[batch, ...]`` to ``[batch, features]``."""
        return x.reshape(x.shape[0], math.prod(x.shape[1:])), variables.state


@jax.tree_util.register_static
@dataclass(frozen=True)
class Activation(Parameterless):
    """A named function of each number: relu, tanh, gelu, silu, ... (``ACTIVATIONS``)."""

    name: str = "relu"

    def __post_init__(self):
        if self.name not in ACTIVATIONS:
            raise unknown("activation", self.name, ACTIVATIONS)

    def apply(self, variables, x, *, key=None, train=False):
        """The function of each number."""
        return ACTIVATIONS[self.name](x), variables.state


@jax.tree_util.register_static
@dataclass(frozen=True)
class Dropout(Parameterless):
    """In training, each number is dropped with probability ``rate`` and the rest scaled up.

    ``y = x m / (1 - rate)`` with ``m ~ Bernoulli(1 - rate)``, so that the mean stays
    (Srivastava et al. 2014); outside training the identity.
    """

    rate: float

    def __post_init__(self):
        if not 0 <= self.rate < 1:
            raise InputError(f"rate is {self.rate}; give a dropout probability in [0, 1)")

    def apply(self, variables, x, *, key=None, train=False):
        """The thinned ``x`` in training; needs ``key`` there."""
        if not use_dropout(train) or self.rate == 0:
            return x, variables.state
        if key is None:
            raise InputError("key is None; dropout in training needs a key, so pass key=")
        kept = jax.random.bernoulli(key, 1 - self.rate, x.shape)
        return jnp.where(kept, x / (1 - self.rate), jnp.zeros_like(x)), variables.state
