"""Small convolutional networks."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal

import jax

from credax.errors import unknown
from credax.network import Network
from credax.networks.convolution import Conv, Padding
from credax.networks.layers import Activation, Dense, Flatten
from credax.networks.pooling import AvgPool, GlobalAveragePool, MaxPool
from credax.networks.sequential import Layered, Sequential
from credax.networks.width import no_groups, scaled_widths

_POOLS = {"max": MaxPool, "average": AvgPool}


@jax.tree_util.register_static
@dataclass(frozen=True)
class CNN(Layered):
    """3x3 convolutions, each max-pooled by two and activated, then one hidden dense layer.

    Pooling before a monotone activation gives the same numbers as after it, in a quarter of the
    time.

    The default is the usual small network for 28x28 digits: 32 and 64 channels, 128 hidden units.
    Kernels start as a truncated normal of variance ``2 / fan_in`` (head ``1 / fan_in``, or zero
    with ``zero_head``), biases at zero. ``implementation`` is handed to `Conv`, and ``groups`` to
    all convolutions but the first.
    """

    outputs: int
    channels: tuple[int, ...] = (32, 64)
    dense: int = 128
    activation: str = "relu"
    zero_head: bool = False
    implementation: str = "auto"
    groups: int = 1
    kind: ClassVar[str] = "cnn"

    def __post_init__(self):
        channels = (self.channels,) if isinstance(self.channels, int) else tuple(self.channels)
        object.__setattr__(self, "channels", channels)
        _ = self.layers  # a bad option is refused here, not at the first use

    def with_width(self, factor: float, groups: int = 1) -> "CNN":
        """Other numbers of channels and hidden units, rounded up."""
        channels = scaled_widths(self.channels, factor, groups)
        (dense,) = scaled_widths((self.dense,), factor)
        return dataclasses.replace(self, channels=channels, dense=dense, groups=groups)

    @property
    def layers(self) -> Sequential:
        """The layers, the head last."""
        layers: list[Network] = []
        for index, width in enumerate(self.channels):
            conv = Conv(
                width,
                initialiser="he",
                implementation=self.implementation,
                groups=self.groups if index else 1,
            )
            layers += [conv, MaxPool(2), Activation(self.activation)]
        layers += [Flatten(), Dense(self.dense, initialiser="he"), Activation(self.activation)]
        head = Dense(self.outputs, initialiser="zeros" if self.zero_head else "lecun")
        return Sequential((*layers, head))


@jax.tree_util.register_static
@dataclass(frozen=True)
class LeNet5(Layered):
    """Two 5x5 convolutions of 6 and 16 channels with pooling, then dense 120, 84 and the head.

    The classic has tanh and mean pooling; ``activation="relu", pool="max"`` is the modern form.
    The first convolution is padded, so 28x28 images give the original's 400 features. Kernels
    start as a truncated normal of variance ``1 / fan_in``; ``widths`` are the channels and hidden
    units. Reference: LeCun et al. 1998.
    """

    outputs: int
    activation: str = "tanh"
    pool: Literal["average", "max"] = "average"
    zero_head: bool = False
    implementation: str = "auto"
    widths: tuple[int, int, int, int] = (6, 16, 120, 84)
    kind: ClassVar[str] = "lenet5"

    def __post_init__(self):
        if self.pool not in _POOLS:
            raise unknown("pool", self.pool, _POOLS)
        _ = self.layers  # a bad option is refused here, not at the first use

    def with_width(self, factor: float, groups: int = 1) -> "LeNet5":
        """Other numbers of channels and hidden units, rounded up."""
        no_groups(self, groups)
        first, second, third, fourth = scaled_widths(self.widths, factor)
        return dataclasses.replace(self, widths=(first, second, third, fourth))

    @property
    def layers(self) -> Sequential:
        """The layers, the head last."""
        activation, pool = Activation(self.activation), _POOLS[self.pool](2)
        how, (first, second, third, fourth) = self.implementation, self.widths
        return Sequential(
            (
                Conv(first, 5, implementation=how),
                activation,
                pool,
                Conv(second, 5, padding="VALID", implementation=how),
                activation,
                pool,
                Flatten(),
                Dense(third),
                activation,
                Dense(fourth),
                activation,
                Dense(self.outputs, initialiser="zeros" if self.zero_head else "lecun"),
            )
        )


@jax.tree_util.register_static
@dataclass(frozen=True)
class OptuNet(Layered):
    """A network of 355 numbers for 28x28 digits, found by search: 75 to 85 % of MNIST right.

    A 4x4 convolution to 2 channels, max-pool of 3, a 5x5 convolution to 10 channels in 2 groups,
    the mean over positions, dense 3 and the head; no biases in the convolutions, relu between.
    ``padding="SAME"`` takes smaller pictures. Kernels start as a truncated normal of variance
    ``2 / fan_in``. Reference: OptuMNIST v1, the small network of Laurent et al. 2024.

    >>> network = OptuNet(outputs=10)
    >>> variables = network.init(jax.random.key(0), jax.ShapeDtypeStruct((1, 28, 28, 1), "float32"))
    >>> sum(leaf.size for leaf in jax.tree.leaves(variables.params))
    355
    """

    outputs: int
    activation: str = "relu"
    padding: Padding = "VALID"
    zero_head: bool = False
    implementation: str = "auto"
    kind: ClassVar[str] = "optunet"

    def __post_init__(self):
        _ = self.layers  # a bad option is refused here, not at the first use

    @property
    def layers(self) -> Sequential:
        """The layers, the head last."""
        options = {
            "padding": self.padding,
            "bias": False,
            "initialiser": "he",
            "implementation": self.implementation,
        }
        return Sequential(
            (
                Conv(2, 4, **options),
                MaxPool(3),
                Activation(self.activation),
                Conv(10, 5, groups=2, **options),
                Activation(self.activation),
                GlobalAveragePool(),
                Dense(3, initialiser="he"),
                Activation(self.activation),
                Dense(self.outputs, initialiser="zeros" if self.zero_head else "lecun"),
            )
        )
