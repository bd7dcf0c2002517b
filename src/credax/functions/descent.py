"""How processes are trained where nothing is said: Adam, and enough steps."""

import math

from credax.training import Training

RATE = 0.01
"""Learning rate of Adam where none is chosen."""


def with_adam(training: Training) -> Training:
    """Adam in place of sgd, with rate 0.01 in place of the default one.

    Plain descent ends in the optimum without a function, where all is noise.

    >>> with_adam(Training()).optimiser
    'adam'
    """
    if training.optimiser != "sgd":
        return training
    default = training.learning_rate == Training.learning_rate
    rate = RATE if default else training.learning_rate
    return training.replace(optimiser="adam", learning_rate=rate)


def with_steps(training: Training, num_data: int, least: int) -> Training:
    """At least so many gradient steps: more epochs where those given have fewer.

    >>> with_steps(Training(epochs=5, batch_size=10), 100, 200).epochs
    20
    """
    epochs = math.ceil(least / training.steps_per_epoch(num_data))
    return training.replace(epochs=max(training.epochs, epochs))
