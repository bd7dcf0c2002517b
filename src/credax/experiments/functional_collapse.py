"""Do independent networks end in the same function? Mutual information of every pair."""

from collections.abc import Iterator

import numpy as np

from credax.data import load
from credax.experiments.bench import Bench, remembered
from credax.experiments.densities import density, edges, histogram_panel, map_panel
from credax.experiments.experiment import Arm, Data, Experiment, Outcome, Scale
from credax.experiments.populations import (
    SOURCE,
    Named,
    spread,
    zoo_of,
    zoo_result,
)
from credax.experiments.published import Measure, Published
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.quality import PairMatrix, association, pairwise_mutual_information
from credax.report.figure import Figure, Sheet
from credax.training import Training
from credax.zoo import Zoo

BINS = 48
CHUNK_ENTRIES = 2**22
UNSEEN = "classes left out of training"

PUBLISHED = Published(
    "the functional collapse figure, 1000 ResNet-18 on CIFAR-100, OOD inputs SVHN",
    f"{SOURCE}; read off the figure; ours are medians and 95 % ranges over pairs, in nats",
    (
        Measure("information", "MI", decimals=3),
        Measure("information_low", "from", decimals=3),
        Measure("information_high", "to", decimals=3),
        Measure("ood_information", "OOD MI", decimals=3),
        Measure("ood_information_low", "from", decimals=3),
        Measure("ood_information_high", "to", decimals=3),
        Measure("correlation", "corr.", decimals=2),
    ),
    "ResNet-18 on CIFAR-100 | .1075 | .103 | .112 | .222 | .16 | .32 | 0",
)


def _arms(members: int) -> tuple[Arm, ...]:
    ensemble = DeepEnsemble(members)
    return (
        Arm("mlp", "MLP 16 on digits", ensemble, Named("mlp", {"hidden": (16,)})),
        Arm("wide-mlp", "MLP 64 on digits", ensemble, Named("mlp", {"hidden": (64,)})),
    )


def run(bench: Bench) -> Outcome:
    """Mutual information of all pairs on test rows and on OOD ones, and how they agree."""
    ood = ood_inputs(bench.scale.data, bench.scale.evaluation["ood"])
    results, shown = [], {}
    for trial in bench.trials:
        zoo = zoo_of(bench, trial)
        bench.say(f"{trial.arm.label}, {zoo.members * (zoo.members - 1) // 2} pairs")
        settings = {"ood": bench.scale.evaluation["ood"], "members": zoo.members}
        found = remembered(
            trial.folder / "pairs.json",
            settings,
            lambda zoo=zoo: measured(zoo, np.asarray(bench.dataset.test.x), ood),
        )
        results.append(zoo_result(bench, trial, zoo, found["metrics"]))
        if trial.seed == 0:
            shown[trial.arm.label] = found
    findings = [sentence(result.method, result.metrics) for result in results if result.seed == 0]
    return Outcome(results, (PUBLISHED,), (pairs_figure(shown),), tuple(findings))


def ood_inputs(data: Data, name: str) -> np.ndarray:
    """Test rows of the classes that were left out, or of another data set."""
    if name != UNSEEN:
        return np.asarray(load(name).test.x)
    whole = load(data.name, **data.options)
    rows = [part.x[np.asarray(part.y) >= (data.classes or 0)] for part in (whole.test,)]
    return np.concatenate(rows)


def measured(zoo: Zoo, x: np.ndarray, ood: np.ndarray) -> dict:
    """Numbers for the table and histograms for the figure."""
    inside = _pairs(zoo, x, "information")
    outside = _pairs(zoo, ood, "ood")
    together = association(inside, outside, resamples=200)
    bins, ood_bins = edges(inside.values, bins=BINS), edges(outside.values, bins=BINS)
    joint = np.histogram2d(inside.values, outside.values, [bins, ood_bins])[0]
    metrics = {
        **spread(inside.values, "information"),
        **spread(outside.values, "ood_information"),
        "relative_dispersion": _dispersion(inside),
        "ood_relative_dispersion": _dispersion(outside),
        "correlation": together.pearson,
        "correlation_low": together.pearson_interval[0],
        "correlation_high": together.pearson_interval[1],
        "least_information": float(inside.values.min()),
    }
    return {
        "metrics": metrics,
        "bins": bins.tolist(),
        "ood_bins": ood_bins.tolist(),
        "density": density(inside.values, bins).tolist(),
        "ood_density": density(outside.values, ood_bins).tolist(),
        "joint": joint.tolist(),
    }


