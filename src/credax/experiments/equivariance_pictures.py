"""What the image experiments of equivariance share: networks, arms, and the study itself."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from credax import groups
from credax.data import Split
from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Data, Outcome, Scale
from credax.experiments.published import Published
from credax.experiments.recording import row
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.metrics import equivariance
from credax.network import Network
from credax.networks import (
    Activation,
    AvgPool,
    Conv,
    Dense,
    Flatten,
    GlobalAveragePool,
    Sequential,
)
from credax.posterior import Population
from credax.problem import Problem
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Line
from credax.report.svg import Axis, Frame
from credax.standardise import Standardise
from credax.training import Training, fit

ENSEMBLE, SINGLE = "DeepEns + DA", "only DA"


@dataclass(frozen=True)
class Settings:
    """Orders of the group, images to evaluate, OOD sets, and fields of a group's own network."""

    orders: tuple[int, ...]
    evaluated: int
    others: tuple[str, ...] = ("mnist", "cifar10", "noise")
    masked: bool = True
    fields: tuple[int, ...] = (8, 16, 16)


def plain_cnn(outputs: int, channels: tuple[int, ...] = (16, 32, 32)) -> Sequential:
    """Three 3x3 convolutions, averaged by two between, and a dense head on all positions."""
    layers: list[Network] = []
    for number, width in enumerate(channels):
        layers += [Conv(width, initialiser="he"), Activation("relu")]
        layers += [AvgPool(2)] if number + 1 < len(channels) else []
    return Sequential((*layers, Flatten(), Dense(outputs)))


def picture_scale(
    data: Data,
    settings: Settings,
    members: int,
    epochs: int,
    channels: tuple[int, ...],
    note: str,
    *,
    seeds: int = 1,
    built_in: tuple[Arm, ...] = (),
) -> Scale:
    """An ensemble with augmentation, one without, and networks with ``built_in`` symmetry."""
    ensemble = DeepEnsemble(members)
    arms = (Arm("ensemble", ENSEMBLE, ensemble), Arm("plain", "Ensemble, no DA", ensemble))
    return Scale(
        data=data,
        network=lambda outputs: plain_cnn(outputs, channels),
        training=Training(
            epochs=epochs, batch_size=32 if data.synthetic else 128, learning_rate=0.05
        ),
        arms=(*arms, *built_in),
        seeds=seeds,
        weight_decay=0.0,
        evaluation=settings,
        note=note,
    )


def scorer() -> Sequential:
    """A small network that says which turn of an image is its canonical one."""
    return Sequential((Conv(8, window=5), Activation("relu"), GlobalAveragePool(), Dense(1)))


def network_of(arm: Arm, order: int, shape: tuple[int, ...], base: Network, settings: Settings):
    """The network of an arm for a group; ``shape`` is height, channels and classes."""
    size, channels, outputs = shape
    if arm.name == "group-cnn":
        return groups.GroupCNN(order, outputs, settings.fields, window=3 if order == 4 else 5)
    if arm.name == "canonicalised":
        turns = groups.picture_rotations(size, order, channels=channels)
        return groups.Canonicalised(base, scorer(), turns)
    return base


def prepared(split: Split, rows: int | None, mask: np.ndarray | None) -> Split:
    """The first rows as floats, the corners that turns cannot keep masked."""
    x = np.asarray(split.x[:rows], np.float32)
    x = x if mask is None else x * mask[..., None].astype(np.float32)
    units = None
    if split.inputs is not None:
        units = Standardise(float(np.mean(split.inputs.mean)), float(np.mean(split.inputs.scale)))
    return Split(x, np.asarray(split.y[:rows]), units)


