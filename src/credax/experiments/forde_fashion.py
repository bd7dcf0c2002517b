"""Fashion-MNIST, clean and corrupted, long enough that the rows are fitted."""

from credax.experiments.experiment import Arm, Data, Experiment, Scale
from credax.experiments.forde_digits import TRAINING, ensemble
from credax.experiments.forde_images import forde_arms, run, test_scale
from credax.experiments.shift import Shift
from credax.methods.ensembles.single import Single
from credax.networks import MLP

SHAPE = (28, 28, 1)


def network(outputs: int) -> MLP:
    """Two hidden layers of 256 and a head that starts at zero."""
    return MLP((256, 256), outputs, zero_head=True)


CPU = Scale(
    data=Data("fashion-mnist", 10_000, 5000, SHAPE, 10),
    network=network,
    training=TRAINING,
    arms=(Arm("single", "Single network", Single()), ensemble(10), *forde_arms(10, 256)),
    seeds=3,
    evaluation=Shift("fast", rows=1000),
    note=(
        "10000 training rows, 5000 test rows, MLP 256-256, ten members, 60 epochs, 256 components, "
        "nine generated corruptions of 1000 test rows"
    ),
)

EXPERIMENT = Experiment(
    name="forde-fashion",
    title="Corrupted clothes",
    description=(
        "Fashion-MNIST at the size of a processor, trained until the rows are fitted, which is "
        "when the repulsion has an effect. The claims carried over from CIFAR: members' "
        "input gradients differ more than a deep ensemble's, clean accuracy does not suffer, and "
        "in the metric of the data's components less is lost under corruption."
    ),
    scales={"test": test_scale(SHAPE, 10, "fashion-mnist"), "cpu": CPU},
    run=run(),
)
