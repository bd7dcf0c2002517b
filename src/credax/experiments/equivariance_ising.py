"""Energies of spins: how far ensembles of every size are from invariant, beside the theory."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from credax import groups, infinite
from credax.data import Dataset, Split
from credax.data.ising import ising
from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Experiment, Outcome, Scale
from credax.experiments.recording import MadeData, descent_scale, record_trial, row
from credax.infinite.net import Serial
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.metrics import equivariance
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Band, Layer, Line, Reference
from credax.report.svg import Axis, Frame

POINTS = 64
PLAIN, ZERO = "plain", "zero"
NOT_AUGMENTED = "not augmented"
MOST_CONTROLS = 128
"""Members of the arms beside the widths: enough to see a plateau."""


@dataclass(frozen=True)
class Settings:
    """Lattice, base configurations and steps; widths with their members are the arms."""

    size: int
    base: int
    steps: int
    temperature: float = 2.0
    """Of the out-of-distribution spins; the training spins are random."""


def net(width: int) -> Serial:
    """Two hidden ReLU layers in NTK parameterisation, on flattened spins."""
    layer = lambda n: infinite.InfiniteDense(n, 2**0.5, 0.1)  # noqa: E731
    relu = infinite.ReLU()
    return infinite.serial(infinite.Flatten(), layer(width), relu, layer(width), relu, layer(1))


def base_rows(settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Base configurations ``[base, size, size, 1]`` and standardised energies."""
    spins, energies = ising(settings.size, settings.base, seed=0)
    return spins[..., None], (energies - energies.mean()) / energies.std()


def families(settings: Settings) -> dict[str, np.ndarray]:
    """Inputs to evaluate: like the training spins, at another temperature, and normal fields."""
    rng = np.random.default_rng(7)
    size = settings.size
    return {
        "random spins": ising(size, POINTS, seed=1)[0][..., None],
        "cold spins": ising(size, POINTS, temperature=settings.temperature, seed=2)[0][..., None],
        "normal fields": rng.standard_normal((POINTS, size, size, 1)),
    }


def turns(settings: Settings):
    """Quarter turns of the lattice."""
    return groups.quarter_turns(settings.size, channels=1)


def split_of(settings: Settings, augmented: bool) -> Split:
    """The training rows, with whole orbits or without."""
    x, y = base_rows(settings)
    if augmented:
        whole = groups.augment(x, y, turns(settings))
        x, y = whole.x, whole.y
    return Split(x.astype(np.float32), y.astype(np.float32))


def dynamics_of(settings: Settings, split: Split) -> infinite.EnsembleDynamics:
    """The infinite ensemble at half the largest stable rate of gradient descent."""
    x = np.asarray(split.x, np.float64)

    def at(rate: float) -> infinite.EnsembleDynamics:
        return infinite.EnsembleDynamics(
            net(1), x, split.y, learning_rate=rate, loss="half_mean", evolution="steps"
        )

    return at(at(1.0).largest_learning_rate / 2)


