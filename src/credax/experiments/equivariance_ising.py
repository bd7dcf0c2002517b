"""Energies of spins: how far ensembles of every size are from invariant, with the exact law."""

from dataclasses import dataclass

import numpy as np

from credax import groups, infinite
from credax.data import Dataset, Split
from credax.data.ising import ising
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

POINTS = 64


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
    layer = lambda n: infinite.Dense(n, 2**0.5, 0.1)  # noqa: E731
    relu = infinite.ReLU()
    return infinite.serial(infinite.Flatten(), layer(width), relu, layer(width), relu, layer(1))


def base_rows(settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Base configurations ``[base, size, size, 1]`` and standardised energies."""
    spins, energies = ising(settings.size, settings.base, seed=0)
    return spins[..., None], (energies - energies.mean()) / energies.std()


def families(settings: Settings) -> dict[str, np.ndarray]:
    """Inputs to judge on: the law of the training spins, another temperature, normal fields."""
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
    """Spread against size for every width, in and out of distribution, beside its law."""
    settings: Settings = bench.scale.evaluation
    every = {name: groups.orbit(x, turns(settings)) for name, x in families(settings).items()}
    points = np.concatenate([orbit.flat for orbit in every.values()])
    results, findings, curves = [], [], {}
    dynamics = {
        augmented: dynamics_of(settings, split_of(settings, augmented))
        for augmented in (True, False)
    }
    for trial in bench.trials:
        arm = trial.arm
        augmented = arm.name != "plain"
        split = split_of(settings, augmented)
        law = dynamics[augmented]
        bench.say(f"{arm.label}, seed {trial.seed}")
        found = record(
            bench.root / f"{arm.name}_{trial.seed}.npz",
            bench.scale.problem(arm),
            arm.method,
            split,
            seed=trial.seed,
            training=bench.scale.training.replace(
                batch_size=len(split), learning_rate=law.learning_rate
            ),
            points=points.astype(np.float32),
            steps=(settings.steps,),
        )
        outputs = found.at(settings.steps)
        metrics: dict[str, float] = {}
        start = 0
        for name, orbit in every.items():
            folded = orbit.fold(outputs[:, start : start + len(orbit.flat)])
            start += len(orbit.flat)
            curve = _measured(folded)
            line = _law(law, orbit, curve.members, settings.steps)
            ratio = np.sqrt(curve.mean) / line
            key = name.replace(" ", "_")
            metrics[f"spread_single_{key}"] = float(np.sqrt(curve.mean[0]))
            metrics[f"spread_largest_{key}"] = float(np.sqrt(curve.mean[-1]))
            metrics[f"over_law_{key}"] = float(ratio[0])
            metrics[f"slope_{key}"] = equivariance.slope(curve) / 2
            curves[arm.label, name] = (curve, line)
            if len(curve.members) > 2:
                stays = "a" if equivariance.plateau(curve).significant else "no"
                findings.append(
                    f"{arm.label}, {name}: single spread over the law {ratio[0]:.2f}, slope "
                    f"{equivariance.slope(curve) / 2:.2f}, {stays} plateau."
                )
        members = len(outputs)
        results.append(row(arm.label, trial.seed, metrics, members=members, seconds=found.seconds))
    return Outcome(results, figures=(_figure(curves, tuple(every)),), findings=tuple(findings))


def _measured(folded: np.ndarray) -> equivariance.Curve:
    sizes = tuple(2**k for k in range(20) if 2**k <= len(folded) // 2)
    return equivariance.against_members(equivariance.orbit_variance, folded, sizes)


def _law(law, orbit, sizes: tuple[int, ...], time: int) -> np.ndarray:
    """The law's line; without augmentation the mean's own variance stays whatever the size."""
    curve = law.spread_curve(orbit.points, sizes, t=time)
    mean = orbit.fold(law.mean(orbit.flat, time))[None]
    stays = float(equivariance.orbit_variance(mean).mean())
    return np.sqrt(np.square(curve.root_expected_variance) + stays)


def _figure(curves: dict, names: tuple[str, ...]) -> Figure:
    labels = list(dict.fromkeys(label for label, _ in curves))
    values = [np.sqrt(c.mean) for c, _ in curves.values()] + [line for _, line in curves.values()]
    sizes = np.concatenate([c.members for c, _ in curves.values()])
    down = Axis.around(np.concatenate(values), "orbit standard deviation", log=True)
    across = Axis(1, float(sizes.max()) * 1.1, "members", log=True)
    panels = []
    for name in names:
        frame = Frame(across, down, left=44, right=292)
        layers = [frame.axes()]
        for number, label in enumerate(labels):
            curve, line = curves[label, name]
            layers.append(frame.line(curve.members, np.sqrt(curve.mean), number))
            if label in (labels[-1], labels[-2] if len(labels) > 1 else labels[-1]):
                layers.append(reference_line(frame, curve.members, line))
        panels.append((name, layers))
    caption = (
        "Standard deviation over the orbit of the mean of so many networks, root mean square over "
        "64 inputs. Dashed: the exact law of infinitely wide networks for every size, "
        "tr(PC)/(|G|M), and without augmentation the asymmetry that stays."
    )
    return sheet("spread", caption, panels, 3, series=labels)


def _scale(settings: Settings, widths: dict[int, int], seeds: int, note: str) -> Scale:
    arms = [
        Arm(f"width-{width}", f"Width {width}", DeepEnsemble(members), lambda _, w=width: net(w))
        for width, members in widths.items()
    ]
    width, members = next(iter(widths.items()))
    arms.append(
        Arm("plain", f"Width {width}, not augmented", DeepEnsemble(members), lambda _: net(width))
    )
    side = settings.size

    def make() -> Dataset:
        spins, y = base_rows(settings)
        test = Split(spins.astype(np.float32), y.astype(np.float32))
        return Dataset("Ising energies", split_of(settings, True), test, task="regression")

    return Scale(
        data=MadeData(
            "Ising energies", 4 * settings.base, settings.base, (side, side, 1), make=make
        ),
        network=lambda outputs: net(width),
        training=Training(
            epochs=settings.steps,
            batch_size=4 * settings.base,
            learning_rate=0.1,
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
        "cpu": _scale(Settings(5, 64, 300), {32: 1024, 128: 256, 512: 64}, 1, "5 by 5 spins"),
        "paper": _scale(
            Settings(5, 128, 300), {512: 1000, 1024: 1000, 2048: 1000}, 1, "the published widths"
        ),
    },
    run=run,
)
