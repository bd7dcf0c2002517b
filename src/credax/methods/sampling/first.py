"""How the networks are trained from which chains begin."""

import math
from typing import Any

from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.training import Training

RATE, PATIENCE, STEPS = 0.01, 10, 2000


def ensemble_first(modes: int, training: Training, num_data: int) -> tuple[Any, Training]:
    """A deep ensemble of as many networks as there are chains, and how it is trained."""
    return DeepEnsemble(modes), ensemble_training(training, num_data)


def whole_batches(training: Training, num_data: int, steps: int) -> Training:
    """One step of all rows per epoch; of the user's settings only how members run is left."""
    return Training(
        epochs=steps,
        batch_size=num_data,
        schedule="constant",
        strategy=training.strategy,
        members_at_once=training.members_at_once,
        stepping=training.stepping,
        placement=training.placement,
        checkpoint_every=training.checkpoint_every,
    )


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
