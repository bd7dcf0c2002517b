"""Ensembles for the price of one network on CIFAR-10: ResNet-20 on a processor."""

from functools import partial

from credax.experiments.cost_and_quality import Evaluation, run
from credax.experiments.efficient_arms import ADAM, MEMBERS, baselines, efficient
from credax.experiments.efficient_ensembles import CORRUPTIONS, DESCRIPTION, test_scale
from credax.experiments.efficient_paper import CIFAR10, paper_scale
from credax.experiments.experiment import Data, Experiment, Scale
from credax.networks import build
from credax.training import Training

ROWS, EPOCHS, DRAWS = 1024, 8, 8


def cpu_scale(name: str, title: str, classes: int) -> Scale:
    """ResNet-20 on a few rows."""
    return Scale(
        data=Data(name, ROWS, 1000, (32, 32, 3), classes),
        network=partial(build, "resnet20"),
        training=Training(epochs=EPOCHS, batch_size=128, learning_rate=0.05),
        arms=(
            *baselines(MEMBERS, DRAWS, {"epochs": EPOCHS // MEMBERS}),
            *efficient(MEMBERS, DRAWS, ADAM),
        ),
        seeds=1,
        evaluation=Evaluation("svhn", 500, CORRUPTIONS, (1, 3, 5), 50, timed_rows=128),
        note=(
            f"{title}, {ROWS} training rows, ResNet-20, {EPOCHS} epochs of batches of 128 without "
            f"augmentation: far from trained; {MEMBERS} members (MIMO 3), {DRAWS} draws of MC "
            "dropout, SWAG, node-BNN and MNF; the deep ensemble of the same cost has a quarter of "
            "the epochs for each member; OOD data: SVHN; four generated corruptions of 50 test rows"
        ),
    )


EXPERIMENT = Experiment(
    name="efficient-ensembles-cifar10",
    title="Ensembles for the price of one network: CIFAR-10",
    description=DESCRIPTION,
    scales={
        "test": test_scale("cifar10", 10),
        "cpu": cpu_scale("cifar10", "CIFAR-10", 10),
        "paper": paper_scale("cifar10", 10),
    },
    run=run(CIFAR10),
)
