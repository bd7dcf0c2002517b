"""Residual networks for small images: a 3x3 stem and no max-pool.

Convolutions have no bias and start as a normal of scale ``1 / sqrt(fan_in)`` cut at two standard
deviations; padding is SAME (at stride 2 on even sizes, zeros only at the far edges); the head
follows a mean over all positions and starts by LeCun's rule, or at zero with ``zero_head``.
``norm`` is "batch", "group", or "frn", whose threshold stands in for the activation that follows a
norm (the one after each sum stays a relu) unless ``activation`` is another than relu, which then
follows every norm and every sum. ``padding="CENTRED"`` pads as other libraries do at stride 2.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from credax.errors import InputError, unknown
from credax.network import Network
from credax.networks.convolution import Conv, Padding
from credax.networks.layers import Activation, Dense, Dropout, Parameterless
from credax.networks.normalisation import BatchNorm, FilterResponseNorm, GroupNorm
from credax.networks.pooling import GlobalAveragePool
from credax.networks.sequential import Layered, Residual, Sequential
from credax.networks.width import scaled_widths

NORMS: dict[str, Callable[[], Network]] = {
    "batch": BatchNorm,
    "frn": FilterResponseNorm,
    "group": GroupNorm,
}


@jax.tree_util.register_static
@dataclass(frozen=True)
class PaddedShortcut(Parameterless):
    """Every ``stride``-th position, with zero channels on both sides up to ``features``.

    The parameter-free shortcut of the CIFAR networks of He et al. 2016 (option A).
    """

    features: int
    stride: int

    def apply(self, variables, x, *, key=None, train=False):
        """``[batch, height, width, channels]`` to fewer positions and more channels."""
        missing = self.features - x.shape[-1]
        widths = ((0, 0), (0, 0), (0, 0), (missing // 2, missing - missing // 2))
        return jnp.pad(x[:, :: self.stride, :: self.stride], widths), variables.state


@dataclass(frozen=True)
class _Parts:
    """The pieces all residual networks are made of, under one set of options."""

    norm: str
    implementation: str
    activation: str = "relu"
    padding: Padding = "SAME"
    groups: int = 1

    def conv(self, features: int, window: int = 3, stride: int = 1) -> Conv:
        return Conv(
            features,
            window,
            stride,
            self.padding,
            self.groups,
            bias=False,
            initialiser="truncated",
            implementation=self.implementation,
        )

    def normalise(self) -> Network:
        return NORMS[self.norm]()

    def activated(self) -> tuple[Network, ...]:
        """Norm and activation, or the norm that carries its own threshold."""
        alone = self.norm == "frn" and self.activation == "relu"
        return (self.normalise(),) if alone else (self.normalise(), Activation(self.activation))

    def basic(self, features: int, stride: int, shortcut: Network | None) -> Network:
        body = (self.conv(features, 3, stride), *self.activated(), self.conv(features))
        return Residual(Sequential((*body, self.normalise())), shortcut, self.activation)

    def bottleneck(self, features: int, stride: int, shortcut: Network | None) -> Network:
        body = (
            self.conv(features // 4, 1),
            *self.activated(),
            self.conv(features // 4, 3, stride),
            *self.activated(),
            self.conv(features, 1),
            self.normalise(),
        )
        return Residual(Sequential(body), shortcut, self.activation)

    def preactivated(self, features: int, stride: int, project: bool, rate: float = 0) -> Network:
        thinned = (Dropout(rate),) if rate else ()
        body = (self.conv(features, 3, stride), *self.activated(), *thinned, self.conv(features))
        if not project:
            return Residual(Sequential((*self.activated(), *body)))
        shortcut = self.conv(features, 1, stride)
        return Sequential((*self.activated(), Residual(Sequential(body), shortcut)))

    def projection(self, features: int, stride: int) -> Network:
        return Sequential((self.conv(features, 1, stride), self.normalise()))


_BLOCKS = ("basic", "bottleneck", "preactivated")


@jax.tree_util.register_static
@dataclass(frozen=True)
class ResNet(Layered):
    """Stages of residual blocks; all but the first stage start with stride 2.

    ``widths`` and ``blocks`` are the channels and the number of blocks of each stage, ``block`` is
    "basic" (two 3x3), "bottleneck" (1x1, 3x3, 1x1 with a quarter of the channels inside) or
    "preactivated" (norm and activation before each convolution, a last pair before the head).
    ``padded_shortcuts`` replaces 1x1 projections by zero channels. ``dropout`` sits inside
    pre-activated blocks, and ``groups`` are those of all convolutions but the first. Use
    `ResNet18`, `ResNet20`, ... for the published ones.

    >>> network = ResNet(outputs=10, widths=(4, 8), blocks=(1, 1), stem=4)
    >>> variables = network.init(jax.random.key(0), jnp.ones((1, 8, 8, 3)))
    >>> network.apply(variables, jnp.ones((2, 8, 8, 3)))[0].shape
    (2, 10)

    Reference: He et al. 2016, Deep residual learning; Identity mappings in deep residual networks.
    """

    outputs: int
    widths: tuple[int, ...]
    blocks: tuple[int, ...]
    stem: int
    block: str = "basic"
    padded_shortcuts: bool = False
    norm: str = "batch"
    zero_head: bool = False
    dropout: float = 0.0
    implementation: str = "auto"
    activation: str = "relu"
    padding: Padding = "SAME"
    groups: int = 1
    kind: ClassVar[str] = "resnet"

    def __post_init__(self):
        if self.block not in _BLOCKS:
            raise unknown("block", self.block, _BLOCKS)
        if self.norm not in NORMS:
            raise unknown("norm", self.norm, NORMS)
        if len(self.widths) != len(self.blocks):
            raise InputError(
                f"widths has {len(self.widths)} stages and blocks {len(self.blocks)}; "
                "give both one number per stage"
            )
        if self.dropout and self.block != "preactivated":
            raise InputError(
                f"dropout is {self.dropout} in a {self.block} network; "
                "it exists inside pre-activated blocks only, so set it to 0"
            )
        _ = self.layers  # a bad option is refused here, not at the first use

    def with_width(self, factor: float, groups: int = 1) -> "ResNet":
        """Other numbers of channels, rounded up."""
        unit = groups * (4 if self.block == "bottleneck" else 1)
        widths = scaled_widths((self.stem, *self.widths), factor, unit)
        return dataclasses.replace(self, stem=widths[0], widths=widths[1:], groups=groups)

    @property
    def layers(self) -> Sequential:
        """The layers, the head last."""
        parts = _Parts(self.norm, self.implementation, self.activation, self.padding, self.groups)
        preactivated, channels = self.block == "preactivated", self.stem
        stem = dataclasses.replace(parts, groups=1).conv(self.stem)
        layers = [stem, *(() if preactivated else parts.activated())]
        for stage, (width, count) in enumerate(zip(self.widths, self.blocks, strict=True)):
            for index in range(count):
                stride = 2 if stage > 0 and index == 0 else 1
                layers.append(self._block(parts, channels, width, stride))
                channels = width
        layers += [*(parts.activated() if preactivated else ()), GlobalAveragePool()]
        head = Dense(self.outputs, initialiser="zeros" if self.zero_head else "lecun")
        return Sequential((*layers, head))

    def _block(self, parts: _Parts, channels: int, width: int, stride: int) -> Network:
        changes = stride != 1 or channels != width
        if self.block == "preactivated":
            return parts.preactivated(width, stride, changes, self.dropout)
        shortcut = None
        if changes and self.padded_shortcuts:
            shortcut = PaddedShortcut(width, stride)
        elif changes:
            shortcut = parts.projection(width, stride)
        make = parts.basic if self.block == "basic" else parts.bottleneck
        return make(width, stride, shortcut)


def ResNet18(
    outputs: int,
    *,
    norm: str = "batch",
    zero_head: bool = False,
    activation: str = "relu",
    padding: Padding = "SAME",
    implementation: str = "auto",
) -> ResNet:
    """Four stages of two basic blocks, 64 to 512 channels (11.17 million numbers)."""
    return ResNet(
        outputs,
        widths=(64, 128, 256, 512),
        blocks=(2, 2, 2, 2),
        stem=64,
        norm=norm,
        zero_head=zero_head,
        implementation=implementation,
        activation=activation,
        padding=padding,
    )


def ResNet20(
    outputs: int,
    *,
    norm: str = "batch",
    zero_head: bool = False,
    padded_shortcuts: bool = True,
    activation: str = "relu",
    padding: Padding = "SAME",
    implementation: str = "auto",
) -> ResNet:
    """Three stages of three basic blocks, 16 to 64 channels, padded shortcuts (0.27 million)."""
    return ResNet(
        outputs,
        widths=(16, 32, 64),
        blocks=(3, 3, 3),
        stem=16,
        padded_shortcuts=padded_shortcuts,
        norm=norm,
        zero_head=zero_head,
        implementation=implementation,
        activation=activation,
        padding=padding,
    )


def ResNet50(
    outputs: int, *, norm: str = "batch", zero_head: bool = False, implementation: str = "auto"
) -> ResNet:
    """Stages of 3, 4, 6 and 3 bottleneck blocks, 256 to 2048 channels (23.5 million)."""
    return ResNet(
        outputs,
        widths=(256, 512, 1024, 2048),
        blocks=(3, 4, 6, 3),
        stem=64,
        block="bottleneck",
        norm=norm,
        zero_head=zero_head,
        implementation=implementation,
    )


def PreActResNet18(
    outputs: int, *, norm: str = "batch", zero_head: bool = False, implementation: str = "auto"
) -> ResNet:
    """`ResNet18` with norm and activation before each convolution; no norm on the shortcuts."""
    return ResNet(
        outputs,
        widths=(64, 128, 256, 512),
        blocks=(2, 2, 2, 2),
        stem=64,
        block="preactivated",
        norm=norm,
        zero_head=zero_head,
        implementation=implementation,
    )


def WideResNet(
    depth: int,
    widen: int,
    outputs: int,
    *,
    norm: str = "batch",
    zero_head: bool = False,
    dropout: float = 0.0,
    implementation: str = "auto",
) -> ResNet:
    """Three stages of ``(depth - 4) / 6`` pre-activated blocks, ``widen`` times 16 to 64 channels.

    WRN-16-4 has 2.75 million numbers for 10 classes. Reference: Zagoruyko and Komodakis 2016.
    """
    if depth < 10 or (depth - 4) % 6:
        raise InputError(f"depth is {depth}; a wide ResNet has depth 10, 16, 22, 28, ... (6 n + 4)")
    count = (depth - 4) // 6
    return ResNet(
        outputs,
        widths=(16 * widen, 32 * widen, 64 * widen),
        blocks=(count, count, count),
        stem=16,
        block="preactivated",
        norm=norm,
        zero_head=zero_head,
        dropout=dropout,
        implementation=implementation,
    )
