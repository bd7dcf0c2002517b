"""U-Net: a prediction for every pixel, from features at several sizes."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from credax.errors import InputError, unknown
from credax.network import Network, Variables
from credax.networks.convolution import Conv
from credax.networks.layers import Activation, Dense, Dropout, Parameterless
from credax.networks.pooling import MaxPool
from credax.networks.resnet import NORMS
from credax.networks.sequential import Layered, Sequential
from credax.networks.width import no_groups, scaled_widths


@jax.tree_util.register_static
@dataclass(frozen=True)
class Upsample(Parameterless):
    """Every position repeated ``factor`` by ``factor`` times.

    >>> Upsample(2).apply(Variables({}), jnp.ones((1, 2, 3, 4)))[0].shape
    (1, 4, 6, 4)
    """

    factor: int = 2

    def apply(self, variables, x, *, key=None, train=False):
        """``[batch, height, width, channels]`` to so many times the height and width."""
        for axis in (1, 2):
            x = jnp.repeat(x, self.factor, axis=axis)
        return x, variables.state


@jax.tree_util.register_static
@dataclass(frozen=True)
class Skip:
    """The input and what a network makes of it, side by side: ``[x, body(x)]`` along channels."""

    body: Network
    kind: ClassVar[str] = "skip"

    def init(self, key, x) -> Variables:
        """The variables of the body."""
        return self.body.init(key, x)

    def apply(self, variables, x, *, key=None, train=False):
        """The channels of the input followed by those of the body, and the body's new state."""
        outputs, state = self.body.apply(variables, x, key=key, train=train)
        if outputs.shape[:-1] != x.shape[:-1]:
            raise InputError(
                f"pictures are {x.shape[1]} by {x.shape[2]} at this depth and cannot be halved; "
                "height and width must be multiples of 2 to the power of the depth: crop or scale "
                "them, or use fewer channels="
            )
        return jnp.concatenate([x, outputs], axis=-1), state


@jax.tree_util.register_static
@dataclass(frozen=True)
class UNet(Layered):
    """Features at halved sizes and back again, each size joined with that of the way down.

    ``channels`` are those of each size, the first at full size; there is one halving less than
    channels. Every block is two 3x3 convolutions (he initialisation), each with a norm
    (``"batch"``, ``"group"``, ``"frn"`` with its own threshold, or ``"none"`` and a bias) and the
    activation; the way down max-pools by two, the way up repeats pixels. The head is a dense
    layer of each pixel. ``dropout`` is before the head. Height and width must be multiples of
    ``2^(len(channels) - 1)``, which is `multiple`.

    >>> network = UNet(outputs=3, channels=(4, 8))
    >>> x = jnp.ones((1, 8, 12, 1))
    >>> network.apply(network.init(jax.random.key(0), x), x)[0].shape
    (1, 8, 12, 3)

    Reference: Ronneberger, Fischer and Brox 2015, U-Net: convolutional networks for biomedical
    image segmentation (there with transposed convolutions and no padding).
    """

    outputs: int
    channels: tuple[int, ...] = (16, 32, 64)
    norm: str = "batch"
    activation: str = "relu"
    dropout: float = 0.0
    zero_head: bool = False
    implementation: str = "auto"
    kind: ClassVar[str] = "unet"

    def __post_init__(self):
        channels = (self.channels,) if isinstance(self.channels, int) else tuple(self.channels)
        object.__setattr__(self, "channels", channels)
        if not channels or min(channels) < 1:
            raise InputError(f"channels is {channels}; give a positive number for each size")
        if self.norm not in (*NORMS, "none"):
            raise unknown("norm", self.norm, (*NORMS, "none"))
        _ = self.layers  # a bad option is refused here, not at the first use

    @property
    def multiple(self) -> int:
        """What height and width, and the places of tiles, must be a multiple of."""
        return 2 ** (len(self.channels) - 1)

    def with_width(self, factor: float, groups: int = 1) -> "UNet":
        """Other numbers of channels, rounded up."""
        no_groups(self, groups)
        return dataclasses.replace(self, channels=scaled_widths(self.channels, factor))

    @property
    def layers(self) -> Sequential:
        """The layers, the head last."""
        body: tuple[Network, ...] = ()
        for width in reversed(self.channels[1:]):
            body = (Skip(Sequential((MaxPool(2), *self._level(width, body), Upsample(2)))),)
        thinned = (Dropout(self.dropout),) if self.dropout else ()
        head = Dense(self.outputs, initialiser="zeros" if self.zero_head else "lecun")
        return Sequential((*self._level(self.channels[0], body), *thinned, head))

    def _level(self, width: int, inner: tuple[Network, ...]) -> tuple[Network, ...]:
        """A block, what is at smaller sizes, and a block again; the smallest has one block."""
        block = (*self._convolution(width), *self._convolution(width))
        return (*block, *inner, *block) if inner else block

    def _convolution(self, width: int) -> tuple[Network, ...]:
        plain = self.norm == "none"
        conv = Conv(width, bias=plain, initialiser="he", implementation=self.implementation)
        alone = self.norm == "frn" and self.activation == "relu"
        norm = () if plain else (NORMS[self.norm](),)
        return (conv, *norm) if alone else (conv, *norm, Activation(self.activation))
