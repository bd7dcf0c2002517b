"""Excess mass of trained networks over the least mass of all scalings."""

import numpy as np

from credax.experiments.bench import Bench, Trial, remembered
from credax.experiments.densities import density, edges, histogram_panel
from credax.experiments.experiment import Arm, Data, Experiment, Outcome, Scale
from credax.experiments.populations import (
    SOURCE,
    Named,
    network_structure,
    spread,
    structure_of,
    zoo_of,
    zoo_result,
)
from credax.experiments.published import Measure, Published
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.network import Variables
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Line
from credax.report.svg import Axis, Frame
from credax.structure import Structure, excess, imbalance, minimum_mass
from credax.training import Training, fit
from credax.training.schedule import learning_rate_at

PUBLISHED = Published(
    "the mass profile of about 1000 OptuNets on MNIST",
    f"{SOURCE}; ranges read off the figure; ours are 95 % ranges",
    (
        Measure("mass_low", "mass from", decimals=0),
        Measure("mass_high", "mass to", decimals=0),
        Measure("least_low", "least from", decimals=0),
        Measure("least_high", "least to", decimals=0),
        Measure("excess_low", "excess from, %", 100, 0),
        Measure("excess_mode", "most common excess, %", 100, 0),
        Measure("excess_high", "excess to, %", 100, 0),
    ),
    "OptuNet | 125 | 285 | 95 | 270 | 0 | 30 | 60",
)
WATCHED = 64
"""Networks whose balance is followed along training."""


def arms(members: int) -> tuple[Arm, ...]:
    """Four shapes of network; the published profile has one."""
    ensemble = DeepEnsemble(members)
    return (
        Arm("optunet", "OptuNet", ensemble, Named("optunet", {"padding": "SAME"})),
        Arm("mlp", "MLP 16", ensemble, Named("mlp", {"hidden": (16,)})),
        Arm("deep-mlp", "MLP 16-16-16", ensemble, Named("mlp", {"hidden": (16, 16, 16)})),
        Arm("cnn", "CNN 4-8, 16", ensemble, Named("cnn", {"channels": (4, 8), "dense": 16})),
    )


def run(bench: Bench) -> Outcome:
    """Mass, least mass and excess of every network; how balance changes along training."""
    results, profiles, traces = [], {}, {}
    for trial in bench.trials:
        zoo = zoo_of(bench, trial)
        structure = structure_of(zoo)
        least = minimum_mass(structure, zoo.population())
        values = {"mass": least.mass, "least": least.value, "excess": excess(least)}
        metrics = {name: v for key, x in values.items() for name, v in spread(x, key).items()}
        metrics["excess_mode"] = mode(values["excess"])
        metrics["imbalance"] = float(np.median(imbalance(structure, zoo.population())))
        results.append(zoo_result(bench, trial, zoo, metrics))
        if trial.seed == 0:
            profiles[trial.arm.label] = values
            traces[trial.arm.label] = balance_along_training(bench, trial)
    return Outcome(
        results,
        (PUBLISHED,),
        (profile_figure(profiles), balance_figure(traces)),
        tuple(sentence(result.method, result.metrics) for result in results if result.seed == 0),
    )


def mode(values: np.ndarray, bins: int = 40) -> float:
    """The middle of the fullest of equal bins."""
    count, ends = np.histogram(values, bins)
    place = int(np.argmax(count))
    return float((ends[place] + ends[place + 1]) / 2)


def sentence(label: str, metrics: dict[str, float]) -> str:
    """One network's profile in words."""
    return (
        f"{label}: mass {metrics['mass']:.1f}, least mass {metrics['least']:.1f} (medians); excess "
        f"{metrics['excess_low']:.1%} to {metrics['excess_high']:.1%}, most often "
        f"{metrics['excess_mode']:.1%}."
    )


class BalanceRecorder:
    """An observer of `credax.fit`: each network's ``Σ|in - out|``, biases counted with what enters.

    The decay of the weights acts on every number, so that this sum is what the theory is about.
    """

    def __init__(self, structure: Structure, every: int):
        self.structure, self.every = structure, every
        self.steps: list[int] = []
        self.sums: list[np.ndarray] = []

    def __call__(self, step: int, members: Variables) -> None:
        """Measure and keep."""
        squares = [np.asarray(leaf, float) ** 2 for leaf in _leaves(members)]
        mass = sum(square.reshape(len(square), -1).sum(1) for square in squares)
        self.steps.append(int(step))
        self.sums.append(imbalance(self.structure, members, biases=True) * mass)


def _leaves(members: Variables) -> list:
    import jax

    return jax.tree.leaves(members.params)