def run(bench: Bench) -> Outcome:
    """Standard deviation over orbits against size for every width, beside the theory."""
    settings: Settings = bench.scale.evaluation
    every = {name: groups.orbit(x, turns(settings)) for name, x in families(settings).items()}
    points = np.concatenate([orbit.flat for orbit in every.values()])
    results, findings, curves = [], [], {}
    splits = {augmented: split_of(settings, augmented) for augmented in (True, False)}
    theories = {augmented: dynamics_of(settings, split) for augmented, split in splits.items()}
    for trial in bench.trials:
        arm, augmented = trial.arm, trial.arm.name != PLAIN
        theory, split = theories[augmented], splits[augmented]
        changes = {"batch_size": len(split), "learning_rate": theory.learning_rate}
        found = record_trial(bench, trial, split, points, (0, settings.steps), **changes)
        cost, start = {"members": len(found.at(0)), "seconds": found.seconds}, 0
        measured = []
        for name, orbit in every.items():
            rows = slice(start, start + len(orbit.flat))
            start = rows.stop
            before, after = (orbit.fold(found.at(step)[:, rows]) for step in (0, settings.steps))
            curve, line, metrics = _measured(after), None, {}
            if arm.name != ZERO:
                line = _theory(theory, orbit, curve.members, settings.steps)
                metrics["over_theory"] = float(np.sqrt(curve.mean[0]) / line.line[0])
                metrics["start_over_theory"] = (
                    _root(before) / _theory(theory, orbit, (1,), 0).line[0]
                )
            metrics = _alone(curve, after, orbit) | metrics
            measured.append((curve, metrics))
            curves[arm.label, name] = (curve, line)
            results.append(row(f"{arm.label}: {name}", trial.seed, metrics, **cost))
            cost = {"members": cost["members"]}  # one training for all inputs: its time once
        findings.append(_finding(arm.label, measured))
    return Outcome(results, figures=(_figure(curves, tuple(every)),), findings=tuple(findings))


class TheoryLine(NamedTuple):
    """The standard deviation of infinitely wide ensembles for every size, and its 90 % range.

    Without augmentation the mean is not invariant and the band is not known.
    """

    line: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


def _root(folded: np.ndarray) -> float:
    """Root mean square over inputs and members of a single network's orbit deviation."""
    return float(np.sqrt(np.mean([equivariance.orbit_variance(m[None]) for m in folded])))


