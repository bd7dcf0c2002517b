"""Features learned on one task, ensembles of small heads on another (Trinh et al. 2024, figure 4).

In the paper the features are those of a vision transformer; on a processor they are those of a
network that has seen the digits 0 to 4 only, and the heads learn all ten. The heads' inputs, and so
the gradients that repel each other, are the features.
"""

from dataclasses import replace

import jax
import numpy as np

from credax.data import Dataset, Split
from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Data, Experiment, Outcome, Scale
from credax.experiments.forde_digits import TRAINING, baselines
from credax.experiments.shift import Shift, corrupted_cells, corruption_outcome, study
from credax.methods.ensembles.single import Single
from credax.methods.repulsive.forde import FoRDE
from credax.network import Variables
from credax.networks import MLP
from credax.networks.sequential import Body
from credax.problem import Problem
from credax.standardise import Standardise
from credax.training import fit

FEATURES, SOURCE_CLASSES = 64, 5
HEADS = TRAINING.replace(batch_size=256, learning_rate=0.2)


def head(outputs: int) -> MLP:
    """Three hidden layers with batch norm, as in the paper; the widths are not stated there."""
    return MLP((64, 64, 64), outputs, norm="batch")


def arms(members: int) -> tuple[Arm, ...]:
    """The rows of the figure."""
    return (
        *(arm for arm in baselines(members) if arm.name != "feature-rde"),
        Arm("forde-identity", "FoRDE-Identity", FoRDE(members, lengthscale="identity")),
        Arm("forde-pca", "FoRDE-PCA", FoRDE(members)),
    )


def run(bench: Bench) -> Outcome:
    """Features of clean and corrupted images, then heads and scores as for images."""
    extract = extractor(bench)
    train, test = extract(bench.dataset.train), extract(bench.dataset.test)
    units = Standardise(float(np.mean(train.x)), float(np.std(train.x)))
    dataset = Dataset(
        "features of digits", replace(train, inputs=units), replace(test, inputs=units)
    )
    cells = {
        cell: replace(extract(split), inputs=units)
        for cell, split in corrupted_cells(bench.dataset.test, bench.scale.evaluation).items()
    }
    return corruption_outcome(study(replace(bench, dataset=dataset), cells))


def extractor(bench: Bench):
    """From a split of images to one of features, by a network that knows half of the classes."""
    train = bench.dataset.train
    known = np.flatnonzero(np.asarray(train.y) < SOURCE_CLASSES)
    network = MLP((FEATURES,), SOURCE_CLASSES)
    posterior = fit(
        Problem(network, bench.scale.likelihood, weight_decay=5e-4),
        Single(),
        train[known],
        key=17,
        training=bench.scale.training.replace(batch_size=64, learning_rate=0.1),
        folder=bench.root / "extractor",
        progress=bench.progress,
    )
    problem, body = posterior.problem, Body(network.layers)
    member = jax.tree.map(lambda leaf: leaf[0], posterior.variables)  # pyright: ignore[reportAttributeAccessIssue]
    own = jax.eval_shape(body.init, jax.random.key(0), problem.prepare_inputs(train.x[:1]))
    params = {name: member.params[name] for name in own.params}

    @jax.jit
    def features(x):
        return body.apply(Variables(params, {}), problem.prepare_inputs(x))[0]

    return lambda split: Split(np.asarray(features(split.x)), np.asarray(split.y))


def _scale(members: int, seeds: int, epochs: int, small: bool, note: str) -> Scale:
    return Scale(
        data=Data("digits", 256 if small else 1200, 100 if small else 597, (8, 8, 1), 10),
        network=head,
        training=HEADS.replace(epochs=epochs, batch_size=64 if small else 256),
        arms=arms(members),
        seeds=seeds,
        evaluation=Shift("digits", (1, 5) if small else (1, 2, 3, 4, 5), 100 if small else None),
        note=note,
    )


EXPERIMENT = Experiment(
    name="forde-transfer",
    title="Heads on features",
    description=(
        "Ensembles of small heads on features that were learned elsewhere. The claim, from bars "
        "without numbers: FoRDE is best in every panel, clean and corrupted, against a deep "
        "ensemble, repulsion of weights and functions, and LIT."
    ),
    scales={
        "test": _scale(3, 1, 3, True, "256 rows, 12 steps: shows that the program runs"),
        "cpu": _scale(
            10,
            5,
            60,
            False,
            "64 features of a network that was trained on the digits 0 to 4, heads 64-64-64 with "
            "batch norm on all ten; in the paper the features are those of a vision transformer",
        ),
    },
    run=run,
)
