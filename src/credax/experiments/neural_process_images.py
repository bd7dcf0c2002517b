"""Pictures completed by neural processes from some of their pixels (Garnelo et al. 2018)."""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from credax.data import load
from credax.data.dataset import Split
from credax.experiments.experiment import Experiment, Outcome
from credax.experiments.neural_processes import train_process
from credax.experiments.published import Measure, Published
from credax.experiments.study import StudyArm, StudyBench, StudyScale, StudyTrial
from credax.functions.process_posterior import ProcessPosterior
from credax.functions.task_scores import measure
from credax.metrics import evaluate
from credax.report import Result
from credax.report.figure import Figure
from credax.report.picture_grid import PictureGrid, grey, partly_known

TITLES = {"cnp": "CNP", "np": "NP", "anp": "ANP", "convcnp": "ConvCNP"}

PUBLISHED = Published(
    "MNIST completion, log-likelihood summed over all pixels",
    "Dubois, Gordon, Foong: Neural Process Family, 2020 (its notebooks); pictures of 32 by 32 "
    "pixels; NP there is LNP, ANP is AttnCNP; sums over more pixels are larger",
    (Measure("sum_all_targets", "log-likelihood", decimals=0),),
    """CNP on MNIST | 2063
    NP on MNIST | 2687
    ANP on MNIST | 2262
    ConvLNP on MNIST | 2919""",
)


@dataclass(frozen=True)
class Settings:
    """Of all arms; plain data."""

    tasks: str
    options: dict[str, Any]
    train: int | None
    test: int
    shown: tuple[int, ...]
    """Random pixels of the contexts that are drawn; half a picture comes last."""
    batch: int
    rate: float


def measured(settings: Settings, trial: StudyTrial) -> dict[str, Any]:
    """Train one process on pictures: likelihood and error of unknown pixels, completions."""
    arm = trial.arm.settings
    options = {**settings.options, **arm["options"]}
    data = load(settings.tasks, **options).subset(settings.train, settings.test)
    form = data.test.tasks
    assert form is not None
    assert form.picture is not None
    shown = tuple(n for n in settings.shown if n < form.picture[0] * form.picture[1])
    largest = max(shown)
    began = time.monotonic()
    posterior, _ = train_process(
        arm["method"],
        {**arm["record"], "smallest_context": 0, "largest_context": largest},
        data,
        steps=arm["steps"],
        batch=settings.batch,
        rate=settings.rate,
        seed=trial.seed,
        looks=1,
    )
    seconds = time.monotonic() - began
    whole = measure(posterior, data.test)
    everything = measure(posterior, data.test, include_context=True)
    summed = everything.joint if posterior.network.latent_size else everything.marginal
    by_size = {n: measure(posterior, data.test, sizes=(n, n)) for n in shown}
    errors = {f"rmse_{n}": _rmse(found) for n, found in by_size.items()}
    return {
        "generator": form.generator,
        "picture": form.picture,
        "metrics": {
            **whole.scores,
            "rmse": _rmse(whole),
            **errors,
            "sum_all_targets": float(np.mean(summed)),
            "parameters": posterior.num_params,
            "training_seconds": round(seconds, 1),
        },
        "pictures": completions(posterior, data.test, shown) if trial.seed == 0 else [],
    }


def _rmse(found: Any) -> float:
    return evaluate(found.prediction, found.y, ["rmse"])["rmse"]


