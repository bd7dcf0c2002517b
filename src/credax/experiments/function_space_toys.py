"""Bands of priors on functions and of priors on weights, between and beyond points on a line."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from credax.data import load
from credax.data.toys import PLOT_RANGES, grid
from credax.experiments.bench import Bench, Trial
from credax.experiments.experiment import Arm, Data, Experiment, Outcome, Scale
from credax.functions.exact import GP
from credax.functions.vip import VIP
from credax.likelihood import Gaussian
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.methods.variational.functional_vi import FunctionalVI
from credax.methods.variational.mean_field_vi import MeanFieldVI
from credax.networks import MLP
from credax.prediction import Prediction
from credax.prior import GaussianPrior
from credax.report import Result
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Band, Line, Points, Reference
from credax.report.svg import Axis, Frame
from credax.training import Training

EXACT, WEIGHTS = "Functional VI, exact score", "Mean-field VI"
LEVEL = 0.9
HEIGHTS = {"toy/cubic-gap": 150.0, "toy/sine": 5.0}
"""Half the height of a panel."""


@dataclass(frozen=True)
class Toys:
    """The toys, each with the kernel of its processes."""

    kernels: tuple[tuple[str, str], ...] = (
        ("toy/cubic-gap", "linear + rbf"),
        ("toy/sine", "periodic + rbf"),
    )
    points: int = 121
    """Places on the line at which bands are compared with the truth."""


def truth(name: str, x: np.ndarray) -> np.ndarray:
    """The curve under a toy, without noise."""
    return x**3 if name == "toy/cubic-gap" else 2 * np.sin(4 * x)


def is_inside(name: str, x: np.ndarray) -> np.ndarray:
    """Whether places lie where training inputs are drawn."""
    low, high = (2.0, 4.0) if name == "toy/cubic-gap" else (0.5, 2.0)
    return (np.abs(x) >= low) & (np.abs(x) <= high)


def arms(steps: int, ensemble: int, **settings: Any) -> tuple[Arm, ...]:
    """Priors on functions, then priors on weights; one network for all but VIP."""
    functional = partial(FunctionalVI, margin=0.25, least_steps=steps, **settings)
    small = partial(MLP, (10, 10), activation="tanh")
    adam: dict[str, Any] = {"optimiser": "adam", "learning_rate": 0.01}
    return (
        Arm("gp", "Gaussian process", GP()),
        Arm("vip", "VIP", VIP(least_steps=steps), small),
        Arm("functional-vi", EXACT, functional()),
        Arm("functional-vi-ssge", "Functional VI, SSGE", functional(prior_score="ssge")),
        Arm(
            "functional-vi-linearised",
            "Functional VI, linearised",
            functional(objective="linearised"),
        ),
        Arm(
            "functional-vi-piecewise",
            "Functional VI, broken lines",
            functional(prior="piecewise-linear"),
        ),
        Arm(
            "mean-field-vi",
            WEIGHTS,
            MeanFieldVI(samples=100),
            prior=lambda train, network, decay: GaussianPrior(precision=1.0),
            training={**adam, "epochs": steps},
        ),
        Arm(
            "deep-ensemble",
            "Deep ensemble",
            DeepEnsemble(ensemble),
            training={**adam, "epochs": max(1, steps // 4)},
        ),
    )


def run(bench: Bench) -> Outcome:
    """Coverage and width of the bands where there are data and where there are none."""
    rows: dict[tuple[str, int], dict[str, float]] = {}
    shown: dict[str, dict[str, Prediction]] = {}
    seconds: dict[tuple[str, int], float] = {}
    points = bench.scale.evaluation.points
    for name, kernel in bench.scale.evaluation.kernels:
        for seed in range(bench.seeds):
            dataset = load(name, bench.data_dir, seed=seed)
            own = replace(bench, dataset=dataset, root=bench.root / name.split("/")[1])
            for arm in bench.scale.arms:
                arm = with_kernel(arm, kernel)
                own.say(f"{name}, seed {seed}: {arm.label}")
                trial = Trial(arm, seed, own.root / f"{arm.name}_{seed}")
                prediction = own.posterior(trial).predict(grid(name, points))
                scores = measured(name, prediction, points)
                rows.setdefault((arm.label, seed), {}).update(scores)
                spent = own.result(trial, {}).cost["training_seconds"] or 0.0
                seconds[arm.label, seed] = seconds.get((arm.label, seed), 0.0) + spent
                if seed == 0:
                    shown.setdefault(name, {})[arm.label] = prediction
    results = [
        Result(label, seed, scores, cost={"training_seconds": seconds[label, seed]})
        for (label, seed), scores in rows.items()
    ]
    figures = tuple(bands_figure(name, found) for name, found in shown.items())
    names = ", ".join(name for name, _ in bench.scale.evaluation.kernels)
    return Outcome(results, figures=figures, findings=findings(results, list(shown)), data=names)


def with_kernel(arm: Arm, kernel: str) -> Arm:
    """The arm with the toy's kernel, where its method is a process or compares with one."""
    if isinstance(arm.method, GP | FunctionalVI):
        return replace(arm, method=replace(arm.method, kernel=kernel))
    return arm


