"""A DeepLab-like network: residual stages, convolutions at several rates, outputs per pixel."""

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from credax.errors import InputError
from credax.network import Network, Variables
from credax.networks.convolution import Conv
from credax.networks.layers import Activation, Dense, Dropout, Parameterless
from credax.networks.resnet import NORMS, ResNet
from credax.networks.sequential import Layered, Sequential
from credax.networks.width import no_groups, scaled_widths


@jax.tree_util.register_static
@dataclass(frozen=True)
class Dilated:
    """A layer on every ``rate``-th position: a 3x3 convolution then has holes (atrous).

    The positions of each remainder are pictures of their own, so any convolution will do; heights
    and widths that are no multiples are filled with zeros and cut again.
    """

    body: Network
    rate: int
    kind: ClassVar[str] = "dilated"

    def init(self, key, x) -> Variables:
        """The variables of the body."""
        return self.body.init(key, x)

    def apply(self, variables, x, *, key=None, train=False):
        """``[batch, height, width, channels]`` with the body's channels."""
        rate, (batch, height, width, channels) = self.rate, x.shape
        if rate == 1:
            return self.body.apply(variables, x, key=key, train=train)
        missing = [(0, 0), (0, -height % rate), (0, -width % rate), (0, 0)]
        x = jnp.pad(x, missing)
        rows, columns = x.shape[1] // rate, x.shape[2] // rate
        x = x.reshape(batch, rows, rate, columns, rate, channels).transpose(0, 2, 4, 1, 3, 5)
        x = x.reshape(batch * rate * rate, rows, columns, channels)
        x, state = self.body.apply(variables, x, key=key, train=train)
        x = x.reshape(batch, rate, rate, rows, columns, -1).transpose(0, 3, 1, 4, 2, 5)
        x = x.reshape(batch, rows * rate, columns * rate, -1)
        return x[:, :height, :width], state


@jax.tree_util.register_static
@dataclass(frozen=True)
class Parallel:
    """What several networks make of one input, side by side along the channels."""

    branches: tuple[Network, ...]
    kind: ClassVar[str] = "parallel"

    def init(self, key, x) -> Variables:
        """The variables of every branch, by its number."""
        found = [b.init(jax.random.fold_in(key, i), x) for i, b in enumerate(self.branches)]
        return Variables(
            {str(i): v.params for i, v in enumerate(found) if v.params},
            {str(i): v.state for i, v in enumerate(found) if v.state},
        )

    def apply(self, variables, x, *, key=None, train=False):
        """The channels of all branches, and their new state."""
        results, state = [], {}
        for i, branch in enumerate(self.branches):
            name = str(i)
            own = Variables(variables.params.get(name, {}), variables.state.get(name, {}))
            inner = None if key is None else jax.random.fold_in(key, i)
            outputs, new = branch.apply(own, x, key=inner, train=train)
            results.append(outputs)
            if new:
                state[name] = new
        return jnp.concatenate(results, axis=-1), state


@jax.tree_util.register_static
@dataclass(frozen=True)
class Enlarge(Parameterless):
    """``factor`` times the height and width, bilinear between positions."""

    factor: int

    def apply(self, variables, x, *, key=None, train=False):
        """``[batch, height, width, channels]`` to so many times the size."""
        batch, height, width, channels = x.shape
        shape = (batch, self.factor * height, self.factor * width, channels)
        return jax.image.resize(x, shape, "bilinear"), variables.state


@jax.tree_util.register_static
@dataclass(frozen=True)
class DeepLab(Layered):
    """Residual stages, a pyramid of 3x3 convolutions at several ``rates``, a head for each pixel.

    ``widths`` and ``blocks`` are those of `ResNet`; all stages but the first halve the picture.
    The pyramid has a 1x1 convolution and one 3x3 convolution per rate, each of ``features``
    channels with norm and activation, joined by a 1x1 convolution. The head's outputs are enlarged
    to the picture's size. There is no pooling over the whole picture, so that tiles of it can be
    predicted on their own. Height and width must be multiples of ``2^(stages - 1)``, `multiple`.

    >>> network = DeepLab(outputs=3, widths=(4, 8), blocks=(1, 1), stem=4, features=4)
    >>> x = jnp.ones((1, 8, 12, 1))
    >>> network.apply(network.init(jax.random.key(0), x), x)[0].shape
    (1, 8, 12, 3)

    Reference: Chen, Papandreou, Schroff, Adam 2017, Rethinking atrous convolution for semantic
    image segmentation.
    """

    outputs: int
    widths: tuple[int, ...] = (16, 32, 64)
    blocks: tuple[int, ...] = (1, 1, 1)
    stem: int = 16
    rates: tuple[int, ...] = (1, 2, 4)
    features: int = 32
    norm: str = "batch"
    dropout: float = 0.0
    zero_head: bool = False
    implementation: str = "auto"
    kind: ClassVar[str] = "deeplab"

    def __post_init__(self):
        for name in ("widths", "blocks", "rates"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.rates or min(self.rates) < 1:
            raise InputError(f"rates is {self.rates}; give whole numbers from 1, such as (1, 2, 4)")
        if self.features < 1:
            raise InputError(f"features is {self.features}; it is at least 1")
        _ = self.layers  # a bad option is refused here, not at the first use

    @property
    def multiple(self) -> int:
        """What height and width, and the places of tiles, must be a multiple of."""
        return 2 ** (len(self.widths) - 1)

    def with_width(self, factor: float, groups: int = 1) -> "DeepLab":
        """Other numbers of channels, rounded up."""
        no_groups(self, groups)
        stem, features, *widths = scaled_widths((self.stem, self.features, *self.widths), factor)
        return dataclasses.replace(self, stem=stem, features=features, widths=tuple(widths))

    @property
    def layers(self) -> Sequential:
        """The layers, the head last but for the enlargement."""
        backbone = ResNet(
            self.outputs,
            self.widths,
            self.blocks,
            self.stem,
            norm=self.norm,
            implementation=self.implementation,
        )
        pyramid = (self._branch(1, 1), *(self._branch(3, rate) for rate in self.rates))
        thinned = (Dropout(self.dropout),) if self.dropout else ()
        head = Dense(self.outputs, initialiser="zeros" if self.zero_head else "lecun")
        body = backbone.layers.layers[:-2]  # without the mean over positions and its head
        joined = self._branch(1, 1).layers
        return Sequential(
            (*body, Parallel(pyramid), *joined, *thinned, head, Enlarge(self.multiple))
        )

    def _branch(self, window: int, rate: int) -> Sequential:
        conv = Conv(
            self.features,
            window,
            bias=False,
            initialiser="he",
            implementation=self.implementation,
        )
        activation = () if self.norm == "frn" else (Activation("relu"),)
        first = conv if rate == 1 else Dilated(conv, rate)
        return Sequential((first, NORMS[self.norm](), *activation))