def _measured(folded: np.ndarray) -> equivariance.Curve:
    sizes = tuple(2**k for k in range(20) if 2**k <= len(folded) // 2)
    return equivariance.against_members(equivariance.orbit_variance, folded, sizes)


def _theory(theory, orbit, sizes: tuple[int, ...], time: int) -> TheoryLine:
    """The theory's line; without augmentation the mean's own variance stays at every size."""
    curve = theory.orbit_deviation(orbit.points, sizes, t=time)
    mean = orbit.fold(theory.mean(orbit.flat, time))[None]
    stays = float(equivariance.orbit_variance(mean).mean())
    line = np.sqrt(np.square(curve.root_expected_variance) + stays)
    if stays > 1e-12 * line[0] ** 2:
        return TheoryLine(line)
    return TheoryLine(line, curve.quantiles[:, 0], curve.quantiles[:, 2])


def _alone(curve: equivariance.Curve, folded: np.ndarray, orbit) -> dict[str, float]:
    """Standard deviation of one network and of the largest ensembles, and the rate between."""
    # Cold spins are often all alike: no turn moves them, and their standard deviation is zero.
    moved = np.ptp(orbit.points, axis=1).reshape(len(orbit.points), -1).max(1) > 0
    relative = equivariance.relative_orbit_standard_deviation(folded[:, moved])
    return {
        "spread_single": float(np.sqrt(curve.mean[0])),
        "spread_largest": float(np.sqrt(curve.mean[-1])),
        "slope": equivariance.slope(curve) / 2,
        "relative_all": float(np.median(relative)),
    }


def _finding(label: str, measured: list[tuple[equivariance.Curve, dict[str, float]]]) -> str:
    def each(measure: str) -> str:
        return ", ".join(f"{metrics[measure]:.2f}" for _, metrics in measured)

    parts = [f"{label}, in the order of the panels: slopes {each('slope')}"]
    if "over_theory" in measured[0][1]:
        parts.append(
            f"a single network's standard deviation over the theoretical one {each('over_theory')} "
            f"(before training {each('start_over_theory')})"
        )
    else:
        parts.append(f"a single network's standard deviation {each('spread_single')}")
    if all(len(curve.members) > 2 for curve, _ in measured):
        stays = sum(equivariance.plateau(curve).significant for curve, _ in measured)
        parts.append(f"a plateau in {stays} of {len(measured)}")
    return "; ".join(parts) + "."


def _figure(curves: dict, names: tuple[str, ...]) -> Figure:
    labels = list(dict.fromkeys(label for label, _ in curves))
    theories = [theory for _, theory in curves.values() if theory is not None]
    values = [np.sqrt(c.mean) for c, _ in curves.values()]
    values += [part for theory in theories for part in theory if part is not None]
    sizes = np.concatenate([c.members for c, _ in curves.values()])
    down = Axis.around(np.concatenate(values), "orbit standard deviation", log=True)
    across = Axis(1, float(sizes.max()) * 1.1, "members", log=True)
    panels = []
    for name in names:
        frame = Frame(across, down, left=44, right=292)
        layers: list[Layer] = []
        for curve, theory in _widest(curves, name):
            if theory.low is not None:
                layers.append(Band(curve.members, theory.low, theory.high))
            layers.append(Reference(curve.members, theory.line))
        for number, label in enumerate(labels):
            curve, _ = curves[label, name]
            layers.append(Line(curve.members, np.sqrt(curve.mean), number))
        panels.append(Panel(name, frame, layers))
    caption = (
        "Standard deviation over the orbit of the mean of so many networks, root mean square over "
        "64 inputs. Dashed, with a band that holds 90 % of ensembles: exact values of infinitely "
        "wide networks for every size, tr(PC)/(|G|M), and without augmentation the asymmetry that "
        "stays."
    )
    return Sheet("spread", caption, panels, 3, series=labels)


def _widest(curves: dict, name: str) -> list:
    """The theory does not depend on the width: drawn once with augmentation and once without."""
    longest: dict[bool, tuple] = {}
    for (label, family), (curve, theory) in curves.items():
        plain = label.endswith(NOT_AUGMENTED)
        if family == name and theory is not None:
            kept = longest.get(plain)
            if kept is None or len(curve.members) > len(kept[0].members):
                longest[plain] = (curve, theory)
    return list(longest.values())


def _scale(settings: Settings, widths: dict[int, int], seeds: int, note: str) -> Scale:
    arms = [
        Arm(f"width-{width}", f"Width {width}", DeepEnsemble(members), lambda _, w=width: net(w))
        for width, members in widths.items()
    ]
    width, members = next(iter(widths.items()))
    members = min(members, MOST_CONTROLS)
    arms += [
        Arm(PLAIN, f"Width {width}, {NOT_AUGMENTED}", DeepEnsemble(members), lambda _: net(width)),
        Arm(
            ZERO,
            f"Width {width}, zero at the start",
            DeepEnsemble(members),
            lambda _: infinite.zero_output(net(width)),
        ),
    ]
    side = settings.size

    def make() -> Dataset:
        spins, y = base_rows(settings)
        test = Split(spins.astype(np.float32), y.astype(np.float32))
        return Dataset("Ising energies", split_of(settings, True), test, task="regression")

    data = MadeData("Ising energies", 4 * settings.base, settings.base, (side, side, 1), make=make)
    sizes = {"steps": settings.steps, "rate": 0.1, "seeds": seeds}
    return descent_scale(data, lambda _: net(width), tuple(arms), settings, **sizes, note=note)


EXPERIMENT = Experiment(
    name="equivariance-ising",
    title="Energies of spins, invariant to quarter turns",
    description=(
        "Ensembles of dense networks trained on whole orbits of spin configurations. The claim: "
        "their mean becomes invariant as one over the root of the members, in and out of "
        "distribution, and infinite width says how far it is at every size. The published lattice, "
        "training and other inputs are not stated; these are ours."
    ),
    scales={
        "test": _scale(Settings(3, 8, 20), {8: 32, 16: 16}, 1, "3 by 3 spins, tiny networks"),
        "cpu": _scale(Settings(5, 64, 300), {32: 512, 128: 64, 512: 8}, 1, "5 by 5 spins"),
        "paper": _scale(
            Settings(5, 128, 300), {512: 1000, 1024: 1000, 2048: 1000}, 1, "the published widths"
        ),
    },
    run=run,
)