def contexts(picture: tuple[int, int], shown: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Which pixels are known, by name: random ones, one set within the next, the upper half."""
    count = picture[0] * picture[1]
    order = np.random.default_rng(1).permutation(count)
    rank = np.argsort(order)
    found = {f"{n} pixels": rank < n for n in shown}
    return found | {"upper half": np.arange(count) < count // 2}


def completions(
    posterior: ProcessPosterior, test: Split, shown: tuple[int, ...], count: int = 2
) -> list[dict[str, Any]]:
    """Some test pictures: what is known, the mean and the deviation of what is predicted."""
    form = test.tasks
    assert form is not None
    assert form.picture is not None
    found = []
    for row in range(min(count, len(test))):
        x, y = np.asarray(test.x)[row], np.asarray(test.y)[row]
        for name, known in contexts(form.picture, shown).items():
            # Half a picture may be more than training saw.
            prediction = _quiet(posterior, x[known], y[known]).predict(x)
            found.append(
                {
                    "row": row,
                    "name": name,
                    "true": y.tolist(),
                    "known": known.tolist(),
                    "mean": np.ravel(prediction.mean).tolist(),
                    "std": np.sqrt(np.ravel(prediction.total)).tolist(),
                }
            )
    return found


def _quiet(posterior: ProcessPosterior, x: np.ndarray, y: np.ndarray) -> ProcessPosterior:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return posterior.condition(x, y)


def run(bench: StudyBench) -> Outcome:
    """Every process: likelihood and error of pixels, and completed pictures."""
    found = bench.measured(lambda trial: measured(bench.scale.settings, trial))
    results = [Result(trial.arm.label, trial.seed, values["metrics"]) for trial, values in found]
    first = [(trial.arm.label, values) for trial, values in found if trial.seed == 0]
    generators = dict.fromkeys(values["generator"] for _, values in found)
    findings = [f"Tasks: {text}." for text in generators]
    findings += [sentence(label, values["metrics"]) for label, values in first]
    sizes = dict.fromkeys(tuple(values["picture"]) for _, values in first)
    figures = [
        completions_figure([one for one in first if tuple(one[1]["picture"]) == size])
        for size in sizes
    ]
    return Outcome(results, (PUBLISHED,), tuple(figures), tuple(findings))


def sentence(label: str, metrics: dict[str, float]) -> str:
    """What more pixels bring, in words."""
    errors = {n.removeprefix("rmse_"): v for n, v in metrics.items() if n.startswith("rmse_")}
    text = ", ".join(f"{value:.3f} from {name}" for name, value in errors.items())
    return f"{label}: root mean squared error of the other pixels {text} known ones."


def completions_figure(found: list[tuple[str, dict[str, Any]]]) -> Figure:
    """What is known above, below it the mean and the deviation of every process."""
    shape = tuple(found[0][1]["picture"])
    rows = []
    for number in sorted({p["row"] for p in found[0][1]["pictures"]}):
        own = [p for p in found[0][1]["pictures"] if p["row"] == number]
        given = [_partly(p, shape) for p in own]
        rows.append(("known", [*given, grey(np.reshape(own[0]["true"], shape))]))
        for label, values in found:
            mine = [p for p in values["pictures"] if p["row"] == number]
            rows.append((f"{label}, mean", [grey(np.reshape(p["mean"], shape)) for p in mine]))
            spread = [grey(np.reshape(p["std"], shape), 0.5) for p in mine]
            rows.append((f"{label}, deviation", spread))
    names = [p["name"] for p in found[0][1]["pictures"] if p["row"] == 0]
    caption = (
        "Test pictures completed from random pixels and from their upper half (blue: unknown): the "
        "mean and the standard deviation (white: 0.5) of every process; last column: the picture."
    )
    name = f"completions-{shape[0]}"
    return PictureGrid(name, caption, rows, [*names, "picture"])


def _partly(picture: dict[str, Any], shape: tuple[int, ...]) -> np.ndarray:
    known = np.reshape(picture["known"], shape)
    return partly_known(np.reshape(picture["true"], shape), known)


def _arm(method: str, steps: int, **record: Any) -> StudyArm:
    own = {"method": method, "steps": steps, "record": record, "options": {}}
    return StudyArm(method, TITLES[method], own)


def _paper_arms() -> tuple[StudyArm, ...]:
    found = []
    for side in (14, 28):
        for method, title in TITLES.items():
            record: dict[str, Any] = {"floor": 0.01}
            record |= {"resolution": side, "blocks": 8} if method == "convcnp" else {}
            own = {"method": method, "steps": 100_000, "record": record, "options": {"size": side}}
            label = f"{title} on MNIST" + ("" if side == 28 else f" {side}")
            found.append(StudyArm(f"{method}-{side}", label, own))
    return tuple(found)


EXPERIMENT = Experiment(
    name="neural-process-images",
    title="Pictures completed by neural processes",
    description=(
        "A task is a picture, a point the position of a pixel and its intensity. Contexts are "
        "random pixels; the processes predict all others."
    ),
    scales={
        "test": StudyScale(
            (_arm("cnp", 4, hidden=8), _arm("convcnp", 4, hidden=8, blocks=1, resolution=8)),
            1,
            Settings("tasks/digits", {}, 64, 16, (4, 10), 16, 1e-3),
            "pixels of digits",
            "4 steps: shows that the program runs",
        ),
        "cpu": StudyScale(
            (
                _arm("cnp", 4_000, floor=0.05),
                _arm("np", 3_000, floor=0.05),
                _arm("anp", 2_000, floor=0.05),
                _arm("convcnp", 2_000, hidden=32, resolution=8, floor=0.05),
            ),
            1,
            Settings("tasks/digits", {}, None, 256, (4, 10, 30), 16, 1e-3),
            "pixels of digits",
            "8 by 8 digits, 16 pictures per step; the published figures are for other pictures",
        ),
        "paper": StudyScale(
            _paper_arms(),
            1,
            Settings("tasks/mnist", {}, None, 2000, (10, 100, 300), 16, 1e-3),
            "pixels of MNIST",
            "MNIST of 14 by 14 and 28 by 28 pixels in place of 32 by 32",
        ),
    },
    run=run,
)
