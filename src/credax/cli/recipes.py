"""Defaults that suit a data set: network, epochs, learning rate. Flags override each of them."""

import dataclasses
import os
from fnmatch import fnmatch

from credax.cli.config import PIXEL_TASKS, Task, peek
from credax.training.config import Training

_TABULAR = Training(
    epochs=100, batch_size=32, optimiser="adam", learning_rate=0.01, last_batch="pad"
)
_PICTURES = Training(epochs=5, batch_size=128, learning_rate=0.05)
_CIFAR = Training(epochs=30, batch_size=128, learning_rate=0.1, augment=("flip", "crop"))

HELD = 0.15
"""Share held out for validation where the data is a user's own: `predict` learns from it."""
_FOLDER = Task(
    network="cnn",
    training=Training(
        epochs=30, batch_size=32, optimiser="adam", learning_rate=1e-3, last_batch="pad"
    ),
)

# Small tables are fitted exactly in a few epochs, and some need thousands of steps: every network
# stops by itself when the validation rows say so, and its best epoch is kept.
_TABLE = Task(
    network="auto",
    weight_decay=None,
    training=_TABULAR.replace(
        epochs=300, optimiser="adamw", learning_rate=0.003, keep_best=True, patience=30
    ),
)
_WITHOUT_STOPPING = 60
"""Epochs on a table of methods that cannot stop early."""
_MOST_STEPS = 30_000
"""Of early stopping on a large table."""

# Tasks: one step takes 16 of them, as the references do.
_TASKS = Task(
    network="mlp",
    network_options=("hidden=(1,)",),
    training=Training(epochs=10, batch_size=16, optimiser="adam", learning_rate=1e-3),
)

# Pictures with a target at every pixel.
_PIXELS = Task(
    network="unet",
    training=Training(
        epochs=40, batch_size=16, optimiser="adam", learning_rate=3e-3, last_batch="pad"
    ),
)

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
    "tasks/*": _TASKS,
    "pixels/*": _PIXELS,
    "*": Task(network="auto", training=_TABULAR),
}


def recipe_of(flags: list[str]) -> Task:
    """The defaults for the data that flags name, before the flags are read."""
    data = peek(flags, "--data", Task.data)
    target, root = peek(flags, "--target", ""), peek(flags, "--data-dir", "")
    # Sets by name come first, as in `credax.data.load`; a trailing separator says it is a folder.
    named = any(fnmatch(data, pattern) for pattern in RECIPES if pattern != "*")
    folder = os.path.isdir(os.path.join(root, data)) and (data.endswith("/") or not named)
    found = recipe(data, peek(flags, "--network", Task.network))
    tables = folder and any(
        n.endswith((".csv", ".tsv")) for n in os.listdir(os.path.join(root, data))
    )
    if tables:  # one task in each
        return dataclasses.replace(_TASKS, data=data)
    if folder and peek(flags, "--task", Task.task) in PIXEL_TASKS:
        return dataclasses.replace(_PIXELS, data=data, validation=HELD)
    found = _FOLDER if folder else _TABLE if target else found
    held = HELD if folder or target else found.validation
    return dataclasses.replace(found, data=data, validation=held)


def for_rows(training: Training, rows: int) -> Training:
    """The settings with the default batch of a user's own data no larger than that data.

    On a large table the default number of epochs is smaller.
    """
    defaults = (_TABULAR.batch_size, _TASKS.training.batch_size)  # the second of pixels too
    if training.batch_size in defaults and training.batch_size > rows:
        training = training.replace(batch_size=rows)
    table = _TABLE.training
    if (training.epochs, training.patience) != (table.epochs, table.patience):
        return training
    most = max(table.patience or 1, _MOST_STEPS // training.steps_per_epoch(rows))
    return training.replace(epochs=min(training.epochs, most))


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


def for_method(training: Training, record: type, flags: list[str]) -> Training:
    """The training without early stopping, where the recipe set it and no best epoch exists.

    Methods that collect along a trajectory, or sample, keep more than one network; those that train
    an ensemble first stop that early. Neural processes take a lower rate than a table's recipe.
    """
    from credax.functions.process_record import RATE, NeuralProcessRecord
    from credax.methods.ensemble import Ensemble
    from credax.methods.ensembles.single import Single
    from credax.methods.sampling.mile import MILE

    given = {flag.split("=")[0] for flag in flags}
    if issubclass(record, NeuralProcessRecord):
        slow = training.optimiser not in ("adam", "adamw") or training.learning_rate <= RATE
        slow = slow or "--learning-rate" in given
        training = training if slow else training.replace(learning_rate=RATE)
    chosen = given & {"--keep-best", "--no-keep-best", "--patience"}
    if chosen or not training.keep_best or issubclass(record, (Ensemble, Single, MILE)):
        return training
    epochs = training.epochs if "--epochs" in given else _WITHOUT_STOPPING
    return training.replace(keep_best=False, patience=None, epochs=epochs)