def study(
    bench: Bench,
    others: dict[str, np.ndarray],
    published: tuple[Published, ...] = (),
) -> Outcome:
    """Every arm, group and seed: accuracy, and agreement over orbits in and out of distribution."""
    settings: Settings = bench.scale.evaluation
    size, channels = bench.dataset.input_shape[0], bench.dataset.input_shape[-1]
    mask = groups.soft_mask(size) if settings.masked else None
    train = prepared(bench.dataset.train, None, mask)
    test = prepared(bench.dataset.test, settings.evaluated, mask)
    sets = {"test": test.x, **others}
    rows: dict[tuple[str, int], dict[str, float]] = {}
    outputs = bench.scale.data.classes or 10
    for trial in bench.trials:
        arm = trial.arm
        for order in settings.orders:
            bench.say(f"{arm.label}, C{order}, seed {trial.seed}")
            turns = groups.picture_rotations(size, order, channels=channels)
            base = bench.scale.network(outputs)
            network = network_of(arm, order, (size, channels, outputs), base, settings)
            problem = Problem(
                network, bench.scale.likelihood, weight_decay=bench.scale.weight_decay
            )
            training = bench.scale.training
            split = groups.full_orbit(train, turns) if arm.name == "ensemble" else train
            if arm.name in ("group-cnn", "canonicalised"):
                # Orbits are built in; they take the steps that quarter turns would give them.
                training = training.replace(epochs=4 * training.epochs)
            if arm.name == "group-cnn":
                # Every weight acts at all orientations: no rate of descent suits all orders.
                training = training.replace(optimiser="adam", learning_rate=0.003)
            posterior = fit(
                problem,
                arm.method,
                split,
                key=trial.seed,
                training=training,
                folder=trial.folder / f"c{order}",
                progress=bench.progress,
            )
            for label, found in _variants(arm, posterior, turns).items():
                metrics = rows.setdefault((label, trial.seed), {})
                prediction = found.predict(test.x)
                metrics[f"accuracy_c{order}"] = _accuracy(prediction, test.y, label == SINGLE)
                away = []
                for name, x in sets.items():
                    value = _agreement(found, x, turns, label == SINGLE)
                    metrics[f"osp_c{order}_{name}"] = value["orbit_same_prediction"]
                    metrics[f"kl_c{order}_{name}"] = value["symmetric_kl"]
                    away += [] if name == "test" else [value["orbit_same_prediction"]]
                metrics[f"osp_c{order}"] = float(np.mean(away))
    results = [row(label, seed, metrics) for (label, seed), metrics in rows.items()]
    figure = _figure(results, settings)
    return Outcome(results, published, (figure,), tuple(_findings(results, settings)))


def _variants(arm: Arm, posterior: Any, turns) -> dict[str, Any]:
    if arm.name != "ensemble":
        return {arm.label: posterior}
    averaged: Any = groups.GroupAverage(posterior.problem.network, turns)
    problem = Problem(averaged, posterior.problem.likelihood, prior=posterior.problem.prior)
    problem = problem.with_units(posterior.problem.inputs, posterior.problem.targets)
    one = posterior.take([0])
    average = Population(problem, one.variables, one.indices, one.input_shape, one.input_dtype)
    return {ENSEMBLE: posterior, SINGLE: posterior, "Group average of one": average}


def _accuracy(prediction: Any, y: np.ndarray, single: bool) -> float:
    if single:
        return float(np.mean(np.asarray(prediction.log_probs).argmax(-1) == y))
    return float(np.mean(np.asarray(prediction.label) == y))


def _agreement(posterior: Any, x: np.ndarray, turns, single: bool) -> dict[str, float]:
    orbit = groups.orbit(x.astype(np.float32), turns)
    log_probs = np.asarray(posterior.predict(orbit.flat).log_probs, np.float64)
    folded = orbit.fold(np.maximum(log_probs, -100.0))
    members = [folded[i : i + 1] for i in range(len(folded))] if single else [folded]
    tables = [equivariance.evaluate_orbit(m) for m in members]
    return {name: float(np.mean([t[name] for t in tables])) for name in tables[0]}


def _findings(results, settings: Settings) -> list[str]:
    found = []
    for order in settings.orders:
        means = {}
        for label in (ENSEMBLE, SINGLE):
            each = [r.metrics[f"osp_c{order}"] for r in results if r.method == label]
            if each:
                means[label] = np.mean(each)
        if len(means) == 2:
            found.append(
                f"C{order}: orbit same prediction out of distribution {means[ENSEMBLE]:.2f} of "
                f"{order} for the ensemble and {means[SINGLE]:.2f} for its members."
            )
    return found


def _figure(results, settings: Settings) -> Figure:
    labels = list(dict.fromkeys(r.method for r in results))
    curves = []
    for label in labels:
        mine = [r for r in results if r.method == label]
        means = [np.mean([r.metrics[f"osp_c{o}"] for r in mine]) for o in settings.orders]
        curves.append(np.divide(means, settings.orders))
    across = Axis(0, max(settings.orders) * 1.1, "order of the group")
    down = Axis.around(np.append(np.concatenate(curves), 1.0), "share of the orbit")
    frame = Frame(across, down, left=44, right=430, bottom=230)
    lines = [Line(settings.orders, curve, n) for n, curve in enumerate(curves)]
    caption = (
        "Share of an orbit that gets the class of the untransformed image, out of distribution, "
        "mean over sets and seeds. Only quarter turns are exact; between them interpolation limits "
        "every method."
    )
    panel = Panel("Out of distribution", frame, lines)
    return Sheet("agreement", caption, [panel], 1, (440, 280), labels)
