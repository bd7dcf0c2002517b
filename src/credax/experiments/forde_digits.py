"""8 by 8 digits, clean and under generated corruptions, by the ensembles of the tables."""

import numpy as np

from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Data, Experiment, Outcome, Scale
from credax.experiments.published import Measure, Published
from credax.experiments.saliency import input_gradients, saliency_figure
from credax.experiments.shift import Shift, corruption_outcome, study
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.methods.ensembles.single import Single
from credax.methods.repulsive.feature_wgd import FeatureWGD
from credax.methods.repulsive.forde import FoRDE
from credax.methods.repulsive.function_wgd import FunctionWGD
from credax.methods.repulsive.lit import LIT
from credax.methods.repulsive.weight_wgd import WeightWGD
from credax.networks import MLP
from credax.report.figure import Figure
from credax.training import Training

TRAINING = Training(
    epochs=60,
    batch_size=128,
    learning_rate=0.1,
    schedule="piecewise-linear",
    final_ratio=0.01,
    shared_augment=True,
)

# There are no published digits: these come from a prototype of the same formulas, for comparison.
PROTOTYPE = Published(
    "a prototype of the same formulas",
    "measured with a prototype, 5 seeds, other corruption code; not published",
    (
        Measure("accuracy", "accuracy", decimals=4),
        Measure("nll", "NLL", decimals=4),
        Measure("corrupted_accuracy", "cA", decimals=4),
        Measure("corrupted_nll", "cNLL", decimals=4),
    ),
    """
    Deep ensemble  | .9816 | .0725 | .8719 | .4558
    FoRDE-Identity | .9819 | .0698 | .8724 | .4469
    FoRDE-PCA      | .9809 | .0706 | .8731 | .4447
    """,
    "prototype",
)


def network(outputs: int) -> MLP:
    """Two hidden layers of 64 and a head that starts at zero."""
    return MLP((64, 64), outputs, zero_head=True)


# With a zero head all functions start alike, and repulsion of functions has no direction to take.
def started_network(outputs: int) -> MLP:
    """The same with a head that starts by LeCun's rule."""
    return MLP((64, 64), outputs)


def ensemble(members: int) -> Arm:
    """The arm that all others are compared with: one order of rows for all members."""
    return Arm("deep-ensemble", "Deep ensemble", DeepEnsemble(members, batches="shared"))


def baselines(members: int, started=None, **feature) -> tuple[Arm, ...]:
    """A single network, the deep ensemble, and repulsion of weights, functions and features.

    ``started(outputs)`` is the network with a head that does not start at zero, for repulsion of
    functions, which cannot start from equal ones; ``feature`` are options of `FeatureWGD`.
    """
    function = FunctionWGD(members, function_prior="cauchy", prior_scale=1e-6)
    return (
        Arm("single", "Single network", Single()),
        ensemble(members),
        Arm("weight-rde", "weight-RDE", WeightWGD(members)),
        Arm("function-rde", "function-RDE", function, started),
        Arm("feature-rde", "feature-RDE", FeatureWGD(members, **feature)),
        Arm("lit", "LIT", LIT(members)),
    )


def arms(members: int) -> tuple[Arm, ...]:
    """A single network, the deep ensemble, and every repulsive method."""
    return (
        *baselines(members, started_network),
        Arm("forde-identity", "FoRDE-Identity", FoRDE(members, lengthscale="identity")),
        Arm("forde-pca", "FoRDE-PCA", FoRDE(members)),
        Arm("forde-tuned", "FoRDE-Tuned", FoRDE(members, lengthscale=0.4)),
    )


def digits_scale(
    arms: tuple[Arm, ...], seeds: int, note: str, *, small: bool = False, **options
) -> Scale:
    """Digits at CPU size, or at the size of a test."""
    shift = Shift("digits", (1, 5) if small else (1, 2, 3, 4, 5), 100 if small else None, **options)
    return Scale(
        data=Data("digits", 256 if small else 1200, 100 if small else 597, (8, 8, 1), classes=10),
        network=network,
        training=TRAINING.replace(epochs=3) if small else TRAINING,
        arms=arms,
        seeds=seeds,
        evaluation=shift,
        note=note,
    )


SMALL = "256 rows, 6 steps: shows that the program runs"
CPU = "MLP 64-64, 60 epochs, six generated corruptions at five severities"


def run(bench: Bench) -> Outcome:
    """Clean and corrupted scores, paired differences, and saliency."""
    return corruption_outcome(study(bench), (PROTOTYPE,), saliency(bench))


def saliency(bench: Bench, rows: int = 4) -> tuple[Figure, ...]:
    """Input gradients of the first seed at one test row of each of the first classes."""
    test = bench.dataset.test
    y = np.asarray(test.y)
    chosen = np.array([int(np.argmax(y == label)) for label in range(rows)])
    x = np.asarray(test.x[chosen])
    gradients = {
        trial.arm.label: input_gradients(bench.posterior(trial), x, y[chosen])  # pyright: ignore[reportArgumentType]
        for trial in bench.trials
        if trial.arm.name in ("deep-ensemble", "forde-pca") and trial.seed == 0
    }
    return (saliency_figure("saliency", x, gradients),) if gradients else ()


EXPERIMENT = Experiment(
    name="forde-digits",
    title="Corrupted digits",
    description=(
        "The 8 by 8 digits of scikit-learn, clean and under six generated corruptions. The claim "
        "carried over from images: FoRDE in the metric of the data's components loses less "
        "under corruption than a deep ensemble, FoRDE in the identity metric does not."
    ),
    scales={
        "test": digits_scale(arms(3), 1, SMALL, small=True),
        "cpu": digits_scale(arms(10), 5, CPU),
    },
    run=run,
)