def measured(name: str, prediction: Prediction, points: int) -> dict[str, float]:
    """Share of the true curve in 90 % intervals, and mean deviations, inside and outside."""
    x = np.linspace(*PLOT_RANGES[name], points)
    low, high = (np.ravel(np.asarray(end)) for end in prediction.interval(LEVEL))  # pyright: ignore[reportAttributeAccessIssue]
    covered = (low <= truth(name, x)) & (truth(name, x) <= high)
    deviation = np.sqrt(np.ravel(np.asarray(prediction.total)))
    short, inside = name.split("/")[1], is_inside(name, x)
    found = {}
    for place, where in (("inside", inside), ("outside", ~inside)):
        found[f"{short}:coverage_{place}"] = float(covered[where].mean())
        found[f"{short}:deviation_{place}"] = float(deviation[where].mean())
    return found


def findings(results: list[Result], toys: list[str]) -> tuple[str, ...]:
    """The published statement beside our numbers."""
    sentences = []
    for name in toys:
        short, parts = name.split("/")[1], []
        for label in (EXACT, WEIGHTS):
            own = [r.metrics for r in results if r.method == label]
            if own:
                width = [m[f"{short}:deviation_outside"] for m in own]
                ratio = np.mean(width) / np.mean([m[f"{short}:deviation_inside"] for m in own])
                share = np.mean([m[f"{short}:coverage_outside"] for m in own])
                parts.append(
                    f"{label} {ratio:.1f} times as wide outside the data as inside, covering "
                    f"{share:.0%} of the curve there"
                )
        if parts:
            sentences.append(f"{short}: {'; '.join(parts)}.")
    return tuple(sentences)


def bands_figure(name: str, shown: dict[str, Prediction]) -> Figure:
    """Each method's mean, and one and two standard deviations of a new target around it."""
    data, half = load(name).train, HEIGHTS[name]
    reach = PLOT_RANGES[name]
    frame = Frame(Axis(*reach, "x"), Axis(-half, half, "y"), left=36, right=292)
    panels = []
    for label, prediction in shown.items():
        mean = np.ravel(np.asarray(prediction.mean))  # pyright: ignore[reportAttributeAccessIssue]
        deviation = np.sqrt(np.ravel(np.asarray(prediction.total)))
        x = np.linspace(*reach, len(mean))
        bands = [Band(x, mean - k * deviation, mean + k * deviation) for k in (2, 1)]
        points = Points(np.asarray(data.x)[:, 0], np.asarray(data.y), 1.6)
        curve = Reference(x, np.clip(truth(name, x), -half, half))
        panels.append(Panel(label, frame, [*bands, curve, Line(x, mean, markers=False), points]))
    caption = (
        "Mean, and one and two standard deviations of a new target; dots are the training points, "
        "the dashed line is the curve under them. The published figure (Sun et al. 2019) has the "
        "bands of mean-field VI narrow where there are no data, and those of the functional "
        "network wide, as the Gaussian process has them."
    )
    return Sheet(name.split("/")[1], caption, panels, 3)


def _scale(toy_arms: tuple[Arm, ...], seeds: int, note: str, hidden: tuple[int, ...]) -> Scale:
    return Scale(
        data=Data("toy/cubic-gap", 20, 200, (1,)),
        network=lambda outputs: MLP(hidden, outputs, activation="tanh"),
        training=Training(epochs=1, batch_size=20),
        arms=toy_arms,
        seeds=seeds,
        likelihood=Gaussian("learned"),
        weight_decay=1e-4,
        evaluation=Toys(),
        note=note,
    )


EXPERIMENT = Experiment(
    name="function-space-toys",
    title="Priors on functions between and beyond the data",
    description=(
        "Twenty points of x³ with a gap, and of 2 sin 4x: mean and bands of a Gaussian process, a "
        "variational implicit process and functional variational networks beside mean-field "
        "variational inference and a deep ensemble. The claim: weights have no prior that makes "
        "bands wide where there are no data; functions have."
    ),
    scales={
        "test": _scale(
            arms(20, 2, samples=8, members=8, points=4),
            1,
            "few steps: shows that it runs",
            (8,),
        ),
        "cpu": _scale(
            arms(3000, 5, samples=50),
            1,
            "one hidden layer of 50 tanh units, 3000 steps, 50 draws a step",
            (50,),
        ),
        "paper": _scale(
            arms(10_000, 10, points=40),
            3,
            "two hidden layers of 100, 10 000 steps, 40 points (published: 5 layers of 500 and "
            "50 000 steps for the sine)",
            (100, 100),
        ),
    },
    run=run,
)
