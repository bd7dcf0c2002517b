"""Members are not symmetric, their mean is, at every step (Gerken and Kessel 2024, toy example)."""

from dataclasses import dataclass

import numpy as np

from credax import infinite
from credax.data import Dataset, Split
from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Experiment, Outcome, Scale
from credax.experiments.recording import MadeData, descent_scale, record_trial, row
from credax.infinite.net import Serial
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Band, Line, MemberLine, Points
from credax.report.svg import Axis, Frame

BASE = np.array([0.5, 1.2, 1.9])
STEPS = (0, 1, 2, 3, 2000)
GRID = np.linspace(-4, 4, 81)
RATE = 0.046299042537046
"""The number of points over the kernel's largest eigenvalue: half the largest stable rate."""
ASYMMETRY = {0: 3.896596, 1: 0.978872, 2: 0.894047, 3: 0.820875, 2000: 0.359200}
"""Root mean square of ``f(x) - f(-x)`` of an infinitely wide member after each step."""
WITHOUT = "Without augmentation"
WITH = "Augmented"


@dataclass(frozen=True)
class Settings:
    """What the experiment measures."""

    steps: tuple[int, ...] = STEPS
    shown: int = 12


def truth(x: np.ndarray) -> np.ndarray:
    """The even function that is learned."""
    return np.cos(2 * x)


def net(width: int) -> Serial:
    """Two hidden layers of erf units in NTK parameterisation."""
    layer = lambda n: infinite.InfiniteDense(n, 2.5, 0.5)  # noqa: E731
    return infinite.serial(layer(width), infinite.Erf(), layer(width), infinite.Erf(), layer(1))


def rows(augmented: bool) -> Split:
    """The base points, with their mirror images or without."""
    x = np.concatenate([BASE, -BASE]) if augmented else BASE
    return Split(x[:, None].astype(np.float32), truth(x).astype(np.float32))


def _data() -> Dataset:
    grid = Split(GRID[:, None].astype(np.float32), truth(GRID).astype(np.float32))
    return Dataset("an even function on a line", rows(True), grid, task="regression")


def run(bench: Bench) -> Outcome:
    """Trains both arms, and sets the finite ensembles beside the infinite one."""
    settings: Settings = bench.scale.evaluation
    results, findings, shown = [], [], {}
    points = GRID[:, None]
    for trial in bench.trials:
        arm, split = trial.arm, rows(trial.arm.name == "augmented")
        found = record_trial(bench, trial, split, points, settings.steps, batch_size=len(split))
        dynamics = infinite.EnsembleDynamics(
            net(1), split.x, split.y, learning_rate=RATE, loss="half_mean", evolution="steps"
        )
        metrics, count = {}, found.at(settings.steps[0]).shape[0]
        for step in settings.steps:
            members = found.at(step)[..., 0]
            odd = members - members[:, ::-1]
            metrics[f"member_{step}"] = float(np.sqrt(np.mean(odd**2)))
            metrics[f"ensemble_{step}"] = float(np.sqrt(np.mean(odd.mean(0) ** 2)))
            covariance = dynamics.covariance(points, t=step)
            variance = np.diag(covariance) - np.diag(covariance[:, ::-1])
            mean = dynamics.mean(points, step)[:, 0]
            bias = np.mean((mean - mean[::-1]) ** 2)
            metrics[f"infinite_member_{step}"] = float(np.sqrt(2 * variance.mean() + bias))
            metrics[f"infinite_mean_{step}"] = float(np.sqrt(bias))
            if trial.seed == 0:
                shown[arm.label, step] = (members, mean, np.sqrt(np.diag(covariance)))
        results.append(row(arm.label, trial.seed, metrics, members=count, seconds=found.seconds))
        if trial.seed == 0:
            findings += _verdicts(arm.label, metrics, count, settings.steps)
    return Outcome(results, figures=(_figure(shown, settings),), findings=tuple(findings))


def _verdicts(label: str, metrics: dict[str, float], members: int, steps) -> list[str]:
    last = max(steps)
    expected = metrics[f"member_{last}"] / members**0.5
    ratio = metrics[f"ensemble_{last}"] / expected
    if label == WITHOUT:
        return [
            f"{label}: after {last} steps the mean of {members} networks is off by "
            f"{metrics[f'ensemble_{last}']:.3g}, {ratio:.1f} times what chance allows, and the "
            f"infinite ensemble's by {metrics[f'infinite_mean_{last}']:.3g}."
        ]
    width = max(abs(metrics[f"member_{s}"] / metrics[f"infinite_member_{s}"] - 1) for s in steps)
    return [
        f"{label}: members are asymmetric by {metrics[f'member_{last}']:.3g} after {last} steps, "
        f"their mean by {metrics[f'ensemble_{last}']:.3g}, {ratio:.2f} times one over the root of "
        f"{members}; the infinite ensemble's mean by {metrics[f'infinite_mean_{last}']:.1g}.",
        f"The members' asymmetry differs from infinite width by at most {100 * width:.0f} %.",
    ]


def _figure(shown: dict, settings: Settings) -> Figure:
    panels = []
    for (label, step), (members, mean, deviation) in shown.items():
        high = 6.0 if step == 0 else 3.0
        frame = Frame(Axis(-4, 4, "x"), Axis(-high, high, "output"), left=30, right=292)
        layers = [
            Band(GRID, mean - 2 * deviation, mean + 2 * deviation),
            *(MemberLine(GRID, member) for member in members[: settings.shown]),
            Line(GRID, members.mean(0), 0, markers=False),
            Line(GRID, truth(GRID), 1, markers=False),
            Line(GRID, mean, 2, markers=False),
        ]
        x = np.concatenate([BASE, -BASE]) if label == WITH else BASE
        layers.append(Points(x, truth(x), 2.4))
        panels.append(Panel(f"{label}, step {step}", frame, layers))
    names = (
        "mean of the networks",
        "ground truth",
        "infinite ensemble (NTK): mean, ± 2 deviations",
    )
    caption = (
        "Thin lines are single networks: none is symmetric. Their mean is, at every step and away "
        "from the points, if they are trained on mirrored points too; the last line is the mean "
        "of infinitely many infinitely wide networks after as many steps, its band their deviation."
    )
    return Sheet("steps", caption, panels, len(settings.steps), series=names)


def _scale(width: int, members: int, steps: tuple[int, ...], seeds: int, note: str) -> Scale:
    arms = (
        Arm("augmented", WITH, DeepEnsemble(members)),
        Arm("plain", WITHOUT, DeepEnsemble(members)),
    )
    data = MadeData("an even function", 6, 81, (1,), make=_data)
    sizes = {"steps": max(steps), "rate": RATE, "seeds": seeds}
    return descent_scale(data, lambda _: net(width), arms, Settings(steps), **sizes, note=note)


EXPERIMENT = Experiment(
    name="equivariance-toy",
    title="The mean of augmented networks is symmetric",
    description=(
        "An even function learned from three points and their mirror images. The claim: no member "
        "is symmetric at any step, the ensemble's mean is at every step, also away from the "
        "points. The published figure does not state function, width or rate; these are ours."
    ),
    scales={
        "test": _scale(32, 20, (0, 1, 2, 3, 50), 1, "20 networks of width 32, 50 steps"),
        "cpu": _scale(256, 200, STEPS, 1, "200 networks of width 256"),
        "paper": _scale(1000, 1000, STEPS, 1, "1000 networks of width 1000"),
    },
    run=run,
)
