"""The first layer's prior from the inputs' covariance (Trinh et al. 2024, table 3, figure 10)."""

from dataclasses import replace

import jax
import jax.numpy as jnp

from credax.covariance_prior import InputCovariancePrior, input_covariance_prior
from credax.data import Split
from credax.experiments.experiment import Arm, Data, Experiment
from credax.experiments.forde_cifar10 import PAPER, SHAPE
from credax.experiments.forde_digits import ensemble
from credax.experiments.forde_images import (
    EPS,
    MEASURES,
    MEMBERS,
    SOURCE,
    cpu_scale,
    run,
    test_scale,
)
from credax.experiments.published import Published
from credax.methods.repulsive.forde import FoRDE
from credax.network import Network, Variables
from credax.networks import Sequential

TABLE_3 = Published(
    "table 3: ResNet18 on CIFAR-10 and CIFAR-10-C, the prior from the inputs' covariance",
    f"{SOURCE}, table 3, 5 seeds; table 2 for the deep ensemble with weight decay",
    MEASURES,
    """
    Deep ensemble             | .117 | 96.3 | .005 | 78.1 | .78 | .08
    Deep ensemble, covariance | .119 | 96.2 | .006 | 78.7 | .76 | .08
    FoRDE-PCA                 | .125 | 96.1 | .006 | 80.5 | .71 | .07
    """,
)
ROWS = 2000


def prior(train: Split, network: Network, weight_decay: float) -> InputCovariancePrior:
    """From the first rows, as the first layer with parameters sees them."""
    assert train.inputs is not None
    x = jnp.asarray(train.inputs(train.x[:ROWS]), jnp.float32)
    params = jax.eval_shape(network.init, jax.random.key(0), x).params
    for layer in network.layers if isinstance(network, Sequential) else ():
        if layer.init(jax.random.key(0), x).params:
            break
        x, _ = layer.apply(Variables({}, {}), x)
    return input_covariance_prior(x, params, weight_decay)


def arms(members: int, rank: int | None = None) -> tuple[Arm, ...]:
    """The deep ensemble and FoRDE-PCA, each with weight decay and with the covariance."""
    plain = ensemble(members)
    forde = Arm("forde-pca", "FoRDE-PCA", FoRDE(members, rank=rank, eps=EPS))
    both = [
        replace(arm, name=f"{arm.name}-covariance", label=f"{arm.label}, covariance", prior=prior)
        for arm in (plain, forde)
    ]
    return (plain, both[0], forde, both[1])


EXPERIMENT = Experiment(
    name="forde-covariance-prior",
    title="A prior from the inputs",
    description=(
        "A prior under which the first layer's weights vary as the inputs do, against repulsion of "
        "input gradients in the metric of the same components, and both together. The claims: the "
        "prior helps a deep ensemble under corruption, FoRDE-PCA helps more, both together most."
    ),
    scales={
        "test": replace(test_scale(SHAPE, 10, "cifar10"), arms=arms(2, 16)),
        "cpu": cpu_scale(Data("cifar10", 4096, 2000, SHAPE, 10), arms=arms(5, 256)),
        "paper": replace(PAPER, arms=arms(MEMBERS)),
    },
    run=run(TABLE_3),
)
