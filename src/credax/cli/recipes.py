"""Defaults that suit a data set: network, epochs, learning rate. Flags override each of them."""

from fnmatch import fnmatch

from credax.cli.config import Task
from credax.training.config import Training

_TABULAR = Training(
    epochs=100, batch_size=32, optimiser="adam", learning_rate=0.01, last_batch="pad"
)
_PICTURES = Training(epochs=5, batch_size=128, learning_rate=0.05)
_CIFAR = Training(epochs=30, batch_size=128, learning_rate=0.1, augment=("flip", "crop"))

RECIPES = {
    "digits": Task(network="mlp", training=Training(epochs=60, batch_size=128)),
    "*mnist": Task(network="cnn", training=_PICTURES),
    "svhn": Task(network="resnet20", training=_CIFAR.replace(augment=("crop",))),
    "cifar*": Task(network="resnet20", training=_CIFAR),
    "tiny-imagenet": Task(network="preact-resnet18", training=_CIFAR),
    "uci/*": Task(network="mlp", network_options=("hidden=(50,)",), training=_TABULAR),
    "toy/*": Task(
        network="mlp",
        network_options=("hidden=(50,50)",),
        training=_TABULAR.replace(epochs=300, batch_size=16),
    ),
    "*": Task(network="auto", training=_TABULAR),
}


def recipe(data: str, network: str = "auto") -> Task:
    """The defaults for a data set; options are those of its own network, not of another."""
    found = next(task for pattern, task in RECIPES.items() if fnmatch(data, pattern))
    own = network in ("auto", found.network)
    return Task(
        data=data,
        network=found.network,
        network_options=found.network_options if own else (),
        training=found.training,
    )
