"""Published figures of efficient ensembles, and the recipes behind them.

Wide ResNet 28-10 as in google/uncertainty-baselines (baselines/cifar): 250 epochs, batches of 128,
SGD with Nesterov momentum 0.9 at rate 0.1 after one epoch of warm-up, times 0.2 at two fifths, four
fifths and nine tenths of the training (epochs 80, 160 and 180 of 200), l2 of 3e-4, four members,
flips and crops.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp

from credax.experiments.cost_and_quality import Evaluation
from credax.experiments.efficient_arms import ADAM, MEMBERS, baselines, efficient
from credax.experiments.experiment import Arm, Data, Scale
from credax.experiments.published import Measure, Published
from credax.methods.dropout.mc_dropout import MCDropout
from credax.methods.ensembles.batch_ensemble import BatchEnsemble
from credax.methods.ensembles.mimo import MIMO
from credax.methods.ensembles.node_bnn import NodeBNN
from credax.methods.ensembles.rank_one_bnn import Rank1BNN
from credax.methods.trajectory.swag import SWAG
from credax.networks import build
from credax.training import Training

SOURCE = (
    "README of baselines/cifar in google/uncertainty-baselines; MC dropout is its improved one (30 "
    "samples); SWAG: Izmailov et al. 2019 as cited there; corrupted rows are those of CIFAR-10-C "
    "and its like, ours are generated"
)
MEASURES = (
    Measure("nll", "NLL"),
    Measure("accuracy", "acc %", 100, 1),
    Measure("ece", "ECE", decimals=4),
    Measure("corrupted_nll", "cNLL", decimals=2),
    Measure("stored_numbers", "numbers, 1e6", 1e-6, 1),
)
CIFAR10 = Published(
    "Wide ResNet 28-10 on CIFAR-10",
    SOURCE,
    MEASURES,
    """
    Single network     | .159  | 96.0  | .0231 | 1.05 | 36.5
    Deep ensemble      | .114  | 96.6  | .010  | .81  | 146
    MC dropout         | .116  | 96.2  | .005  | .69  | 36.5
    SWAG               | .1122 | 96.41 | -     | -    | 803
    BatchEnsemble      | .136  | 96.3  | .0177 | .97  | 36.6
    Rank-1 BNN         | .128  | 96.3  | .008  | .84  | 36.6
    Rank-1 BNN, Cauchy | .120  | 96.5  | .009  | .74  | 36.6
    MIMO               | .123  | 96.4  | .010  | .927 | 36.5
    """,
)
CIFAR100 = Published(
    "Wide ResNet 28-10 on CIFAR-100",
    SOURCE,
    MEASURES,
    """
    Single network     | .875  | 79.8  | .0857 | 2.70 | 36.5
    Deep ensemble      | .666  | 82.7  | .021  | 2.27 | 146
    MC dropout         | .637  | 82.1  | .028  | 1.93 | 36.5
    SWAG               | .6078 | 82.23 | -     | -    | 803
    BatchEnsemble      | .690  | 81.9  | .0265 | 2.56 | 36.6
    Rank-1 BNN         | .692  | 81.3  | .018  | 2.24 | 36.6
    Rank-1 BNN, Cauchy | .689  | 82.4  | .012  | 2.04 | 36.6
    MIMO               | .690  | 82.0  | .022  | 2.28 | 36.5
    """,
)
FASHION = Published(
    "LeNet-5 on all of Fashion-MNIST, ten members",
    "google/uncertainty-baselines",
    MEASURES[:2],
    """
    Single network | .321 | 91.0
    Deep ensemble  | .200 | 93.2
    """,
)

EPOCHS, ROWS, BATCH = 250, 50_000, 128


@dataclass(frozen=True)
class Drops:
    """A learning rate that rises in a line, and is multiplied by ``ratio`` at some epochs.

    >>> rate = Drops(0.1, 0.2, (2, 4), 1, 10)
    >>> [round(float(rate(step)), 4) for step in (0, 4, 10, 19, 20, 40)]
    [0.01, 0.05, 0.1, 0.1, 0.02, 0.004]
    """

    rate: float
    ratio: float
    epochs: tuple[int, ...]
    warmup_epochs: float
    steps_per_epoch: int

    def __call__(self, step: Any) -> Any:
        """The rate at a step."""
        passed = sum(step >= epoch * self.steps_per_epoch for epoch in self.epochs)
        rise = jnp.minimum(1.0, (step + 1) / (self.warmup_epochs * self.steps_per_epoch))
        return self.rate * rise * jnp.power(self.ratio, passed)


def recipe(epochs: int) -> dict[str, Any]:
    """The published training for so many epochs, its drops where they are in 200."""
    drops = tuple(epoch * epochs // 200 for epoch in (80, 160, 180))
    return {"epochs": epochs, "learning_rate": Drops(0.1, 0.2, drops, 1, ROWS // BATCH)}


def paper_scale(name: str, classes: int) -> Scale:
    """Wide ResNet 28-10 on all rows."""
    return Scale(
        data=Data(name, ROWS, 10_000, (32, 32, 3), classes),
        network=partial(build, "wide-resnet-28-10"),
        training=Training(batch_size=BATCH, augment=("flip", "crop"), **recipe(EPOCHS)),
        arms=_arms(),
        seeds=3,
        # Their l2 multiplies the sum of squares, a weight decay half of it.
        weight_decay=6e-4,
        evaluation=Evaluation("svhn", 26_032, _KINDS, (1, 2, 3, 4, 5), 10_000),
        note=(
            "the settings of google/uncertainty-baselines: members see every row (batch='tile'), "
            "MIMO repeats a batch four times; SWAG, node-BNN and MNF as their papers say where "
            "they do; nothing is published for LP-BNN, Masksembles, Packed-Ensembles and MNF in "
            "this setting; corruptions are generated, not the published files; OOD data: SVHN"
        ),
    )


def _arms() -> tuple[Arm, ...]:
    published = {
        "mc-dropout": MCDropout(samples=30),
        "swag": SWAG(start=160 / 300),
        "batch-ensemble": BatchEnsemble(members=MEMBERS, batch="tile"),
        "rank1-bnn": Rank1BNN(batch="tile"),
        "node-bnn": NodeBNN(batch="tile", prior_std=0.4, annealing=200 / EPOCHS),
        "mimo": MIMO(),
    }
    # Clipping is for few rows: the published trainings have none.
    trainings = {
        "swag": {"epochs": 300, "learning_rate": 0.1},
        "node-bnn": {},
        "lp-bnn": {},
    }
    every = (
        *baselines(MEMBERS, 30, recipe(EPOCHS // MEMBERS)),
        *efficient(MEMBERS, 30, ADAM),
    )
    arms = [
        Arm(
            arm.name,
            arm.label,
            published.get(arm.name, arm.method),
            training=trainings.get(arm.name, arm.training),
        )
        for arm in every
    ]
    cauchy = Arm(
        "rank1-cauchy", "Rank-1 BNN, Cauchy", Rank1BNN(batch="tile", distribution="cauchy")
    )
    place = 1 + [arm.name for arm in arms].index("rank1-bnn")
    return (*arms[:place], cauchy, *arms[place:])


_KINDS = (
    "gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur", "motion_blur",
    "zoom_blur", "snow", "frost", "fog", "brightness", "contrast", "elastic_transform", "pixelate",
    "jpeg_compression",
)  # fmt: skip
