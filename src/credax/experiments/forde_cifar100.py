"""CIFAR-100, clean and corrupted (Trinh et al. 2024, table 1)."""

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

TABLE_1 = Published(
    "table 1: ResNet18 on CIFAR-100 and CIFAR-100-C",
    f"{SOURCE}, table 1, 5 seeds",
    MEASURES,
    """
    node-BNN       | .74 ± .01 | 79.7 ± .3 | .054 ± .002 | 54.8 | 1.96 | .05
    SWAG           | .73 ± .01 | 79.4 ± .1 | .038 ± .001 | 53.0 | 2.03 | .05
    Deep ensemble  | .70 ± .00 | 81.8 ± .2 | .041 ± .003 | 54.3 | 1.99 | .05
    weight-RDE     | .70 ± .01 | 81.7 ± .3 | .043 ± .004 | 54.2 | 2.01 | .06
    function-RDE   | .76 ± .02 | 80.1 ± .4 | .042 ± .005 | 51.9 | 2.08 | .07
    feature-RDE    | .75 ± .04 | 82.1 ± .3 | .072 ± .023 | 54.8 | 2.02 | .06
    LIT            | .70 ± .00 | 81.9 ± .2 | .040 ± .003 | 54.4 | 1.98 | .05
    FoRDE-PCA      | .71 ± .00 | 81.4 ± .2 | .039 ± .002 | 56.1 | 1.90 | .05
    FoRDE-Identity | .70 ± .00 | 82.1 ± .2 | .043 ± .001 | 54.1 | 2.02 | .05
    FoRDE-Tuned    | .70 ± .00 | 82.1 ± .2 | .044 ± .002 | 55.3 | 1.94 | .05
    """,
)

DATA = Data("cifar100", 50_000, 10_000, SHAPE, 100)
PAPER = paper_scale(DATA, "resnet18", paper_training(300, 0.01), 0.4, 5e-3, "standard")

EXPERIMENT = Experiment(
    name="forde-cifar100",
    title="CIFAR-100",
    description=(
        "Ensembles of ResNet18 on CIFAR-100, clean and corrupted. The claim: FoRDE in the metric "
        "of the data's components is the best under corruption, FoRDE in the identity metric the "
        "best on clean images, and a mix of the two is nearly both."
    ),
    scales={
        "test": test_scale(SHAPE, 100, "cifar100"),
        "cpu": cpu_scale(Data("cifar100", 4096, 2000, SHAPE, 100)),
        "paper": PAPER,
    },
    run=run(TABLE_1),
)
