"""The cross product of two vectors: outputs that rotate with their inputs, and what breaks it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np
import optax

from credax import groups, infinite
from credax.data import Dataset, Split
from credax.experiments.bench import Bench
from credax.experiments.equivariance_twins import Floor, twin_floor
from credax.experiments.experiment import Arm, Experiment, Outcome, Scale
from credax.experiments.recording import MadeData, descent_scale, record_trial, row
from credax.files import read_json, write_json
from credax.infinite.net import Serial
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.metrics import equivariance
from credax.network import Variables
from credax.reading import check_record
from credax.reading.records import LIST, map_of
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Line, Reference
from credax.report.svg import Axis, Frame

POINTS = 16
SOLIDS = ("octahedral", "icosahedral")
ADAM_RATE = 0.01
ELEMENT = 5
"""The element of the group by which twins differ."""
KEYS = {"the group": "group", "all of SO(3)": "rotations"}


@dataclass(frozen=True)
class Settings:
    """Base pairs, the group, steps, and Haar rotations to evaluate at."""

    base: int
    icosahedral: bool
    steps: int
    rotations: int = 100
    twins: int = 256
    """Pairs of networks that estimate what infinitely many members leave."""


def net(width: int) -> Serial:
    """Two hidden ReLU layers in NTK parameterisation with three outputs."""
    layer = lambda n: infinite.InfiniteDense(n, 2**0.5, 0.1)  # noqa: E731
    relu = infinite.ReLU()
    return infinite.serial(layer(width), relu, layer(width), relu, layer(3))


def uniform(normal: Any) -> Any:
    """Normal numbers made uniform of the same variance: entry by entry, so that axes matter."""
    return jax.tree.map(lambda p: 3**0.5 * jax.lax.erf(p / 2**0.5), normal)


@jax.tree_util.register_static
@dataclass(frozen=True)
class UniformStart:
    """A network whose normal parameters start uniform instead."""

    inner: Serial
    kind: ClassVar[str] = "uniform_start"

    def init(self, key, x) -> Variables:
        """The network's variables, made uniform in ±√3."""
        return uniform(self.inner.init(key, x))

    def apply(self, variables, x, *, key=None, train=False):
        """The network's outputs."""
        return self.inner.apply(variables, x, key=key, train=train)


def space(icosahedral: bool) -> groups.Matrices:
    """The group seen from turned axes, where it holds no permutations of them."""
    matrices = groups.icosahedral_matrices if icosahedral else groups.octahedral_matrices
    by = groups.random_rotations(np.random.default_rng(5), 1)[0]
    return groups.conjugate(groups.vectors(matrices()), by)


def pairs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal pairs of vectors and their cross products."""
    x = np.random.default_rng(seed).standard_normal((count, 6))
    return x, np.cross(x[:, :3], x[:, 3:])


def train_rows(settings: Settings) -> Split:
    """Whole orbits of the base pairs."""
    turn = space(settings.icosahedral)
    whole = groups.augment(*pairs(settings.base, 0), groups.direct_sum(turn, turn), turn)
    return Split(whole.x.astype(np.float32), whole.y.astype(np.float32))


def evaluated(settings: Settings) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Points turned by the group and by Haar rotations, the identity first, and those turns."""
    x, _ = pairs(POINTS, 3)
    haar = groups.random_rotations(np.random.default_rng(9), settings.rotations)
    every = {"the group": space(settings.icosahedral).matrices}
    every["all of SO(3)"] = np.concatenate([np.eye(3)[None], haar])
    found = {}
    for name, turns in every.items():
        halves = [np.einsum("gij,pj->pgi", turns, x[:, half]) for half in (slice(3), slice(3, 6))]
        found[name] = (np.concatenate(halves, -1), turns)
    return found


def size_of(settings: Settings) -> float:
    """Mean squared length of the training targets: what errors are divided by."""
    return float(np.mean(np.sum(np.square(pairs(settings.base, 0)[1]), axis=-1)))


