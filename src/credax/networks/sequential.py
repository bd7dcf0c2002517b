"""Networks made of networks: one after another, and around a shortcut."""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar

import jax

from credax.network import Network, Variables, output_struct
from credax.networks.layers import ACTIVATIONS


def as_struct(x: Any) -> jax.ShapeDtypeStruct:
    """The shape and dtype of ``x``."""
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _fold(key, index: int):
    return None if key is None else jax.random.fold_in(key, index)


@jax.tree_util.register_static
@dataclass(frozen=True)
class Sequential:
    """Layers one after another.

    Variables are named by the position among the layers that have any and by the layer's kind,
    ``{"0_dense": ..., "1_dense": ...}``, padded with zeros so that the sorted order is the order.

    >>> from credax.networks import Activation, Dense
    >>> net = Sequential((Dense(4), Activation("tanh"), Dense(2)))
    >>> list(net.init(jax.random.key(0), jax.ShapeDtypeStruct((1, 3), "float32")).params)
    ['0_dense', '1_dense']
    """

    layers: tuple[Network, ...]
    kind: ClassVar[str] = "sequential"

    def __post_init__(self):
        object.__setattr__(self, "layers", tuple(self.layers))

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each layer's variables; empty where a layer has none."""
        kinds = [getattr(layer, "kind", type(layer).__name__.lower()) for layer in self.layers]
        width, names, position = len(str(max(sum(map(bool, kinds)) - 1, 0))), [], 0
        for kind in kinds:
            names.append(f"{position:0{width}d}_{kind}" if kind else "")
            position += bool(kind)
        return tuple(names)

    def init(self, key, x) -> Variables:
        """The variables of every layer, each drawn from its own fold of the key."""
        x, params, state = as_struct(x), {}, {}
        for index, (name, layer) in enumerate(zip(self.names, self.layers, strict=True)):
            variables = layer.init(jax.random.fold_in(key, index), x)
            x = output_struct(layer, variables, x)
            if name and variables.params:
                params[name] = variables.params
            if name and variables.state:
                state[name] = variables.state
        return Variables(params, state)

    def apply(self, variables, x, *, key=None, train=False):
        """The last layer's outputs and every layer's new state."""
        return self.run(variables, x, len(self.layers), key, train)

    def run(self, variables, x, count: int, key=None, train=False):
        """The outputs of the first ``count`` layers and their new state."""
        state = {}
        named = list(zip(self.names, self.layers, strict=True))[:count]
        for index, (name, layer) in enumerate(named):
            inner = Variables(variables.params.get(name, {}), variables.state.get(name, {}))
            x, new = layer.apply(inner, x, key=_fold(key, index), train=train)
            if new:
                state[name] = new
        return x, state


@jax.tree_util.register_static
@dataclass(frozen=True)
class Body:
    """All layers of a `Sequential` but the last, under the same names: its penultimate features."""

    whole: Sequential
    kind: ClassVar[str] = "body"

    def init(self, key, x) -> Variables:
        """The variables of all layers but the last."""
        params, state = self.whole.init(key, x)
        head = self.whole.names[-1]
        drop = lambda tree: {name: value for name, value in tree.items() if name != head}  # noqa: E731
        return Variables(drop(params), drop(state))

    def apply(self, variables, x, *, key=None, train=False):
        """The features, and the new state."""
        return self.whole.run(variables, x, len(self.whole.layers) - 1, key, train)


@jax.tree_util.register_static
@dataclass(frozen=True)
class Residual:
    """``activation(body(x) + shortcut(x))``; no shortcut network means ``x`` itself.

    Reference: He et al. 2016, Deep residual learning for image recognition.
    """

    body: Network
    shortcut: Network | None = None
    activation: str = "identity"
    kind: ClassVar[str] = "residual"

    @property
    def _branches(self) -> dict[str, Network]:
        shortcut = {} if self.shortcut is None else {"shortcut": self.shortcut}
        return {"body": self.body, **shortcut}

    def init(self, key, x) -> Variables:
        """The variables of both branches."""
        both = {
            name: branch.init(jax.random.fold_in(key, index), x)
            for index, (name, branch) in enumerate(self._branches.items())
        }
        return Variables(
            {name: v.params for name, v in both.items() if v.params},
            {name: v.state for name, v in both.items() if v.state},
        )

    def apply(self, variables, x, *, key=None, train=False):
        """The activated sum of both branches, and their new state."""
        state, results = {}, []
        for index, (name, branch) in enumerate(self._branches.items()):
            inner = Variables(variables.params.get(name, {}), variables.state.get(name, {}))
            outputs, new = branch.apply(inner, x, key=_fold(key, index), train=train)
            results.append(outputs)
            if new:
                state[name] = new
        total = results[0] + (x if self.shortcut is None else results[1])
        return ACTIVATIONS[self.activation](total), state


class Layered(abc.ABC):
    """Abstract: a record of options that says which layers a network has."""

    @property
    @abc.abstractmethod
    def layers(self) -> Sequential:
        """The layers, the head last."""

    def init(self, key, x) -> Variables:
        """Variables for inputs shaped like ``x``."""
        return self.layers.init(key, x)

    def apply(self, variables, x, *, key=None, train=False):
        """Outputs ``[batch, outputs]`` and the new state of the norms, if there are any."""
        return self.layers.apply(variables, x, key=key, train=train)
