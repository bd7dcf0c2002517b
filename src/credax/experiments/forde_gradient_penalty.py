"""A penalty on gradient cosines in the metric of PCA against the repulsion (unpublished)."""

from dataclasses import replace
from typing import Literal

from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Experiment, Outcome
from credax.experiments.forde_cifar10 import PAPER
from credax.experiments.forde_digits import CPU, SMALL, digits_scale, ensemble
from credax.experiments.forde_images import EPS, MEMBERS
from credax.experiments.shift import corruption_outcome, study
from credax.methods.repulsive.forde import FoRDE
from credax.methods.repulsive.lit import LIT

STRENGTHS = (0.01, 0.1, 1.0)


METRICS: tuple[tuple[Literal["pca", "identity"], str], ...] = (
    ("pca", "PCA"),
    ("identity", "Identity"),
)


def arms(members: int, **options) -> tuple[Arm, ...]:
    """The deep ensemble, FoRDE-PCA, and the penalty in both metrics at several strengths.

    The penalty looks at the same gradient as FoRDE, that of the true class's logit, and is averaged
    over the batch, so that strengths mean the same for any batch size.
    """
    penalties = [
        Arm(
            f"lit-{metric}-{strength:g}",
            f"LIT-{label}, strength {strength:g}",
            LIT(
                members,
                strength=strength,
                lengthscale=metric,
                gradient_of="logit",
                reduction="mean",
            ),
        )
        for metric, label in METRICS
        for strength in STRENGTHS
    ]
    return (
        ensemble(members),
        Arm("forde-pca", "FoRDE-PCA", FoRDE(members, **options)),
        *penalties,
    )


def run(bench: Bench) -> Outcome:
    """Clean and corrupted scores, and how far apart the gradients are."""
    return corruption_outcome(study(bench))


EXPERIMENT = Experiment(
    name="forde-gradient-penalty",
    title="Penalty against repulsion",
    description=(
        "Is it the kernel, or only that gradients are made to differ in the right metric? A "
        "penalty on squared cosines (LIT) in the metric of the data's components, against "
        "FoRDE-PCA. The comparison has not been published."
    ),
    scales={
        "test": digits_scale(arms(3), 1, SMALL, small=True),
        "cpu": digits_scale(arms(10), 5, CPU),
        "paper": replace(
            PAPER,
            arms=arms(MEMBERS, eps=EPS),
            note="CIFAR-10 at the README's settings; nothing of the kind has been published",
        ),
    },
    run=run,
)
