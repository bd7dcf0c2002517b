"""Marginals of single weights before and after symmetries are removed."""

from typing import Any

import numpy as np

from credax.experiments.bench import Bench
from credax.experiments.densities import density, edges, histogram_panel, map_panel
from credax.experiments.experiment import Arm, Data, Experiment, Outcome, Scale
from credax.experiments.populations import Named, structure_of, zoo_of, zoo_result
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.posterior import Population
from credax.quality import row_test, unit_rows
from credax.report.figure import Figure, Sheet
from credax.structure import Structure, canonicalise
from credax.training import Training

FORMS = {
    "raw": {"scale": "none", "order": "none"},
    "scaled": {"scale": "unit_norm", "order": "none"},
    "sorted": {"scale": "none", "order": "max"},
    "both": {"scale": "unit_norm", "order": "max"},
}
LAYERS = {"0_dense/kernel": "First layer", "1_dense/kernel": "Second layer"}
BINS = 40
PERMUTATIONS = 199


def run(bench: Bench) -> Outcome:
    """Densities of chosen weights in four forms, and the test that all units have one marginal."""
    results, figures, findings = [], [], []
    for trial in bench.trials:
        zoo = zoo_of(bench, trial)
        forms = forms_of(structure_of(zoo), zoo.population())
        metrics = {}
        for path, title in LAYERS.items():
            tests = {
                name: row_test(rows[path], permutations=PERMUTATIONS)
                for name, rows in forms.items()
            }
            for name, test in tests.items():
                metrics[f"{_key(title)}_{name}_row_mmd"] = test.statistic
                metrics[f"{_key(title)}_{name}_p_value"] = test.p_value
            if trial.seed == 0:
                rows = {name: found[path] for name, found in forms.items()}
                figures.append(marginals_figure(_key(title), title, rows, tests))
                findings.append(sentence(title, tests))
        results.append(zoo_result(bench, trial, zoo, metrics))
    return Outcome(results, figures=tuple(figures), findings=tuple(findings))


def _key(title: str) -> str:
    return title.lower().replace(" ", "-")


def forms_of(structure: Structure, population: Population) -> dict[str, dict[str, np.ndarray]]:
    """Incoming weights ``[members, units, inputs]`` of every layer, by form."""
    axes = dict.fromkeys(LAYERS, -1)
    return {
        name: unit_rows(canonicalise(structure, population, **options)[0], axes)  # pyright: ignore[reportArgumentType]
        for name, options in FORMS.items()
    }


def busiest_input(rows: np.ndarray) -> int:
    """The input whose weights vary most over networks and units."""
    return int(np.argmax(rows.var((0, 1))))


def marginals_figure(name: str, title: str, forms: dict[str, np.ndarray], tests: Any) -> Figure:
    """For each form the density of one weight over all units' and of two units' weights."""
    place = busiest_input(forms["raw"])
    first, second = [], []
    bins = edges(*(rows[..., place] for rows in forms.values()), bins=BINS)
    for form, rows in forms.items():
        weights = rows[..., place]
        lines = {"unit 0": density(weights[:, 0], bins), "all": density(weights, bins)}
        value = tests[form].statistic
        label = f"{form}: row MMD² {value:.4f}"
        first.append(histogram_panel(label, lines, bins, f"weight from input {place}"))
        counts = np.histogram2d(weights[:, 0], weights[:, 1], [bins, bins])[0]
        ends = float(bins[0]), float(bins[-1])
        axes = (*ends, "unit 0"), (*ends, "unit 1")
        second.append(map_panel(f"{form}: two units", counts, *axes))
    caption = (
        f"{title}: density over networks of unit 0's weight from input {place} and of all units' "
        "weights from it (equal if units are exchangeable), and of the same weight of units 0 "
        "and 1 together. All panels have the same axes; the least and greatest 0.1 % are cut off."
    )
    series = ("unit 0", "all units")
    return Sheet(name, caption, first + second, 4, series=series)


def sentence(title: str, tests: Any) -> str:
    """The test of all four forms in words."""
    parts = [
        f"{name} {test.statistic:.4f} (p = {test.p_value:.3g})" for name, test in tests.items()
    ]
    return (
        f"{title}, mean MMD² of a unit's rows from those of the others: {', '.join(parts)}; units "
        "are exchangeable as trained, and no longer once sorted."
        if tests["raw"].p_value > 0.05 >= tests["sorted"].p_value
        else f"{title}, mean MMD² of a unit's rows from those of the others: {', '.join(parts)}."
    )


def _scale(members: int, rows: int, epochs: int, note: str) -> Scale:
    return Scale(
        data=Data("digits", rows, 597, (8, 8, 1), classes=10),
        network=Named("mlp", {"hidden": (16, 16)}),
        training=Training(epochs=epochs, batch_size=64, learning_rate=0.05),
        arms=(Arm("mlp", "MLP 16-16", DeepEnsemble(members)),),
        seeds=1,
        note=note,
    )


EXPERIMENT = Experiment(
    name="marginals",
    title="Marginals of single weights",
    description=(
        "Every unit of a layer has the same marginal posterior under independent, identical "
        "initialisation. The published figures show what removing scalings, orders and both does "
        "to densities of single weights."
    ),
    scales={
        "test": _scale(16, 256, 2, "16 networks, 8 steps: shows that the program runs"),
        "cpu": _scale(1000, 1200, 40, "1000 networks 64-16-16-10 on digits, 40 epochs"),
        "paper": _scale(
            10_000,
            1200,
            200,
            "the published networks are ResNet-18, trained a thousand times; these are 10 000 of "
            "the network of the cpu scale",
        ),
    },
    run=run,
)
