"""Entropy around five clouds of points in the plane (Trinh et al. 2024, figure 2)."""

from functools import partial

import numpy as np

from credax.data.toys import PLOT_RANGES, grid
from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Data, Experiment, Outcome, Scale
from credax.experiments.saliency import input_gradients, mean_cosine, median_distance
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.methods.repulsive.forde import FoRDE
from credax.methods.repulsive.function_wgd import FunctionWGD
from credax.methods.repulsive.weight_wgd import WeightWGD
from credax.metrics import evaluate
from credax.networks import MLP
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import HeatMap, Points
from credax.report.svg import Axis, Frame
from credax.training import Training

NAME = "toy/classification-2d"
FAR = 1.5
"""A place farther than this from every training point is off the data."""
MOST = 1.6
"""Entropy in nats at the end of the colour scale."""


def _network(outputs: int) -> MLP:
    return MLP((32, 32), outputs, zero_head=True)


# With a zero head all functions start alike, and repulsion of functions has no direction to take.
def _started(outputs: int) -> MLP:
    return MLP((32, 32), outputs)


def arms(members: int) -> tuple[Arm, ...]:
    """The methods of the figure, and FoRDE on gradients of the log-probability."""
    function = FunctionWGD(members, function_prior="cauchy", prior_scale=1e-6)
    # Inactive units leave some points without a gradient; unfloored, one such point can undo a
    # member.
    floored = partial(FoRDE, members, relative_floor=1e-3)
    return (
        Arm("deep-ensemble", "Deep ensemble", DeepEnsemble(members, batches="shared")),
        Arm("weight-rde", "weight-RDE", WeightWGD(members)),
        Arm("function-rde", "function-RDE", function, _started),
        Arm("forde-identity", "FoRDE-Identity", floored(lengthscale="identity")),
        Arm("forde-pca", "FoRDE-PCA", floored(lengthscale="pca")),
        Arm(
            "forde-log-prob",
            "FoRDE, log-probability",
            floored(lengthscale="identity", gradient_of="log_prob"),
        ),
    )


def _scale(members: int, epochs: int, seeds: int, note: str) -> Scale:
    return Scale(
        data=Data(NAME, 250, 250, (2,), classes=5),
        network=_network,
        training=Training(
            epochs=epochs,
            batch_size=25,
            learning_rate=0.1,
            schedule="piecewise-linear",
            final_ratio=0.01,
        ),
        arms=arms(members),
        seeds=seeds,
        note=note,
    )


def run(bench: Bench) -> Outcome:
    """Entropy on and off the data, its epistemic part, and how far the gradients are apart."""
    train, test = bench.dataset.train, bench.dataset.test
    places = grid(NAME, 80)
    far = off_the_data(places, np.asarray(train.x))
    results, maps = [], {}
    for trial, posterior in bench.trained():
        around, inside = posterior.predict(places), posterior.predict(test.x)
        fitted = np.asarray(posterior.predict(train.x).members).argmax(-1) == train.y
        gradients = input_gradients(posterior, train.x, train.y)  # pyright: ignore[reportArgumentType]
        metrics = {
            **evaluate(inside, test.y, ["accuracy", "nll"]),
            "worst_member": float(fitted.mean(1).min()),
            "entropy_on": float(np.mean(inside.total)),
            "entropy_off": float(np.asarray(around.total)[far].mean()),
            "epistemic_off": float(np.asarray(around.epistemic)[far].mean()),
            "gradient_cosine": mean_cosine(gradients),
            "gradient_distance": median_distance(gradients),
        }
        results.append(bench.result(trial, metrics, inside))
        if trial.seed == 0:
            maps[trial.arm.label] = np.asarray(around.total).reshape(80, 80)
    return Outcome(results, figures=(entropy_figure(maps, np.asarray(train.x)),))


def off_the_data(places: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Which places are farther than `FAR` from every training point."""
    squares = np.square(places[:, None] - x[None]).sum(-1)
    return np.sqrt(squares.min(1)) > FAR


def entropy_figure(maps: dict[str, np.ndarray], x: np.ndarray) -> Figure:
    """Entropy of the mixture over the plane, one panel per method."""
    low, high = PLOT_RANGES[NAME]
    frame = Frame(Axis(low, high, "x₁"), Axis(low, high, "x₂"), left=30, right=196)
    points = Points(x[:, 0], x[:, 1], 0.9, light=True)
    panels = [
        Panel(label, frame, [HeatMap(entropy, MOST, bar=True), points])
        for label, entropy in maps.items()
    ]
    caption = (
        "Entropy of the mixture in nats (the most there can be is ln 5 = 1.61); dots are the "
        "training points of five classes."
    )
    return Sheet("entropy", caption, panels, 3, (236, 234))


EXPERIMENT = Experiment(
    name="forde-toy-2d",
    title="Two-dimensional classification",
    description=(
        "Five clouds of 50 points on a circle of radius 2. The claim: FoRDE is uncertain away from "
        "the data, other ensembles only along the lines between the classes. Network and training "
        "of the published figure are not stated: these are ours."
    ),
    scales={
        "test": _scale(3, 4, 1, "40 steps: shows that the program runs"),
        "cpu": _scale(16, 200, 3, "two hidden layers of 32, 2000 steps"),
        "paper": _scale(
            16,
            2000,
            5,
            "points and members as in the figure, whose network and training are not stated: two "
            "hidden layers of 32, 20 000 steps",
        ),
    },
    run=run,
)
