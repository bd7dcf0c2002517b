"""TinyImageNet, clean and corrupted (Trinh et al. 2024, table 4)."""

from functools import partial

from credax.experiments.experiment import Data, Experiment, Scale
from credax.experiments.forde_images import (
    MEASURES,
    MEMBERS,
    SOURCE,
    all_arms,
    cpu_scale,
    paper_network,
    paper_training,
    run,
    test_scale,
)
from credax.experiments.published import Published
from credax.experiments.shift import Shift
from credax.networks import build

NAME = "tiny-imagenet"

TABLE_4 = Published(
    "table 4: PreActResNet18 on TinyImageNet and TinyImageNet-C",
    f"{SOURCE}, table 4, 5 seeds",
    MEASURES,
    """
    node-BNN      | 1.39 ± .01 | 67.6 ± .3 | .114 ± .004 | 30.4 | 3.40 | .05
    SWAG          | 1.39 ± .01 | 66.6 ± .3 | .020 ± .005 | 28.4 | 3.72 | .11
    Deep ensemble | 1.15 ± .00 | 71.6 ± .0 | .035 ± .002 | 31.8 | 3.38 | .09
    weight-RDE    | 1.15 ± .01 | 71.5 ± .0 | .036 ± .003 | 31.7 | 3.39 | .09
    function-RDE  | 1.21 ± .02 | 70.2 ± .5 | .036 ± .004 | 31.1 | 3.43 | .10
    feature-RDE   | 1.24 ± .01 | 72.0 ± .1 | .100 ± .003 | 31.9 | 3.35 | .09
    LIT           | 1.15 ± .00 | 71.5 ± .0 | .035 ± .002 | 31.2 | 3.40 | .11
    FoRDE-PCA     | 1.16 ± .00 | 71.4 ± .0 | .033 ± .002 | 32.2 | 3.28 | .08
    """,
)

PAPER = Scale(
    data=Data(NAME, 100_000, 10_000, (64, 64, 3), 200),
    network=partial(paper_network, "preact-resnet18"),
    # The paper's text says 1e-1 to 1e-3; the released command, which this follows, ends at 1e-4.
    training=paper_training(150, 0.001),
    arms=tuple(
        arm
        for arm in all_arms(MEMBERS, 0.4, 5e-3, partial(build, "preact-resnet18"))
        if arm.name not in ("forde-identity", "forde-tuned")
    ),
    seeds=5,
    evaluation=Shift("main"),
    note=(
        "the README's settings; corrupted rows are generated corruptions of 15 kinds, not the "
        "published files"
    ),
)

EXPERIMENT = Experiment(
    name="forde-tinyimagenet",
    title="TinyImageNet",
    description=(
        "Ensembles of PreActResNet18 on TinyImageNet, clean and corrupted. The claim: FoRDE in the "
        "metric of the data's components is the best under corruption and as good as a deep "
        "ensemble on clean images."
    ),
    scales={
        "test": test_scale((64, 64, 3), 200, NAME),
        "cpu": cpu_scale(
            Data(NAME, 4096, 1000, (32, 32, 3), 20, options={"classes": 20, "size": 32})
        ),
        "paper": PAPER,
    },
    run=run(TABLE_4),
)
