"""Trained on orbits of C_n, evaluated at 720 angles: what the finite group leaves of SO(2)."""

from dataclasses import dataclass

import numpy as np

from credax import groups, infinite
from credax.data import Dataset, Split, load
from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Experiment, Outcome, Scale
from credax.experiments.recording import MadeData, row
from credax.infinite.net import Serial
from credax.likelihood import Gaussian
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Line
from credax.report.svg import Axis, Frame
from credax.training import Training

ANGLES = 720
ROUNDING = 1e-11
ORDERS = (1, 2, 4, 8, 16, 32, 64)
ACTIVATIONS = {"relu": infinite.ReLU(), "erf": infinite.Erf(), "gelu": infinite.GELU()}
LABELS = {"relu": "ReLU", "erf": "erf", "gelu": "GELU"}


@dataclass(frozen=True)
class Settings:
    """Orders of the group, images used, and angles."""

    orders: tuple[int, ...] = ORDERS
    pictures: int = 0
    """Digits in the basis of disc harmonics beside the points of the plane; 0 for none."""
    angles: int = ANGLES


def net(name: str) -> Serial:
    """Two hidden layers."""
    layer = lambda n: infinite.InfiniteDense(n, 1.5, 0.5)  # noqa: E731
    return infinite.serial(layer(1), ACTIVATIONS[name], layer(1), ACTIVATIONS[name], layer(1))


def plane() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Six points with targets, and a place to look from."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((6, 2)), rng.standard_normal(6), np.array([[1.3, 0.0]])


def residual(name: str, order: int, angles: int) -> tuple[np.ndarray, int]:
    """The infinite ensemble's mean along the circle, and its strongest angular mode."""
    x, y, place = plane()
    kernel = groups.GroupAveraged(net(name), groups.plane_rotations(order))
    turn = 2 * np.pi * np.arange(angles) / angles
    circle = place[0, 0] * np.stack([np.cos(turn), np.sin(turn)], -1)
    mean = infinite.EnsembleDynamics(kernel, x, y).mean(circle, 3.0)[:, 0]
    modes = np.abs(np.fft.rfft(mean - mean.mean()))
    return mean, int(np.argmax(modes))


def run(bench: Bench) -> Outcome:
    """The standard deviation over all angles for every order and activation."""
    settings: Settings = bench.scale.evaluation
    results, findings, curves = [], [], {}
    for trial in bench.trials:
        name = trial.arm.name
        bench.say(trial.arm.label)
        metrics, spreads, modes = {}, [], []
        for order in settings.orders:
            mean, mode = residual(name, order, settings.angles)
            spreads.append(float(mean.std()))
            # Twelve orders of magnitude in one table: their logarithms.
            metrics[f"log10_spread_c{order}"] = float(np.log10(spreads[-1]))
            modes.append(mode)
        curves[trial.arm.label] = (settings.orders, spreads)
        results.append(row(trial.arm.label, trial.seed, metrics))
        first, last = settings.orders[0], settings.orders[-1]
        findings.append(
            f"{trial.arm.label}: the standard deviation over {settings.angles} angles falls from "
            f"{spreads[0]:.3g} (C{first}) to {spreads[-1]:.2g} (C{last}); the strongest angular "
            f"modes are {_listed(settings.orders, spreads, modes)}."
        )
    if settings.pictures:
        for name, (orders, spreads) in pictures(settings).items():
            curves[name] = (orders, spreads)
            each = ", ".join(f"{s:.2g} (C{n})" for n, s in zip(orders, spreads, strict=True))
            findings.append(f"{name[0].upper()}{name[1:]}: deviation over 90 angles {each}.")
    return Outcome(results, figures=(_figure(curves),), findings=tuple(findings))


def _listed(orders: tuple[int, ...], spreads: list[float], modes: list[int]) -> str:
    """Which mode is left for each order; what is only rounding has none."""
    kept = [(n, m) for n, s, m in zip(orders, spreads, modes, strict=True) if s > ROUNDING]
    return ", ".join(f"{mode} (C{order})" for order, mode in kept)


def pictures(settings: Settings) -> dict:
    """Digits rotated exactly in disc harmonics: relative standard deviation of the mean."""
    data = load("digits")
    harmonics = groups.DiscHarmonics.of(8, 0.9)
    x = np.asarray(data.train.x[: settings.pictures], np.float64).reshape(-1, 8, 8)
    coefficients = harmonics.encode(x / x.max())
    labels = np.asarray(data.train.y[: settings.pictures])
    y = np.eye(10)[labels] - 0.1
    test = coefficients[: min(20, settings.pictures)]
    turns = np.stack([harmonics.rotation(2 * np.pi * k / 90) for k in range(90)])
    around = np.einsum("gij,pj->pgi", turns, test).reshape(-1, harmonics.coefficients)
    orders = tuple(order for order in settings.orders if order <= 16)
    spreads = []
    for order in orders:
        kernel = groups.GroupAveraged(net("relu"), harmonics.representation(order))
        dynamics = infinite.EnsembleDynamics(kernel, coefficients, y, ridge=infinite.Ridge(1e-4))
        mean = dynamics.mean(around, np.inf).reshape(len(test), 90, 10)
        spreads.append(float(np.sqrt(mean.var(1).mean()) / np.sqrt(np.mean(mean**2))))
    return {"digits in disc harmonics, ReLU (relative)": (orders, spreads)}


def _figure(curves: dict) -> Figure:
    values = np.concatenate([np.asarray(s) for _, s in curves.values()])
    across = Axis(1, 70, "order n of the cyclic group", log=True)
    down = Axis.around(np.maximum(values, 1e-16), "standard deviation over all angles", log=True)
    frame = Frame(across, down, left=50, right=430, bottom=230)
    layers = [
        Line(orders, np.maximum(spreads, 1e-16), number)
        for number, (orders, spreads) in enumerate(curves.values())
    ]
    caption = (
        "Standard deviation of the infinite ensemble's mean over all angles after training on "
        "orbits of C_n: averaging leaves only angular modes that are multiples of n, so it falls "
        "as fast as the kernel is smooth."
    )
    panels = [Panel("What C_n leaves of SO(2)", frame, layers)]
    return Sheet("angles", caption, panels, 1, (440, 280), series=list(curves))


def _make() -> Dataset:
    x, y, _ = plane()
    rows = Split(x.astype(np.float32), y.astype(np.float32))
    return Dataset("six points of the plane", rows, rows, task="regression")


def _scale(settings: Settings, note: str) -> Scale:
    arms = tuple(Arm(name, label, DeepEnsemble(1)) for name, label in LABELS.items())
    return Scale(
        data=MadeData("six points of the plane", 6, 6, (2,), make=_make),
        network=lambda outputs: net("relu"),
        training=Training(epochs=1, batch_size=6),
        arms=arms,
        seeds=1,
        likelihood=Gaussian(1.0),
        weight_decay=0.0,
        evaluation=settings,
        note=note,
    )


EXPERIMENT = Experiment(
    name="equivariance-continuous",
    title="A finite group for a continuous one",
    description=(
        "Infinite ensembles trained on orbits of the cyclic group and evaluated at all angles. The "
        "claim: the error falls with the order of the group, as fast as the kernel is smooth. "
        "Nothing is trained: everything is infinite width."
    ),
    scales={
        "test": _scale(Settings((1, 4, 16), 0, 120), "three orders"),
        "cpu": _scale(Settings(pictures=200), "all orders, and 200 digits in disc harmonics"),
    },
    run=run,
)
