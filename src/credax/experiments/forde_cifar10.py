"""CIFAR-10, clean and corrupted (Trinh et al. 2024, table 2)."""

from credax.experiments.experiment import Data, Experiment
from credax.experiments.forde_images import (
    MEASURES,
    SOURCE,
    cpu_scale,
    paper_scale,
    paper_training,
    run,
    test_scale,
)
from credax.experiments.published import Published

SHAPE = (32, 32, 3)

TABLE_2 = Published(
    "table 2: ResNet18 on CIFAR-10 and CIFAR-10-C",
    f"{SOURCE}, table 2, 5 seeds",
    MEASURES,
    """
    node-BNN       | .127 ± .009 | 95.9 ± .3 | .006 ± .002 | 78.2 | .82 | .09
    SWAG           | .124 ± .001 | 96.9 ± .1 | .005 ± .001 | 77.5 | .78 | .07
    Deep ensemble  | .117 ± .001 | 96.3 ± .1 | .005 ± .001 | 78.1 | .78 | .08
    weight-RDE     | .117 ± .002 | 96.2 ± .1 | .005 ± .001 | 78.0 | .78 | .08
    function-RDE   | .128 ± .001 | 95.8 ± .2 | .006 ± .001 | 77.1 | .81 | .08
    feature-RDE    | .116 ± .001 | 96.4 ± .1 | .004 ± .001 | 78.1 | .77 | .08
    LIT            | .116 ± .001 | 96.4 ± .1 | .004 ± .001 | 78.2 | .78 | .09
    FoRDE-PCA      | .125 ± .001 | 96.1 ± .1 | .006 ± .001 | 80.5 | .71 | .07
    FoRDE-Identity | .113 ± .002 | 96.3 ± .1 | .005 ± .001 | 78.0 | .80 | .08
    FoRDE-Tuned    | .114 ± .002 | 96.4 ± .1 | .005 ± .001 | 79.1 | .74 | .07
    """,
)

DATA = Data("cifar10", 50_000, 10_000, SHAPE, 10)
PAPER = paper_scale(DATA, "resnet18", paper_training(300, 0.01), 0.2, 1e-3, "standard")

EXPERIMENT = Experiment(
    name="forde-cifar10",
    title="CIFAR-10",
    description=(
        "Ensembles of ResNet18 on CIFAR-10, clean and corrupted. The claim: in the metric of the "
        "data's components FoRDE loses less under corruption than every other ensemble, at a "
        "small cost in clean accuracy."
    ),
    scales={
        "test": test_scale(SHAPE, 10, "cifar10"),
        "cpu": cpu_scale(Data("cifar10", 4096, 2000, SHAPE, 10)),
        "paper": PAPER,
    },
    run=run(TABLE_2),
)
