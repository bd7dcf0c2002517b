"""Ensembles for the price of one network: what they are worth against what they cost.

Fashion-MNIST with the small network at the size of a processor; the published setting is Wide
ResNet 28-10 on CIFAR-10.
"""

from functools import partial

from credax.experiments.cost_and_quality import Evaluation, run
from credax.experiments.efficient_arms import ADAM, MEMBERS, baselines, efficient
from credax.experiments.efficient_paper import CIFAR10, FASHION, paper_scale
from credax.experiments.experiment import Data, Experiment, Scale
from credax.networks import CNN, build
from credax.training import Training

DESCRIPTION = (
    "BatchEnsemble, Rank-1 BNN, node-BNN, LP-BNN, Masksembles, Packed-Ensembles, MIMO and MNF next "
    "to one network, deep ensembles with as many members and with the training cost of one "
    "network, MC dropout and SWAG. The claim: for little more than the cost of one network they "
    "lie between it and the deep ensemble."
)
CORRUPTIONS = ("gaussian_noise", "defocus_blur", "brightness", "contrast")


def test_scale(name: str, classes: int) -> Scale:
    """Generated images of 8 by 8 pixels and a network with one hidden layer, a few steps."""
    return Scale(
        data=Data(name, 128, 64, (8, 8, 1), classes, synthetic=True),
        network=partial(build, "mlp", hidden=(16,)),
        training=Training(epochs=4, batch_size=32, learning_rate=0.05),
        arms=(*baselines(2, 2, {"epochs": 2}), *efficient(2, 2, ADAM)),
        seeds=1,
        evaluation=Evaluation("", 32, ("brightness",), (1, 5), 32, timed_rows=64),
        note="generated images, not the published ones, 16 steps: shows that the program runs",
    )


ROWS, EPOCHS, DRAWS = 2048, 16, 8


def half_network(outputs: int) -> CNN:
    """The small network with half its channels and hidden units."""
    return CNN(outputs, (16, 32), dense=64)


CPU = Scale(
    data=Data("fashion-mnist", ROWS, 2000, (28, 28, 1), 10),
    network=half_network,
    training=Training(epochs=EPOCHS, batch_size=128, learning_rate=0.05),
    arms=(
        *baselines(MEMBERS, DRAWS, {"epochs": EPOCHS // MEMBERS}),
        *efficient(MEMBERS, DRAWS, ADAM),
    ),
    seeds=3,
    evaluation=Evaluation("mnist", 1000, CORRUPTIONS, (1, 3, 5), 200),
    note=(
        f"Fashion-MNIST, {ROWS} training rows, the small CNN with half its channels (16 and 32, 64 "
        f"hidden units), {EPOCHS} epochs of batches of 128; "
        f"{MEMBERS} members (MIMO 3), {DRAWS} draws of MC dropout, SWAG, node-BNN and MNF; the "
        "deep ensemble of the same cost has a quarter of the epochs for each member; OOD data: "
        "MNIST; four generated corruptions of 200 test rows"
    ),
)

EXPERIMENT = Experiment(
    name="efficient-ensembles",
    title="Ensembles for the price of one network",
    description=DESCRIPTION,
    scales={
        "test": test_scale("fashion-mnist", 10),
        "cpu": CPU,
        "paper": paper_scale("cifar10", 10),
    },
    run=run(FASHION, CIFAR10),
)
