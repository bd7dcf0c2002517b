"""The multilayer perceptron."""

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import jax

from credax.errors import unknown
from credax.network import Network
from credax.networks.layers import Activation, Dense, Flatten, Parameterisation
from credax.networks.normalisation import BatchNorm, GroupNorm
from credax.networks.sequential import Layered, Sequential
from credax.networks.width import no_groups, scaled_widths

_NORMS = {"batch": BatchNorm, "layer": lambda: GroupNorm(groups=1)}


@jax.tree_util.register_static
@dataclass(frozen=True)
class MLP(Layered):
    """Dense layers with an activation between them; images are flattened first.

    Kernels start as a truncated normal of variance ``2 / fan_in`` before units that cut half the
    line (relu, gelu, ...) and ``1 / fan_in`` otherwise and in the head; biases at zero. With
    ``parameterisation="ntk"`` all start as standard normals and ``weight_std``, ``bias_std`` sit in
    the forward pass (see `Dense`). ``norm`` is "batch" or "layer", between kernel and activation.
    ``zero_head`` starts the last layer at zero, so that every output is zero.

    >>> import jax.numpy as jnp
    >>> network = MLP((16,), outputs=2)
    >>> variables = network.init(jax.random.key(0), jnp.ones((1, 4, 4, 1)))
    >>> network.apply(variables, jnp.ones((3, 4, 4, 1)))[0].shape
    (3, 2)
    """

    hidden: tuple[int, ...]
    outputs: int
    activation: str = "relu"
    zero_head: bool = False
    parameterisation: Parameterisation = "standard"
    norm: Literal["batch", "layer"] | None = None
    weight_std: float = math.sqrt(2)
    bias_std: float = 0.1
    kind: ClassVar[str] = "mlp"

    def __post_init__(self):
        hidden = (self.hidden,) if isinstance(self.hidden, int) else tuple(self.hidden)
        object.__setattr__(self, "hidden", hidden)
        if self.norm is not None and self.norm not in _NORMS:
            raise unknown("norm", self.norm, _NORMS)
        _ = self.layers  # a bad option is refused here, not at the first use

    def with_width(self, factor: float, groups: int = 1) -> "MLP":
        """Hidden layers of other widths, rounded up."""
        no_groups(self, groups)
        return dataclasses.replace(self, hidden=scaled_widths(self.hidden, factor))

    @property
    def layers(self) -> Sequential:
        """The layers, the head last."""
        half = self.activation in ("relu", "leaky-relu", "gelu", "silu", "elu")

        def dense(features: int, initialiser: str) -> Dense:
            return Dense(
                features,
                initialiser=initialiser,
                parameterisation=self.parameterisation,
                weight_std=self.weight_std,
                bias_std=self.bias_std,
            )

        layers: list[Network] = [Flatten()]
        for width in self.hidden:
            layers.append(dense(width, "he" if half else "lecun"))
            if self.norm is not None:
                layers.append(_NORMS[self.norm]())
            layers.append(Activation(self.activation))
        head = dense(self.outputs, "zeros" if self.zero_head else "lecun")
        return Sequential((*layers, head))
