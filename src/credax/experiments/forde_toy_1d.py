"""Predictions of members between clusters of points on a line (Trinh et al. 2024, figure 1)."""

from dataclasses import replace

import numpy as np

from credax.data.toys import PLOT_RANGES, grid, regression_features
from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Data, Experiment, Outcome, Scale
from credax.experiments.uniform import UniformStart
from credax.likelihood import Gaussian
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.methods.repulsive.forde import FoRDE
from credax.methods.repulsive.function_wgd import FunctionWGD
from credax.methods.repulsive.weight_wgd import WeightWGD
from credax.metrics import evaluate
from credax.networks import MLP
from credax.prediction import Prediction
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Band, Line, MemberLine, Points
from credax.report.svg import Axis, Frame
from credax.training import Training

NAME = "toy/regression-1d"
BETWEEN, BEYOND = (-3.0, 3.0), (-9.0, 9.0)
"""Places between the clusters of points and beyond them."""

PAPER_TRAINING = Training(
    epochs=3000,
    batch_size=50,
    learning_rate=0.01,
    momentum=0.95,
    nesterov=False,
    schedule="piecewise-linear",
    final_ratio=0.05,
)


def arms(members: int) -> tuple[Arm, ...]:
    """The four methods of the figure, and FoRDE in the metric of the data's components."""
    function = FunctionWGD(members, function_prior="cauchy", prior_scale=1e-6)
    return (
        Arm("deep-ensemble", "Deep ensemble", DeepEnsemble(members, batches="shared")),
        Arm("weight-rde", "weight-RDE", WeightWGD(members)),
        Arm("function-rde", "function-RDE", function),
        Arm("forde-identity", "FoRDE-Identity", FoRDE(members, lengthscale="identity")),
        Arm("forde-pca", "FoRDE-PCA", FoRDE(members, lengthscale="pca")),
    )


def _scale(hidden: tuple[int, ...], members: int, epochs: int, seeds: int, note: str) -> Scale:
    return Scale(
        data=Data(NAME, 400, 400, (2,)),
        network=lambda outputs: UniformStart(MLP(hidden, outputs)),
        training=replace(PAPER_TRAINING, epochs=epochs),
        arms=arms(members),
        seeds=seeds,
        likelihood=Gaussian(1.0),
        weight_decay=0.0,
        note=note,
    )


def run(bench: Bench) -> Outcome:
    """Test error, and the members' standard deviation inside, between and beyond the data."""
    results, shown = [], {}
    for trial, posterior in bench.trained():
        prediction = posterior.predict(bench.dataset.test.x)
        metrics = evaluate(prediction, bench.dataset.test.y, ["rmse"])
        metrics["spread_inside"] = float(member_spread(prediction).mean())
        for name, places in (("between", BETWEEN), ("beyond", BEYOND)):
            spread = member_spread(posterior.predict(regression_features(np.array(places))))
            metrics[f"spread_{name}"] = float(spread.mean())
        results.append(bench.result(trial, metrics))
        if trial.seed == 0:
            shown[trial.arm.label] = posterior.predict(grid(NAME, 121))
    train = bench.dataset.train
    figure = functions_figure(shown, 2 * np.asarray(train.x)[:, 0], np.asarray(train.y))
    return Outcome(results, figures=(figure,))


def member_spread(prediction: Prediction) -> np.ndarray:
    """Standard deviation over members of their means, row by row."""
    return np.asarray(prediction.means)[..., 0].std(0)  # pyright: ignore[reportAttributeAccessIssue]


def functions_figure(shown: dict[str, Prediction], x: np.ndarray, y: np.ndarray) -> Figure:
    """Each method's members, their mean and two deviations around it, with the training points."""
    line = np.linspace(*PLOT_RANGES[NAME], 121)
    frame = Frame(Axis(-10, 10, "x"), Axis(-1, 2, "y"), left=30, right=292)
    panels = []
    for label, prediction in shown.items():
        members = np.asarray(prediction.means)[..., 0]  # pyright: ignore[reportAttributeAccessIssue]
        mean, spread = members.mean(0), members.std(0)
        layers = [
            Band(line, mean - 2 * spread, mean + 2 * spread),
            *(MemberLine(line, member) for member in members),
            Line(line, mean, markers=False),
            Points(x, y, 1.4),
        ]
        panels.append(Panel(label, frame, layers))
    caption = (
        "The members of each method, their mean and two standard deviations; "
        "dots are the training points."
    )
    return Sheet("functions", caption, panels, 3)


EXPERIMENT = Experiment(
    name="forde-toy-1d",
    title="One-dimensional regression",
    description=(
        "Three clusters of points on a line, seen through (x/2, (x/2)²). The claim: repelled input "
        "gradients make functions differ between the clusters, where a deep ensemble agrees with "
        "itself for no reason. The published points are not available: these are drawn to their "
        "description."
    ),
    scales={
        "test": _scale((8,), 3, 20, 1, "a tiny network, 160 steps: shows that the program runs"),
        "cpu": _scale((50, 50), 16, 1000, 3, "two hidden layers of 50, 8000 steps"),
        "paper": _scale(
            (200, 50, 50, 50),
            16,
            3000,
            1,
            "the network and training of the data's publication; FoRDE's own toy network is not "
            "stated",
        ),
    },
    run=run,
)
