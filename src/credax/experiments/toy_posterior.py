"""The posterior of a network of nine numbers, before and after its symmetries are removed."""

import numpy as np

from credax.experiments.bench import Bench
from credax.experiments.densities import map_panel
from credax.experiments.experiment import Arm, Data, Experiment, Outcome, Scale
from credax.experiments.populations import Named, structure_of, zoo_of, zoo_result
from credax.likelihood import Bernoulli
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.posterior import Population
from credax.report.figure import Figure, Sheet
from credax.structure import Structure, canonicalise
from credax.training import Training

LARGEST_LOSS = 0.01
"""Networks with a greater mean training loss are left out of the figure."""
NORM = 3.0
"""Norm of a unit's incoming weights after scaling, as in the figure."""
BINS, RANGE = 85, 4.0
AT_ONCE = 2500


def _scale(members: int, epochs: int, note: str) -> Scale:
    return Scale(
        data=Data("toy/two-clouds", 400, 400, (2,), classes=2),
        network=Named("mlp", {"hidden": (2,)}),
        training=Training(
            epochs=epochs,
            batch_size=10,
            learning_rate=2.0,
            momentum=0.0,
            nesterov=False,
            schedule="constant",
        ),
        arms=(Arm("mlp", "2-2-1 ReLU", DeepEnsemble(members)),),
        seeds=1,
        likelihood=Bernoulli(),
        weight_decay=0.0,
        evaluation={"largest loss": LARGEST_LOSS, "norm": NORM},
        note=note,
    )


def run(bench: Bench) -> Outcome:
    """The two output weights of every network kept: raw, scaled, scaled and sorted."""
    results, figures, findings = [], [], []
    for trial in bench.trials:
        zoo = zoo_of(bench, trial, AT_ONCE)
        kept = np.flatnonzero(zoo.values("train_nll") <= LARGEST_LOSS)
        if len(kept) < 2:  # a run too short to fit anything still shows that the program works
            kept = np.argsort(zoo.values("train_nll"))[:2]
        forms = output_weights(structure_of(zoo), zoo.population(kept))
        metrics = {"kept_share": len(kept) / len(zoo.records), **checks(forms)}
        results.append(zoo_result(bench, trial, zoo, metrics))
        if trial.seed == 0:
            figures.append(weights_figure({n: w for n, (w, _) in forms.items()}))
            findings += sentences(len(kept), len(zoo.records), metrics)
    return Outcome(results, figures=tuple(figures), findings=tuple(findings))


def output_weights(
    structure: Structure, population: Population
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Output weights ``[members, 2]`` and norms of incoming weights ``[members, 2]``, by form."""
    wanted = {
        "raw": {"scale": "none", "order": "none"},
        "scaled": {"scale": "unit_norm", "order": "none", "constant": NORM},
        "scaled and sorted": {"scale": "unit_norm", "order": "output", "constant": NORM},
    }
    found = {}
    for name, options in wanted.items():
        variables = canonicalise(structure, population, **options)[0].variables
        params = {k: np.asarray(v["kernel"], float) for k, v in variables.params.items()}
        found[name] = params["1_dense"][..., 0], np.sqrt((params["0_dense"] ** 2).sum(1))
    return found


def checks(forms: dict[str, tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
    """Whether the forms are what they say, and how far apart the two weights lie."""
    scaled, (ordered, _) = forms["scaled"], forms["scaled and sorted"]
    raw = forms["raw"][0]
    return {
        "norm_error": float(np.abs(scaled[1] - NORM).max()),
        "half_plane_share": float(np.mean(ordered[:, 0] <= ordered[:, 1])),
        "opposite_signs_share": float(np.mean(raw[:, 0] * raw[:, 1] < 0)),
        "raw_half_plane_share": float(np.mean(raw[:, 0] <= raw[:, 1])),
    }


def sentences(kept: int, members: int, metrics: dict[str, float]) -> list[str]:
    """What came out, beside what the figure shows."""
    return [
        f"{kept} of {members} networks have a mean loss of at most {LARGEST_LOSS:g} and are shown.",
        f"Before sorting {metrics['raw_half_plane_share']:.1%} lie above the diagonal (one half is "
        "expected of exchangeable units), "
        f"after it {metrics['half_plane_share']:.1%}; norms after scaling differ from {NORM:g} by "
        f"at most {metrics['norm_error']:.1e}.",
        f"The two output weights have opposite signs in {metrics['opposite_signs_share']:.1%}.",
    ]


def weights_figure(forms: dict[str, np.ndarray]) -> Figure:
    """Density of the two output weights, one panel per form."""
    panels = []
    every = np.abs(np.concatenate([weights.ravel() for weights in forms.values()]))
    reach = max(RANGE, float(np.ceil(np.quantile(every, 0.998))))
    bins, ends = np.linspace(-reach, reach, BINS + 1), (-reach, reach)
    for name, weights in forms.items():
        counts = np.histogram2d(weights[:, 0], weights[:, 1], [bins, bins])[0]
        panels.append(map_panel(name, counts, (*ends, "θ₁"), (*ends, "θ₂")))
    caption = (
        "Both output weights of every network that fits: as trained; with incoming weights of norm "
        f"{NORM:g}; and sorted too. Brighter is more networks, by square root; {BINS} square bins "
        "per side (the published figure has hexagons)."
    )
    return Sheet("output-weights", caption, panels, 3, (236, 244))


EXPERIMENT = Experiment(
    name="toy-posterior",
    title="The posterior of a network of nine numbers",
    description=(
        "Ten thousand networks of two hidden units learn to classify two clouds of points. The "
        "published figure shows a ring and two clusters of output weights as trained, a diamond "
        "once scalings are removed, and the half above the diagonal once units are sorted. Its "
        "points are not available: these are ours."
    ),
    scales={
        "test": _scale(64, 10, "64 networks: shows that the program runs"),
        "cpu": _scale(10_000, 10, "10 000 networks and the published training; points of ours"),
        "paper": _scale(10_000, 10, "10 000 networks and the published training; points of ours"),
    },
    run=run,
)
