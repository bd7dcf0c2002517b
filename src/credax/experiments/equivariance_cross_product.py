"""The cross product of two vectors: outputs that turn with their inputs, and what breaks it."""

from dataclasses import dataclass

import numpy as np

from credax import groups, infinite
from credax.data import Dataset, Split
from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Experiment, Outcome, Scale
from credax.experiments.figures import Figure, reference_line, sheet
from credax.experiments.recording import MadeData, record, row
from credax.infinite.net import Serial
from credax.likelihood import Gaussian
from credax.methods.deep_ensemble import DeepEnsemble
from credax.metrics import equivariance
from credax.report.svg import Axis, Frame
from credax.training import Training

POINTS = 16


@dataclass(frozen=True)
class Settings:
    """Base pairs, the group, steps, and Haar rotations to judge at."""

    base: int
    icosahedral: bool
    steps: int
    rotations: int = 100


def net(width: int) -> Serial:
    """Two hidden ReLU layers in NTK parameterisation with three outputs."""
    layer = lambda n: infinite.Dense(n, 2**0.5, 0.1)  # noqa: E731
    relu = infinite.ReLU()
    return infinite.serial(layer(width), relu, layer(width), relu, layer(3))


def space(settings: Settings) -> groups.Matrices:
    """The group seen from turned axes, where it holds no permutations of them."""
    matrices = groups.icosahedral_matrices if settings.icosahedral else groups.octahedral_matrices
    by = groups.random_rotations(np.random.default_rng(5), 1)[0]
    return groups.conjugate(groups.vectors(matrices()), by)


def pairs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal pairs of vectors and their cross products."""
    x = np.random.default_rng(seed).standard_normal((count, 6))
    return x, np.cross(x[:, :3], x[:, 3:])


def train_rows(settings: Settings) -> Split:
    """Whole orbits of the base pairs."""
    turn = space(settings)
    whole = groups.augment(*pairs(settings.base, 0), groups.direct_sum(turn, turn), turn)
    return Split(whole.x.astype(np.float32), whole.y.astype(np.float32))


def judged(settings: Settings) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Points turned by the group and by Haar rotations, the identity first, and those turns."""
    x, _ = pairs(POINTS, 3)
    haar = groups.random_rotations(np.random.default_rng(9), settings.rotations)
    every = {"the group": space(settings).matrices}
    every["all of SO(3)"] = np.concatenate([np.eye(3)[None], haar])
    found = {}
    for name, turns in every.items():
        halves = [np.einsum("gij,pj->pgi", turns, x[:, half]) for half in (slice(3), slice(3, 6))]
        found[name] = (np.concatenate(halves, -1), turns)
    return found


