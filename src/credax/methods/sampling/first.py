"""How the networks are trained from which chains begin."""

import math

from credax.training import Training

RATE, PATIENCE, STEPS = 0.01, 10, 2000


def ensemble_training(training: Training, num_data: int) -> Training:
    """The training's own settings with early stopping; AdamW and enough steps where none is chosen.

    The best validated state of each network is kept. Chosen on validation rows of UCI sets.

    >>> ensemble_training(Training(), 500).optimiser
    'adamw'
    """
    changes = {"keep_best": True, "patience": training.patience or PATIENCE}
    if training.optimiser == "sgd" and training.learning_rate == Training.learning_rate:
        changes |= {"optimiser": "adamw", "learning_rate": RATE, "schedule": "constant"}
    training = training.replace(**changes)
    if training.epochs != Training.epochs:
        return training
    return training.replace(epochs=math.ceil(STEPS / training.steps_per_epoch(num_data)))