def run(bench: Bench) -> Outcome:
    """Squared equivariance error against size on the group and on all rotations."""
    settings: Settings = bench.scale.evaluation
    orbits, split = evaluated(settings), train_rows(settings)
    points = np.concatenate([p.reshape(-1, 6) for p, _ in orbits.values()])
    theory = infinite.EnsembleDynamics(
        net(1),
        np.asarray(split.x, np.float64),
        split.y,
        learning_rate=bench.scale.training.learning_rate,
        loss="per_example",
        evolution="steps",
    )
    lines = {
        name: single_error(theory, orbit, settings.steps) / size_of(settings)
        for name, orbit in orbits.items()
    }
    left = {name: rest_error(settings, name == "icosahedral", theory) for name in SOLIDS}
    rests = {"the group": 0.0, "all of SO(3)": left[SOLIDS[settings.icosahedral]]}
    results, findings, curves = [], [], {}
    for trial in bench.trials:
        arm = trial.arm
        adam = {"optimiser": "adam", "learning_rate": ADAM_RATE} if arm.name == "adam" else {}
        found = record_trial(bench, trial, split, points, (settings.steps,), **adam)
        mine = _curves(found.at(settings.steps), orbits, size_of(settings))
        curves |= {(arm.label, name): curve for name, curve in mine.items()}
        metrics = _metrics(mine, lines, rests)
        findings.append(_finding(arm.label, mine, metrics))
        cost = {"members": len(found.at(settings.steps)), "seconds": found.seconds}
        results.append(row(arm.label, trial.seed, metrics, **cost))
    findings += floors(bench, split)
    findings.append(
        "Infinitely many networks of infinite width: squared error over all of SO(3) "
        + " and ".join(f"{value:.2g} ({name})" for name, value in left.items())
        + "."
    )
    figure = _figure(curves, lines, rests)
    return Outcome(results, figures=(figure,), findings=tuple(findings))


