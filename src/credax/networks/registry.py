"""Networks by name, for the command line and for saved configurations."""

import inspect
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from credax.errors import unknown
from credax.network import Network
from credax.networks.atrous import DeepLab
from credax.networks.cnn import CNN, LeNet5, OptuNet
from credax.networks.mlp import MLP
from credax.networks.resnet import PreActResNet18, ResNet18, ResNet20, ResNet50, WideResNet
from credax.networks.unet import UNet


class Entry(NamedTuple):
    """How to make a network, the options it starts from, and what it is in one line."""

    make: Callable[..., Network]
    defaults: dict[str, Any]
    description: str


_NETWORKS = {
    "mlp": Entry(MLP, {"hidden": (64, 64)}, "dense layers; images are flattened"),
    "lenet5": Entry(LeNet5, {}, "two 5x5 convolutions and three dense layers (LeCun 1998)"),
    "cnn": Entry(CNN, {}, "two 3x3 convolutions with pooling and two dense layers"),
    "optunet": Entry(OptuNet, {}, "355 numbers: a 4x4 and a grouped 5x5 convolution (OptuMNIST)"),
    "resnet18": Entry(ResNet18, {}, "residual, 64 to 512 channels, 11.2 million parameters"),
    "resnet20": Entry(ResNet20, {}, "residual, 16 to 64 channels, 0.27 million parameters"),
    "resnet50": Entry(ResNet50, {}, "bottleneck residual, 23.5 million parameters"),
    "preact-resnet18": Entry(PreActResNet18, {}, "resnet18 with norm and relu first"),
    "wide-resnet": Entry(
        WideResNet, {"depth": 16, "widen": 4}, "wide residual; also as wide-resnet-DEPTH-WIDEN"
    ),
    "deeplab": Entry(DeepLab, {}, "residual network and atrous convolutions, for every pixel"),
    "unet": Entry(UNet, {}, "U-Net: a prediction per pixel, 16 to 64 channels at three sizes"),
}


def names() -> tuple[str, ...]:
    """The names `build` knows."""
    return tuple(_NETWORKS)


def describe(name: str) -> str:
    """One line about a network.

    >>> describe("mlp")
    'dense layers; images are flattened'
    """
    return _entry(name).description


def options(name: str) -> dict[str, Any]:
    """The options of a network and their defaults.

    >>> options("wide-resnet-28-10")["widen"]
    10
    """
    entry = _entry(name)
    parameters = inspect.signature(entry.make).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.name != "outputs"}
    return {**defaults, **entry.defaults}


def build(name: str, outputs: int, **chosen: Any) -> Network:
    """A network by name: ``mlp``, ``cnn``, ``resnet20``, ``wide-resnet-16-4``, ...

    >>> build("mlp", 10, hidden=(32,), activation="tanh").hidden
    (32,)
    """
    known = options(name)
    for option in chosen:
        if option not in known:
            raise unknown(f"option of network '{name}'", option, known)
    return _entry(name).make(outputs=outputs, **{**_entry(name).defaults, **chosen})


def _entry(name: str) -> Entry:
    wide = re.fullmatch(r"wide-resnet-(\d+)-(\d+)", name)
    if wide:
        entry = _NETWORKS["wide-resnet"]
        return entry._replace(defaults={"depth": int(wide[1]), "widen": int(wide[2])})
    if name not in _NETWORKS:
        raise unknown("network", name, _NETWORKS)
    return _NETWORKS[name]