def balance_along_training(bench: Bench, trial: Trial) -> dict[str, list[float]]:
    """``Σ|in - out|`` over its start, and what the decay alone would leave of it.

    Under gradient flow with decay ``λ`` every difference of incoming and outgoing mass obeys
    ``d/dt = -2 λ (in - out)``, ``t = Σ lr / (1 - momentum)``; what is above that is noise.
    """
    scale, training = bench.scale, bench.scale.training.replace(strategy="vmap")
    rows = len(bench.dataset.train)
    total = training.epochs * training.steps_per_epoch(rows)

    def measure() -> dict[str, list[float]]:
        bench.say(f"{trial.arm.label}, balance along training")
        network = bench.problem(trial.arm).network
        recorder = BalanceRecorder(
            network_structure(network, bench.dataset.input_shape), max(1, total // 60)
        )
        members = min(WATCHED, trial.arm.method.members)
        fit(
            scale.problem(trial.arm),
            DeepEnsemble(members),
            bench.dataset.train,
            key=trial.seed,
            training=training,
            progress=False,
            observer=recorder,
        )
        rates = np.array([float(learning_rate_at(training, rows)(s)) for s in range(total)])
        time = np.r_[0.0, np.cumsum(rates / (1 - training.momentum))]
        sums = np.array(recorder.sums)
        steps = np.array(recorder.steps)
        return {
            "step": steps.tolist(),
            "measured": np.median(sums / sums[0], axis=1).tolist(),
            "decay": np.exp(-2 * scale.weight_decay * time[steps]).tolist(),
        }

    return remembered(trial.folder / "balance.json", {"members": WATCHED}, measure)


def profile_figure(profiles: dict[str, dict[str, np.ndarray]]) -> Figure:
    """Mass and least mass, and the excess of one over the other, one row per network."""
    panels = []
    for label, values in profiles.items():
        bins = edges(values["mass"], values["least"])
        pair = {name: density(values[name], bins) for name in ("mass", "least")}
        panels.append(histogram_panel(label, pair, bins, "squared weights"))
        bins = edges(100 * values["excess"])
        own = {"excess": density(100 * values["excess"], bins)}
        panels.append(histogram_panel(f"{label}: excess", own, bins, "excess, %"))
    caption = (
        "Left, the mass of trained networks (solid) and the least mass of the same functions "
        "(second line); right, by how much the first exceeds the second."
    )
    return Sheet("mass-profiles", caption, panels, 2, series=("mass as trained", "least mass"))


def balance_figure(traces: dict[str, dict[str, list[float]]]) -> Figure:
    """Imbalance along training beside what the decay alone would leave."""
    panels = []
    for label, values in traces.items():
        top = 1.08 * max(values["measured"] + values["decay"])
        frame = Frame(Axis(0, values["step"][-1], "step"), Axis(0, top, "Σ|in − out| over start"))
        lines = [
            Line(values["step"], values[name], number)
            for number, name in enumerate(("measured", "decay"))
        ]
        panels.append(Panel(label, frame, lines))
    caption = (
        "Imbalance of incoming and outgoing mass along training (median over networks), and what "
        "weight decay alone would leave of it: above the second line, noise of the steps and the "
        "finite learning rate unbalance as fast as decay balances."
    )
    series = ("measured", "decay alone")
    return Sheet("balance", caption, panels, 2, series=series)


def _scale(members: int, rows: int, epochs: int, note: str, arms_of=arms) -> Scale:
    return Scale(
        data=Data("digits", rows, 597, (8, 8, 1), classes=10),
        network=Named("mlp", {"hidden": (16,)}),
        training=Training(epochs=epochs, batch_size=64, learning_rate=0.05),
        arms=arms_of(members),
        seeds=1,
        weight_decay=2e-4,
        note=note,
    )


PAPER = Scale(
    data=Data("mnist", 60_000, 10_000, (28, 28, 1), classes=10),
    network=Named("optunet"),
    training=Training(epochs=60, batch_size=64, learning_rate=0.04, momentum=0.0, nesterov=False),
    arms=(Arm("optunet", "OptuNet", DeepEnsemble(1000), Named("optunet")),),
    seeds=1,
    weight_decay=2e-4,
    note=(
        "1000 OptuNets of 355 numbers (the published has 392, not described) on MNIST, 60 epochs, "
        "a cosine in place of two steps of the learning rate; hours on two cores"
    ),
)

EXPERIMENT = Experiment(
    name="mass-profiles",
    title="The mass of trained networks",
    description=(
        "Scaling a unit up and its readers down leaves the function alone and changes the squared "
        "weights. The claim: descent with weight decay never reaches the least mass, because "
        "along these directions its gradient is small beside the noise of the steps."
    ),
    scales={
        "test": _scale(12, 256, 2, "12 networks, 8 steps: shows that the program runs"),
        "cpu": _scale(1000, 1200, 40, "1000 networks of each shape on 8 by 8 digits, 40 epochs"),
        "paper": PAPER,
    },
    run=run,
)