def _curves(outputs: np.ndarray, orbits: dict, size: float) -> dict[str, equivariance.Curve]:
    """The error of ensembles of every size, on the group and on all rotations."""
    found, start = {}, 0
    sizes = tuple(2**k for k in range(12) if 2**k <= len(outputs) // 2)
    for name, (p, turns) in orbits.items():
        stop = start + p.shape[0] * p.shape[1]
        folded = outputs[:, start:stop].reshape(len(outputs), *p.shape[:2], 3)
        start = stop
        found[name] = equivariance.against_members(
            equivariance.equivariance_error, folded, sizes, turns=turns, size=size
        )
    return found


def floors(bench: Bench, split: Split) -> list[str]:
    """What stays with infinitely many members, by twins, for each way to train the narrowest."""
    settings: Settings = bench.scale.evaluation
    rate = bench.scale.training.learning_rate
    ways = {
        "gradient descent": (lambda normal: normal, optax.sgd(rate)),
        "Adam": (lambda normal: normal, optax.adam(ADAM_RATE)),
        "a uniform start": (uniform, optax.sgd(rate)),
    }
    path, kept = bench.root / "twins.json", {}
    label = [repr(settings), repr(bench.scale.network(3)), rate, ADAM_RATE, ELEMENT]
    if path.exists():
        found = check_record(read_json(path), {"label": LIST, "floors": map_of(LIST)}, path)
        kept = found["floors"] if found["label"] == label else {}
    for name, (start, optimiser) in ways.items():
        if name not in kept:
            bench.say(f"twins, {name}")
            kept[name] = list(_twins(bench, start, optimiser, split))
            write_json(path, {"label": label, "floors": kept})
    return [_floor_sentence(name, Floor(*kept[name]), size_of(settings)) for name in ways]


def _twins(bench: Bench, start: Any, optimiser: Any, split: Split) -> Floor:
    settings: Settings = bench.scale.evaluation
    turn = space(settings.icosahedral)
    return twin_floor(
        bench.scale.network(3),
        start,
        optimiser,
        (np.asarray(split.x), np.asarray(split.y)),
        groups.direct_sum(turn, turn),
        turn,
        pairs(POINTS, 3)[0],
        pairs=settings.twins,
        steps=settings.steps,
        element=ELEMENT,
    )


def _floor_sentence(name: str, floor: Floor, size: float) -> str:
    level, error, pair = (part / size for part in floor)
    return (
        f"Twins, {name}: a pair differs by {pair:.2g}, infinitely many members by "
        f"{level:.2g} ± {error:.1g} (squared, one element of the group)."
    )


def _metrics(curves: dict, lines: dict[str, float], rests: dict[str, float]) -> dict[str, float]:
    metrics = {}
    for name, curve in curves.items():
        key = KEYS[name]
        metrics[f"single_{key}"] = float(curve.mean[0])
        metrics[f"over_theory_{key}"] = metrics[f"single_{key}"] / (lines[name] + rests[name])
        metrics[f"largest_{key}"] = float(curve.mean[-1])
        metrics[f"slope_{key}"] = equivariance.slope(curve)
    return metrics


def _finding(label: str, curves: dict[str, equivariance.Curve], metrics: dict[str, float]) -> str:
    parts = []
    for name, curve in curves.items():
        parts.append(
            f"on {name} slope {metrics[f'slope_{KEYS[name]}']:.2f}, one network over theory "
            f"{metrics[f'over_theory_{KEYS[name]}']:.2f}"
        )
        if len(curve.members) > 2:
            fitted = equivariance.plateau(curve)
            parts[-1] += f", fitted floor {fitted.level:.1g} ± {fitted.error:.1g}"
    return f"{label}: {'; '.join(parts)}."


def single_error(theory, orbit: tuple[np.ndarray, np.ndarray], time: int) -> float:
    """``(2/M) (C Σ(x,x) - tr ρ_Y(g) Σ(gx,x))`` for one member, mean over points and elements."""
    points, turns = orbit
    traces, error = np.einsum("gii->g", turns), []
    for orbit_points in points:
        covariance = theory.covariance(orbit_points, t=time)
        gap = 3 * (covariance[0, 0] + np.diag(covariance)) - 2 * traces * covariance[0]
        error.append(gap.mean())
    return float(np.mean(error))


def rest_error(settings: Settings, icosahedral: bool, theory) -> float:
    """What a finite group leaves of SO(3): the infinite mean's error over Haar rotations."""
    turn = space(icosahedral)
    kernel = groups.GroupAveraged(net(1), groups.direct_sum(turn, turn), turn)
    # The loss is a mean over examples, so one rate suits groups of both sizes.
    dynamics = infinite.EnsembleDynamics(
        kernel,
        *pairs(settings.base, 0),
        learning_rate=theory.learning_rate,
        loss="per_example",
        evolution="steps",
    )
    points, turns = evaluated(settings)["all of SO(3)"]
    mean = dynamics.mean(points.reshape(-1, 6), settings.steps).reshape(*points.shape[:2], 3)
    error = equivariance.equivariance_error(mean[None], turns, size=size_of(settings))
    return float(error.mean())


def _figure(curves: dict, lines: dict[str, float], rests: dict[str, float]) -> Figure:
    labels = list(dict.fromkeys(label for label, _ in curves))
    sizes = np.unique(np.concatenate([curve.members for curve in curves.values()]))
    theories = {name: rests[name] + line / sizes for name, line in lines.items()}
    values = np.concatenate([*(curve.mean for curve in curves.values()), *theories.values()])
    across = Axis(1, float(sizes.max()) * 1.1, "members", log=True)
    down = Axis.around(values, "squared equivariance error", log=True)
    panels = []
    for name, theory in theories.items():
        frame = Frame(across, down, left=48, right=292)
        shown = [curves[label, name] for label in labels]
        drawn = [Line(curve.members, curve.mean, number) for number, curve in enumerate(shown)]
        panels.append(Panel(name, frame, [Reference(sizes, theory), *drawn]))
    caption = (
        "Squared equivariance error of the mean of so many networks over the mean squared target, "
        "on the group whose orbits were trained on and on random rotations. Dashed: exact values "
        "of infinitely wide networks for every size; on all of SO(3) it ends at what the infinite "
        "ensemble's mean misses."
    )
    return Sheet("error", caption, panels, 2, series=labels)


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
    arms += [
        Arm("adam", f"Width {width}, Adam", DeepEnsemble(members), lambda _: net(width)),
        Arm(
            "uniform",
            f"Width {width}, uniform start",
            DeepEnsemble(members),
            lambda _: UniformStart(net(width)),
        ),
    ]
    order = 60 if settings.icosahedral else 24

    def make() -> Dataset:
        x, y = pairs(settings.base, 1)
        test = Split(x.astype(np.float32), y.astype(np.float32))
        return Dataset("cross products", train_rows(settings), test, task="regression")

    data = MadeData("cross products", order * settings.base, settings.base, (6,), make=make)
    sizes = {"steps": settings.steps, "rate": rate, "seeds": seeds}
    return descent_scale(data, lambda _: net(width), tuple(arms), settings, **sizes, note=note)


EXPERIMENT = Experiment(
    name="equivariance-cross-product",
    title="The cross product, equivariant to rotations of space",
    description=(
        "Dense networks learn the cross product from whole orbits of a finite group of rotations, "
        "turned against the axes. The claim: by gradient descent the ensemble becomes equivariant "
        "as one over the members without a floor. Adam and a uniform start act on each coordinate: "
        "turned twins of a network do not stay twins, and whether a floor is left is measured. The "
        "published sizes are not stated; these are ours."
    ),
    scales={
        "test": _scale(Settings(2, False, 10, 10, 32), {8: 16}, 0.05, 1, "2 base pairs, width 8"),
        "cpu": _scale(
            Settings(16, False, 300),
            {16: 256, 64: 128, 128: 64},
            0.1,
            1,
            "16 base pairs and the octahedral group",
        ),
        "paper": _scale(Settings(32, True, 300), {512: 1000}, 0.1, 1, "icosahedral, width 512"),
    },
    run=run,
)
