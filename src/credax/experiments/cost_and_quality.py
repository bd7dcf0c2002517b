"""What a posterior is worth and what it costs, column by column, and one drawn against the other.

Training and prediction are timed on this machine, in whatever else it is doing: ratios that survive
a busy machine are in ``benchmarks/efficient_ensembles.py``.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from credax.data import Split, load
from credax.data.corruptions import corrupted
from credax.experiments.bench import Bench, Trial
from credax.experiments.experiment import Outcome
from credax.experiments.published import Published
from credax.files import load_arrays
from credax.metrics import evaluate
from credax.metrics.shift import Cell
from credax.posterior import Posterior
from credax.report import Result
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Reference
from credax.report.named_points import NamedPoints
from credax.report.numbers import fixed
from credax.report.svg import Axis, Frame
from credax.training import RunFolder

SINGLE, ENSEMBLE = _LINES = ("Single network", "Deep ensemble")
SCORES = ("accuracy", "nll", "ece", "disagreement")
# One compiled shape for all that is predicted, and no rows that only fill a batch.
BATCH = 128
_REPEATS = 3


@dataclass(frozen=True)
class Evaluation:
    """What a posterior is tested on."""

    ood: str
    """A data set whose test rows should be out of distribution."""
    ood_rows: int
    corruptions: tuple[str, ...]
    """Names of generated corruptions."""
    severities: tuple[int, ...]
    corrupted_rows: int
    """So many test rows are corrupted."""
    timed_rows: int = 2 * BATCH
    """So many test rows are predicted under the clock."""


@dataclass(frozen=True)
class OtherRows:
    """Rows that all posteriors are tested on beside the clean ones."""

    ood: np.ndarray
    cells: Mapping[Cell, Split]


def run(*published: Published):
    """The experiment's function: every arm and seed, its scores and its costs."""

    def measure(bench: Bench) -> Outcome:
        rows = other_rows(bench)
        results = []
        for trial, posterior in bench.trained():

            def scores(posterior=posterior, trial=trial) -> dict[str, Any]:
                return measured(bench, trial, posterior, rows)

            found = bench.remembered(trial, scores)
            prediction = posterior.predict(bench.dataset.test.x, batch_size=BATCH)
            result = bench.result(trial, found, prediction)
            results.append(replace(result, metrics=found | training_costs(result)))
        figures = tuple(f for f in (cost_figure(results),) if f is not None)
        return Outcome(results, published, figures, findings(results))

    return measure


def other_rows(bench: Bench) -> OtherRows:
    """OOD rows and corrupted ones; read before anything is trained, for they may be missing."""
    settings: Evaluation = bench.scale.evaluation
    if bench.scale.data.synthetic:
        shape = (settings.ood_rows, *bench.scale.data.input_shape)
        ood = np.random.default_rng(5).integers(0, 256, shape).astype(np.uint8)
    else:
        ood = np.asarray(load(settings.ood, bench.data_dir).test.x[: settings.ood_rows])
    clean = bench.dataset.test[slice(0, settings.corrupted_rows)]
    cells = corrupted(clean, settings.corruptions, settings.severities, 0)
    return OtherRows(ood, dict(cells))


def measured(bench: Bench, trial: Trial, posterior: Posterior, rows: OtherRows) -> dict[str, float]:
    """Scores on clean, OOD and corrupted rows, what is stored, and the time of a prediction."""
    test = bench.dataset.test
    prediction = posterior.predict(test.x, batch_size=BATCH)
    shift = {
        cell: (posterior.predict(split.x, batch_size=BATCH), np.asarray(split.y))
        for cell, split in rows.cells.items()
    }
    other = posterior.predict(rows.ood, batch_size=BATCH)
    wanted = [name for name in SCORES if name != "disagreement" or prediction.num_members > 1]
    found = evaluate(
        prediction, np.asarray(test.y), [*wanted, "auroc"], ood={"other": other}, shift=shift
    )
    return {
        **{name: found[name] for name in wanted},
        "auroc": found["ood/other/auroc/max_probability"],
        "corrupted_nll": found["shift/pooled/nll"],
        "stored_numbers": float(stored_numbers(trial)),
        "prediction_ms_per_row": prediction_time(
            posterior, test.x[: bench.scale.evaluation.timed_rows]
        ),
    }


