"""A network: two pure functions and a pytree of variables."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Key, PyTree


class Variables(NamedTuple):
    """A network's numbers: ``params`` are learned, ``state`` is carried (batch statistics).

    A population of members is the same pytree with a leading ``members`` axis on every leaf.
    """

    params: PyTree
    state: PyTree = {}  # noqa: RUF012 (never written to: apply returns a new state)


@runtime_checkable
class Network(Protocol):
    """Any object with ``init`` and ``apply``. Layers are networks too, so networks compose.

    ``x`` always has a leading batch axis. ``apply`` is pure: it returns the outputs and the new
    state; with ``train=False`` the state comes back unchanged and rows do not see each other.
    """

    def init(self, key: Key[Array, ""], x: Any) -> Variables:
        """Variables for inputs shaped like ``x`` (an array or a ``jax.ShapeDtypeStruct``)."""
        ...

    def apply(
        self,
        variables: Variables,
        x: Array,
        *,
        key: Key[Array, ""] | None = None,
        train: bool = False,
    ) -> tuple[Array, PyTree]:
        """Outputs for a batch, and the new state."""
        ...


@runtime_checkable
class TakesTrained(Protocol):
    """A network of another library that knows its variables in what that library trains."""

    def adopted(self, trained: Any) -> Variables:
        """The variables in a trained module, or in that library's own parameters."""
        ...


@runtime_checkable
class HasWidth(Protocol):
    """A network that can be made narrower or wider."""

    def with_width(self, factor: float, groups: int = 1) -> "Network":
        """The same network with hidden widths times a factor, rounded up.

        With ``groups`` its convolutions but the first have so many; a network without such refuses.
        """
        ...


@runtime_checkable
class OnGrid(Protocol):
    """A network that gives outputs for every pixel."""

    @property
    def multiple(self) -> int:
        """What height and width, and the places of tiles, must be a multiple of."""
        ...


class FunctionNetwork(eqx.Module):
    """A plain pair of functions as a network.

    ``initialise(key, x) -> params`` and ``function(params, x) -> outputs``; a network with state,
    dropout or a training mode implements `Network` itself or comes through `credax.adapters`.

    >>> import jax.numpy as jnp
    >>> line = FunctionNetwork(lambda key, x: {"w": jnp.ones(x.shape[-1])}, lambda p, x: x @ p["w"])
    >>> variables = line.init(jax.random.key(0), jnp.zeros((1, 3)))
    >>> line.apply(variables, jnp.ones((2, 3)))[0].tolist()
    [3.0, 3.0]
    """

    initialise: Callable[[Key[Array, ""], Any], PyTree]
    function: Callable[[PyTree, Array], Array]

    def init(self, key, x) -> Variables:
        """Variables for inputs shaped like ``x``."""
        return Variables(self.initialise(key, x), {})

    def apply(self, variables, x, *, key=None, train=False):
        """Outputs for a batch; there is no state."""
        return self.function(variables.params, x), variables.state


def output_struct(network: Network, variables: Variables, x: Any) -> jax.ShapeDtypeStruct:
    """Shape and dtype of the outputs for ``x``, without computing anything."""
    return jax.eval_shape(lambda v, a: network.apply(v, a, train=False)[0], variables, x)


def count_params(variables: Variables) -> int:
    """How many learned numbers one set of variables holds."""
    return sum(leaf.size for leaf in jax.tree.leaves(variables.params))


def take_members(tree: Any, rows: np.ndarray) -> Any:
    """Some members of a stacked tree, by position; all of them in order are the tree itself.

    That is the usual case after a training, and it compiles nothing.

    >>> take_members({"w": np.arange(3.0)}, np.array([2, 0, 1]))["w"].tolist()
    [2.0, 0.0, 1.0]
    """

    def take(leaf):
        every = len(rows) == len(leaf) and (rows == np.arange(len(leaf))).all()
        # Members over several devices come together, as a selection of them does.
        here = not isinstance(leaf, jax.Array) or len(leaf.devices()) == 1
        return leaf if every and here else leaf[rows]

    return jax.tree.map(take, tree)