def _pairs(zoo: Zoo, x: np.ndarray, name: str) -> PairMatrix:
    """All pairs; the sums are kept in the zoo's folder after every chunk."""
    return pairwise_mutual_information(
        _chunks(zoo, x), checkpoint=zoo.folder / f"{name}.safetensors"
    )


def _chunks(zoo: Zoo, x: np.ndarray) -> Iterator[np.ndarray]:
    outputs = int(zoo.manifest.network["outputs"])
    size = max(1, min(len(x), CHUNK_ENTRIES // (zoo.members * outputs)))
    population = zoo.population()
    for start in range(0, len(x), size):
        prediction = population.predict(x[start : start + size])
        yield np.asarray(prediction.log_probs)  # pyright: ignore[reportAttributeAccessIssue]


def _dispersion(pairs: PairMatrix) -> float:
    """Standard deviation over pairs as a share of their mean."""
    return float(np.std(pairs.values) / np.mean(pairs.values))


def sentence(label: str, metrics: dict[str, float]) -> str:
    """Whether functions collapse, in words."""
    return (
        f"{label}: no pair of networks has a mutual information below "
        f"{metrics['least_information']:.4f} nats (0 would be one function); its dispersion is "
        f"{metrics['relative_dispersion']:.0%} of the mean on test rows and "
        f"{metrics['ood_relative_dispersion']:.0%} on OOD ones; the two correlate at "
        f"{metrics['correlation']:.2f} (95 % {metrics['correlation_low']:.2f} to "
        f"{metrics['correlation_high']:.2f})."
    )


def pairs_figure(shown: dict[str, dict]) -> Figure:
    """Both histograms and the joint density, one row per network."""
    panels = []
    for label, found in shown.items():
        bins, ood = np.array(found["bins"]), np.array(found["ood_bins"])
        inside = {"test rows": np.array(found["density"])}
        outside = {"OOD rows": np.array(found["ood_density"])}
        panels.append(histogram_panel(f"{label}: test rows", inside, bins, "MI, nats"))
        panels.append(histogram_panel(f"{label}: OOD rows", outside, ood, "MI, nats"))
        axes = (bins[0], bins[-1], "MI on test rows"), (ood[0], ood[-1], "on OOD rows")
        panels.append(map_panel(f"{label}: both", np.array(found["joint"]), *axes))
    caption = (
        "Mutual information of every pair of networks, on test rows and on OOD ones, and both "
        "together (brighter is more pairs, by square root)."
    )
    return Sheet("pairs", caption, panels, 3)


def _scale(members: int, rows: int, epochs: int, note: str) -> Scale:
    return Scale(
        data=Data("digits", rows, 479, (8, 8, 1), classes=8, unseen=2),
        network=Named("mlp", {"hidden": (16,)}),
        training=Training(epochs=epochs, batch_size=64, learning_rate=0.05),
        arms=_arms(members),
        seeds=1,
        evaluation={"ood": UNSEEN},
        note=note,
    )


PAPER = Scale(
    data=Data("cifar100", 50_000, 10_000, (32, 32, 3), classes=100),
    network=Named("resnet18"),
    training=Training(
        epochs=75, batch_size=128, learning_rate=0.1, schedule="cosine", augment=("flip", "crop")
    ),
    arms=(Arm("resnet18", "ResNet-18 on CIFAR-100", DeepEnsemble(1000), Named("resnet18")),),
    seeds=1,
    evaluation={"ood": "svhn"},
    note="1000 ResNet-18, 75 epochs, a cosine in place of two steps; needs accelerators",
)

EXPERIMENT = Experiment(
    name="functional-collapse",
    title="Do functions collapse?",
    description=(
        "If independently trained networks were one function up to symmetries, some pairs would "
        "predict the same for every input. The claim: mutual information of pairs has a very low "
        "dispersion on test rows, a greater one on OOD rows, the two are hardly correlated, "
        "and no pair collapses."
    ),
    scales={
        "test": _scale(16, 256, 3, "16 networks, 12 steps: shows that the program runs"),
        "cpu": _scale(
            1000,
            964,
            40,
            "1000 networks of each width on the digits 0 to 7; OOD rows are the digits 8 and 9",
        ),
        "paper": PAPER,
    },
    run=run,
)