def stored_numbers(trial: Trial) -> int:
    """Floating-point numbers in the file that keeps the posterior, batch statistics included."""
    arrays, _ = load_arrays(RunFolder(trial.folder).members)
    return sum(array.size for array in arrays.values() if array.dtype.kind == "f")


def prediction_time(posterior: Posterior, x: Any) -> float:
    """Milliseconds per row, all members: the least of three, after one that compiles."""
    posterior.predict(x, batch_size=BATCH)
    seconds = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        np.asarray(posterior.predict(x, batch_size=BATCH).probs)  # pyright: ignore[reportAttributeAccessIssue]
        seconds.append(time.perf_counter() - began)
    return 1e3 * min(seconds) / len(x)


def training_costs(result: Result) -> dict[str, float]:
    """Seconds of training without compiling, and the memory of the compiled step."""
    cost = result.cost
    seconds = (cost["training_seconds"] or 0.0) - (cost["compile_seconds"] or 0.0)
    memory = cost["peak_memory_bytes"]
    found = {"training_seconds": seconds}
    return found if memory is None else {**found, "memory_megabytes": memory / 1e6}


def mean(results: list[Result], label: str, name: str) -> float:
    """Mean of a metric over the seeds of a row; NaN where the row lacks it."""
    values = [r.metrics[name] for r in results if r.method == label and name in r.metrics]
    return fmean(values) if values else float("nan")


def cost_figure(results: list[Result]) -> Figure | None:
    """NLL against training time and prediction time, both over those of one network."""
    labels = list(dict.fromkeys(result.method for result in results))
    if SINGLE not in labels:
        return None
    nll = [mean(results, label, "nll") for label in labels]
    columns = {"Training": "training_seconds", "Prediction": "prediction_ms_per_row"}
    costs = {
        title: [mean(results, label, name) / mean(results, SINGLE, name) for label in labels]
        for title, name in columns.items()
    }
    return cost_panels(labels, nll, costs)


def cost_panels(
    labels: Sequence[str], nll: Sequence[float], costs: Mapping[str, Sequence[float]]
) -> Figure:
    """NLL of labelled methods against costs over one network's, a panel for each kind of cost."""
    panels = []
    for title, cost in costs.items():
        x = Axis.around(cost, f"{title.lower()} time over one network's", log=True, pad=0.12)
        y = Axis.around(nll, "NLL (nats)", pad=0.1)
        frame = Frame(x, y, right=500, bottom=330)
        known = [value for label, value in zip(labels, nll, strict=True) if label in _LINES]
        layers = [Reference([x.low, x.high], [value] * 2) for value in known]
        panels.append(Panel(title, frame, [*layers, NamedPoints(cost, nll, labels)]))
    caption = (
        "NLL on clean test rows against cost, mean over seeds; lower and further left is better. "
        "Dashed: the single network and the deep ensemble."
    )
    return Sheet("cost", caption, panels, 1, size=(510, 372))


def findings(results: list[Result]) -> tuple[str, ...]:
    """Which rows lie between the single network and the deep ensemble in NLL, and which do not."""
    labels = list(dict.fromkeys(result.method for result in results))
    if not {SINGLE, ENSEMBLE} <= {*labels}:
        return ()
    single, ensemble = (mean(results, label, "nll") for label in (SINGLE, ENSEMBLE))
    low, high = sorted((single, ensemble))
    parts: dict[str, list[str]] = {"between": [], "lower": [], "higher": []}
    for label in labels:
        value = mean(results, label, "nll")
        if label in (SINGLE, ENSEMBLE):
            continue
        where = "lower" if value < low else "higher" if value > high else "between"
        parts[where].append(f"{label} {fixed(value, 3)} ({_lower_in(results, label)})")
    lines = [
        f"NLL of the single network {fixed(single, 3)}, of the deep ensemble {fixed(ensemble, 3)}; "
        "in brackets: seeds in which a row is lower than the single network"
    ]
    words = {"between": "Between them", "lower": "Lower than both", "higher": "Higher than both"}
    return (*lines, *(f"{words[k]}: {', '.join(v)}" for k, v in parts.items() if v))


def _lower_in(results: list[Result], label: str) -> str:
    values = {(r.method, r.seed): r.metrics["nll"] for r in results}
    seeds = [s for row, s in values if row == label and (SINGLE, s) in values]
    lower = sum(values[label, seed] < values[SINGLE, seed] for seed in seeds)
    return f"{lower} of {len(seeds)}"
