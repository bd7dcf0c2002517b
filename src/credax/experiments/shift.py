"""Clean and corrupted test rows: the protocol of the tables, and what it needs drawn."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from credax.data import Split
from credax.data.corruptions import corrupted
from credax.experiments.bench import Bench
from credax.experiments.experiment import Outcome
from credax.experiments.published import Published
from credax.experiments.saliency import input_gradients, mean_cosine
from credax.metrics import evaluate
from credax.metrics.shift import Cell
from credax.posterior import Posterior
from credax.report import Result
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Line
from credax.report.numbers import fixed
from credax.report.svg import Axis, Frame

SCORES = ("accuracy", "nll", "ece")
CURVES = {"accuracy": "Accuracy (share)", "nll": "NLL (nats)", "ece": "ECE (share)"}
UNCERTAINTY = ("entropy", "mutual_information")


@dataclass(frozen=True)
class Shift:
    """How a posterior is tested under generated corruptions.

    Corrupted scores are pooled over the kinds of a severity, then averaged over severities, as in
    Trinh et al. 2024 (see `credax.metrics.shift`); for the ECE, where it differs, the mean over
    single cells is reported too.
    """

    suite: str | tuple[str, ...] = "standard"
    """A suite of `credax.data.corruptions`, or names of some."""
    severities: tuple[int, ...] = (1, 2, 3, 4, 5)
    rows: int | None = None
    """So many test rows are corrupted; all by default."""
    gradient_rows: int = 256
    """Input gradients are compared on so many test rows."""
    gradients_by_severity: bool = False
    """Compare them on corrupted rows too."""


@dataclass(frozen=True)
class Study:
    """The results of all arms and seeds, and their scores by severity (0 is clean)."""

    results: list[Result]
    by_severity: dict[tuple[str, int], dict[int, dict[str, float]]]
    """By label and seed, then by severity."""


def study(bench: Bench, given: Mapping[Cell, Split] | None = None) -> Study:
    """Train what is missing, then measure every posterior, clean and corrupted.

    The corrupted rows are made of the test rows where they are not ``given``.
    """
    settings: Shift = bench.scale.evaluation
    cells: dict[Cell, Split] = dict(given or {})
    results, by_severity = [], {}
    for trial, posterior in bench.trained():

        def measure(posterior=posterior) -> dict[str, Any]:
            if not cells:
                cells.update(corrupted_cells(bench.dataset.test, settings))
            return measured(posterior, bench.dataset.test, cells, settings)

        found = bench.remembered(trial, measure)
        prediction = posterior.predict(bench.dataset.test.x)
        results.append(bench.result(trial, found["metrics"], prediction))
        by_severity[trial.arm.label, trial.seed] = {
            int(severity): scores for severity, scores in found["by severity"].items()
        }
    return Study(results, by_severity)


def corrupted_cells(test: Split, settings: Shift) -> dict[Cell, Split]:
    """The corrupted splits by kind and severity, the same for every posterior."""
    rows = test if settings.rows is None else test[slice(0, settings.rows)]
    return dict(corrupted(rows, settings.suite, settings.severities, 0))


def measured(
    posterior: Posterior, test: Split, cells: Mapping[Cell, Split], settings: Shift
) -> dict[str, Any]:
    """Scores on clean rows and on corrupted ones, pooled by severity and as means of cells."""
    shift = {
        cell: (posterior.predict(split.x), np.asarray(split.y)) for cell, split in cells.items()
    }
    wanted = [*SCORES, *UNCERTAINTY]
    found = evaluate(posterior.predict(test.x), test.y, wanted, shift=shift)
    some = slice(0, settings.gradient_rows)
    by_severity = {0: {name: found[name] for name in wanted} | _cosine(posterior, [test[some]])}
    for severity in settings.severities:
        prefix = f"shift/severity {severity}/"
        by_severity[severity] = {name: found[prefix + name] for name in wanted}
        if settings.gradients_by_severity:
            rows = [split[some] for (_, s), split in cells.items() if s == severity]
            by_severity[severity] |= _cosine(posterior, rows)
    metrics = {name: found[name] for name in SCORES}
    metrics |= {f"corrupted_{name}": found[f"shift/pooled/{name}"] for name in SCORES}
    metrics["corrupted_ece_cells"] = found["shift/cells/ece"]
    metrics |= _cosine(posterior, [test[some]])
    return {"metrics": metrics, "by severity": by_severity}


def _cosine(posterior: Posterior, splits: list[Split]) -> dict[str, float]:
    """Mean cosine of members' input gradients; nothing for one network."""
    found = []
    for split in splits:
        gradients = input_gradients(posterior, split.x, split.y)  # pyright: ignore[reportArgumentType]
        if len(gradients) < 2:
            return {}
        found.append(mean_cosine(gradients))
    return {"gradient_cosine": fmean(found)}


def corruption_outcome(
    found: Study, published: tuple[Published, ...] = (), figures: tuple[Figure, ...] = ()
) -> Outcome:
    """Scores by severity, more ``figures``, and paired differences to the deep ensemble."""
    every = (severity_figure(found, CURVES), *figures)
    return Outcome(found.results, published, every, paired_findings(found.results))


def paired(
    results: list[Result], label: str, metric: str, against: str = "Deep ensemble"
) -> list[float]:
    """Seed by seed, a metric of one row minus that of another."""
    values = {(r.method, r.seed): r.metrics[metric] for r in results if metric in r.metrics}
    seeds = sorted(seed for row, seed in values if row == label and (against, seed) in values)
    return [values[label, seed] - values[against, seed] for seed in seeds]


def paired_findings(results: list[Result], metric: str = "corrupted_nll") -> tuple[str, ...]:
    """A line for every row but the deep ensemble's: the paired differences to it."""
    lines = [f"{metric.replace('_', ' ')} minus the deep ensemble's, seed by seed:"]
    for label in dict.fromkeys(result.method for result in results):
        differences = paired(results, label, metric)
        if label == "Deep ensemble" or not differences:
            continue
        below = sum(d < 0 for d in differences)
        lines.append(
            f"{label}: {'  '.join(fixed(d, 4) for d in differences)}; mean "
            f"{fixed(fmean(differences), 4)}, below zero in {below} of {len(differences)}"
        )
    return tuple(lines) if len(lines) > 1 else ()


def severity_figure(study: Study, scores: Mapping[str, str]) -> Figure:
    """Scores against the severity of corruption, mean over seeds, one line per row of the table."""
    labels = list(dict.fromkeys(label for label, _ in study.by_severity))
    panels = []
    for name, heading in scores.items():
        lines = {label: _mean_line(study, label, name) for label in labels}
        shown = {label: line for label, line in lines.items() if line[0]}
        values = [v for _, line in shown.values() for v in line]
        frame = Frame(Axis(0, 5, "severity (0 is clean)"), Axis.around(values))
        layers = [
            Line(np.array(x, float), np.array(y), labels.index(label))
            for label, (x, y) in shown.items()
        ]
        panels.append(Panel(heading, frame, layers))
    caption = "Pooled over the kinds of generated corruptions, mean over seeds."
    return Sheet("severity", caption, panels, 3, series=labels)


def _mean_line(study: Study, label: str, name: str) -> tuple[list[int], list[float]]:
    seeds = [scores for (row, _), scores in study.by_severity.items() if row == label]
    severities = [s for s in sorted(seeds[0]) if name in seeds[0][s]]
    return severities, [fmean(scores[s][name] for scores in seeds) for s in severities]