def run(bench: Bench) -> Outcome:
    """Squared equivariance error against size on the group and on all rotations."""
    settings: Settings = bench.scale.evaluation
    orbits, split = judged(settings), train_rows(settings)
    points = np.concatenate([p.reshape(-1, 6) for p, _ in orbits.values()])
    law = infinite.EnsembleDynamics(
        net(1),
        np.asarray(split.x, np.float64),
        split.y,
        learning_rate=bench.scale.training.learning_rate,
        loss="per_example",
        evolution="steps",
    )
    results, findings, curves = [], [], {}
    for trial in bench.trials:
        arm = trial.arm
        bench.say(f"{arm.label}, seed {trial.seed}")
        training = bench.scale.training
        if arm.name == "adam":
            training = training.replace(optimiser="adam", learning_rate=0.01)
        found = record(
            bench.root / f"{arm.name}_{trial.seed}.npz",
            bench.scale.problem(arm),
            arm.method,
            split,
            seed=trial.seed,
            training=training,
            points=points.astype(np.float32),
            steps=(settings.steps,),
        )
        outputs, start, metrics = found.at(settings.steps), 0, {}
        for name, (p, turns) in orbits.items():
            size = p.shape[0] * p.shape[1]
            folded = outputs[:, start : start + size].reshape(len(outputs), *p.shape[:2], 3)
            start += size
            sizes = tuple(2**k for k in range(12) if 2**k <= len(outputs) // 2)
            curve = equivariance.against_members(
                equivariance.equivariance_error, folded, sizes, turns=turns
            )
            key = "group" if name == "the group" else "rotations"
            metrics[f"error_single_{key}"] = float(curve.mean[0])
            metrics[f"error_largest_{key}"] = float(curve.mean[-1])
            metrics[f"slope_{key}"] = equivariance.slope(curve)
            curves[arm.label, name] = curve
            stays = "a" if equivariance.plateau(curve).significant else "no"
            findings.append(
                f"{arm.label}, {name}: slope {metrics[f'slope_{key}']:.2f}, {stays} plateau."
            )
        cost = {"members": len(outputs), "seconds": found.seconds}
        results.append(row(arm.label, trial.seed, metrics, **cost))
    line = single_error(law, orbits["the group"], settings.steps)
    findings.append(f"Infinite width: squared error of one network on the group {line:.3g}.")
    figure = _figure(curves, tuple(orbits), line)
    return Outcome(results, figures=(figure,), findings=tuple(findings))


def single_error(law, orbit: tuple[np.ndarray, np.ndarray], time: int) -> float:
    """``(2/M) (C Σ(x,x) - tr ρ_Y(g) Σ(gx,x))`` for one member, over the mean squared output.

    The error compares with the network's own outputs; the denominator is that of one member too.
    """
    points, turns = orbit
    error, size = [], []
    for orbit_points in points:
        covariance = law.covariance(orbit_points, t=time)
        traces = np.einsum("gii->g", turns)
        gap = 3 * (covariance[0, 0] + np.diag(covariance)) - 2 * traces * covariance[0]
        error.append(gap.mean())
        mean = law.mean(orbit_points[:1], time)
        size.append(np.sum(mean**2) + 3 * covariance[0, 0])
    return float(np.mean(error) / np.mean(size))


def _figure(curves: dict, names: tuple[str, ...], line: float) -> Figure:
    labels = list(dict.fromkeys(label for label, _ in curves))
    sizes = np.concatenate([curve.members for curve in curves.values()])
    values = np.concatenate([curve.mean for curve in curves.values()])
    across = Axis(1, float(sizes.max()) * 1.1, "members", log=True)
    down = Axis.around(values, "squared equivariance error", log=True)
    panels = []
    for name in names:
        frame = Frame(across, down, left=48, right=292)
        layers = [frame.axes()]
        for number, label in enumerate(labels):
            curve = curves[label, name]
            layers.append(frame.line(curve.members, curve.mean, number))
        if name == "the group":
            several = np.unique(sizes)
            layers.append(reference_line(frame, several, line / several))
        panels.append((name, layers))
    caption = (
        "Squared equivariance error of the mean of so many networks over its squared size, on the "
        "group whose orbits were trained on and on 100 random rotations. Dashed: infinite width, "
        "one network's error over the members (its size taken as constant)."
    )
    return sheet("error", caption, panels, 2, series=labels)


def _scale(settings: Settings, widths: dict[int, int], rate: float, seeds: int, note: str) -> Scale:
    arms = [
        Arm(
            f"width-{width}",
            f"Width {width}, SGD",
            DeepEnsemble(members),
            lambda _, w=width: net(w),
        )
        for width, members in widths.items()
    ]
    width, members = next(iter(widths.items()))
    arms.append(Arm("adam", f"Width {width}, Adam", DeepEnsemble(members), lambda _: net(width)))
    order = 60 if settings.icosahedral else 24

    def make() -> Dataset:
        x, y = pairs(settings.base, 1)
        test = Split(x.astype(np.float32), y.astype(np.float32))
        return Dataset("cross products", train_rows(settings), test, task="regression")

    return Scale(
        data=MadeData("cross products", order * settings.base, settings.base, (6,), make=make),
        network=lambda outputs: net(width),
        training=Training(
            epochs=settings.steps,
            batch_size=order * settings.base,
            learning_rate=rate,
            momentum=0.0,
            nesterov=False,
            schedule="constant",
        ),
        arms=tuple(arms),
        seeds=seeds,
        likelihood=Gaussian(1.0),
        weight_decay=0.0,
        evaluation=settings,
        note=note,
    )


EXPERIMENT = Experiment(
    name="equivariance-cross-product",
    title="The cross product, equivariant to rotations of space",
    description=(
        "Dense networks learn the cross product from whole orbits of a finite group of rotations, "
        "turned against the axes. The claim: by gradient descent the ensemble becomes equivariant "
        "as one over the members without a floor; Adam, which acts on each coordinate, leaves one. "
        "The published sizes are not stated; these are ours."
    ),
    scales={
        "test": _scale(Settings(2, False, 10, 10), {8: 16}, 0.05, 1, "2 base pairs, width 8"),
        "cpu": _scale(Settings(32, False, 300), {16: 256, 64: 256, 128: 256}, 0.1, 1, "octahedral"),
        "paper": _scale(Settings(32, True, 300), {512: 1000}, 0.1, 1, "icosahedral, width 512"),
    },
    run=run,
)
