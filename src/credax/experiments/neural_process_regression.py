"""Neural processes on functions of known processes: the gap to the best predictor."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from credax.data import load
from credax.experiments.experiment import Experiment, Outcome
from credax.experiments.neural_processes import gap_by_step, train_process
from credax.experiments.published import Measure, Published
from credax.experiments.study import StudyArm, StudyBench, StudyScale, StudyTrial
from credax.functions.gp import GaussianProcess
from credax.functions.kernels import from_data
from credax.functions.task_scores import measure
from credax.metrics import evaluate
from credax.report import Result
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Band, Layer, Line, MemberLine, Points
from credax.report.svg import Axis, Frame

SHOWN = (1, 3, 10, 20)
"""Sizes of the contexts that are drawn."""
GRID = 81
TITLES = {"cnp": "CNP", "np": "NP", "anp": "ANP", "convcnp": "ConvCNP"}

PUBLISHED = Published(
    "test log-likelihood summed over 128 targets, the context among them",
    "Dubois, Gordon, Foong: Neural Process Family, 2020 (its notebooks); 50 000 functions per "
    "epoch, 100 epochs; kernels RBF(0.2), periodic and noisy Matern(1.5, 0.2, noise 0.1); NP there "
    "is LNP, ANP is AttnLNP; whether the first two carry noise decides how large numbers can be",
    (Measure("sum_all_targets", "log-likelihood", decimals=1),),
    """CNP on RBF | -16.1
    NP on RBF | -37.2
    ANP on RBF | 153.6
    ConvCNP on RBF | 175.1
    CNP on periodic | -126.4
    NP on periodic | -122.7
    ANP on periodic | -44.9
    ConvCNP on periodic | 193.0
    CNP on Matern | -115.8
    NP on Matern | -105.9
    ANP on Matern | -89.8
    ConvCNP on Matern | -83.7""",
)


@dataclass(frozen=True)
class Settings:
    """Of all arms; plain data."""

    train: int
    """Training tasks; contexts are drawn anew at every step."""
    test: int
    points: int
    smallest: int
    largest: int
    """Sizes of contexts."""
    batch: int
    rate: float
    looks: int
    """Times at which the gap is measured during training."""


def measured(settings: Settings, trial: StudyTrial) -> dict[str, Any]:
    """Train one process on one kind of tasks: scores, gaps by context and step, pictures."""
    arm, sizes = trial.arm.settings, (settings.smallest, settings.largest)
    shape = {"train": settings.train, "test": settings.test, "points": settings.points}
    data = load(arm["tasks"], seed=trial.seed, **shape, **arm["options"])
    record = {**arm["record"], "smallest_context": sizes[0], "largest_context": sizes[1]}
    began = time.monotonic()
    posterior, before = train_process(
        arm["method"],
        record,
        data,
        steps=arm["steps"],
        batch=settings.batch,
        rate=settings.rate,
        seed=trial.seed,
        looks=settings.looks,
    )
    seconds = time.monotonic() - began
    whole = measure(posterior, data.test, sizes=sizes)
    everything = measure(posterior, data.test, sizes=sizes, include_context=True)
    summed = everything.joint if posterior.network.latent_size else everything.marginal
    by_size = {n: measure(posterior, data.test, sizes=(n, n)).scores for n in _contexts(settings)}
    form = data.test.tasks
    assert form is not None
    return {
        "generator": form.generator,
        "metrics": {
            **whole.scores,
            "rmse": evaluate(whole.prediction, whole.y, ["rmse"])["rmse"],
            "sum_all_targets": float(np.mean(summed)),
            "parameters": posterior.num_params,
            "training_seconds": round(seconds, 1),
        },
        "steps": gap_by_step(before, data, sizes),
        "contexts": {str(n): [s["oracle_gap"], s["oracle_gap_error"]] for n, s in by_size.items()},
        "pictures": pictures(posterior, data.test) if trial.seed == 0 else [],
    }


def _contexts(settings: Settings) -> list[int]:
    found = np.linspace(settings.smallest, settings.largest, 6).round().astype(int)
    return sorted({int(n) for n in found})


def pictures(posterior, test) -> list[dict[str, Any]]:
    """One function with growing contexts: mean and 95 % of the process, its draws, and the GP."""
    form = test.tasks
    x, y = np.asarray(test.x)[0], np.asarray(test.y)[0]
    grid = np.linspace(x.min(), x.max(), GRID, dtype=np.float32)[:, None]
    process = GaussianProcess(from_data(form.kernel), noise=form.noise)
    found = []
    for n in [n for n in SHOWN if n < len(x)]:
        prediction = posterior.condition(x[:n], y[:n]).predict(grid)
        draws = posterior.condition(x[:n], y[:n]).functions(0, 5, grid)[..., 0]
        low, high = prediction.interval(0.95)
        mean, variance = process.condition(x[:n], y[:n]).moments(grid)
        width = 1.96 * np.sqrt(np.ravel(variance) + form.noise)
        found.append(
            {
                "x": x[:n, 0].tolist(),
                "y": y[:n].tolist(),
                "grid": grid[:, 0].tolist(),
                "mean": np.ravel(prediction.mean).tolist(),
                "low": np.ravel(low).tolist(),
                "high": np.ravel(high).tolist(),
                "draws": draws.tolist() if posterior.network.latent_size else [],
                "gp_mean": mean[:, 0].tolist(),
                "gp_low": (mean[:, 0] - width).tolist(),
                "gp_high": (mean[:, 0] + width).tolist(),
            }
        )
    return found


def run(bench: StudyBench) -> Outcome:
    """Every process: the gap, by context and by step, and functions with growing contexts."""
    found = bench.measured(lambda trial: measured(bench.scale.settings, trial))
    results = [Result(trial.arm.label, trial.seed, values["metrics"]) for trial, values in found]
    first = [(trial.arm.label, values) for trial, values in found if trial.seed == 0]
    figures = (gaps_figure(first), functions_figure(first))
    generators = dict.fromkeys(values["generator"] for _, values in found)
    findings = [f"Tasks: {text}." for text in generators]
    return Outcome(results, (PUBLISHED,), figures, (*findings, *map(sentence, first)))


def sentence(one: tuple[str, dict[str, Any]]) -> str:
    """The gap in words."""
    label, values = one
    metrics, steps = values["metrics"], values["steps"]["gap"]
    kind = "joint" if "oracle_joint" in metrics else "marginal"
    return (
        f"{label}: {kind} gap to the best predictor {metrics['oracle_gap']:.3f} ± "
        f"{metrics['oracle_gap_error']:.3f} nat per target (from {steps[0]:.2f} before training), "
        f"which itself has {metrics['oracle_' + kind]:.3f}."
    )


def gaps_figure(found: list[tuple[str, dict[str, Any]]]) -> Figure:
    """The gap against the size of the context and against the step of training."""
    contexts = [(np.array([int(n) for n in v["contexts"]]), v) for _, v in found]
    gaps = [np.array([g for g, _ in v["contexts"].values()]) for _, v in found]
    first = Frame(
        Axis.around(np.concatenate([n for n, _ in contexts]), "points in the context"),
        Axis.around(np.concatenate(gaps), "gap, nat per target", zero=True),
    )
    lines: list[Layer] = [
        Line(n, g, i) for i, ((n, _), g) in enumerate(zip(contexts, gaps, strict=True))
    ]
    steps = [np.array(v["steps"]["step"]) for _, v in found]
    curves = [np.array(v["steps"]["gap"]) for _, v in found]
    second = Frame(
        Axis.around(np.concatenate(steps), "step of training", zero=True),
        Axis.around(np.concatenate([c[1:] for c in curves]), "gap, nat per target", zero=True),
    )
    later: list[Layer] = [
        Line(s[1:], c[1:], i) for i, (s, c) in enumerate(zip(steps, curves, strict=True))
    ]
    caption = (
        "Log-likelihood of the best predictor minus that of the process, per target outside the "
        "context: joint for NP and ANP, marginal for CNP and ConvCNP. It cannot be below zero."
    )
    panels = [Panel("after training", first, lines), Panel("during training", second, later)]
    return Sheet("gaps", caption, panels, 2, series=[label for label, _ in found])


def functions_figure(found: list[tuple[str, dict[str, Any]]]) -> Figure:
    """A row for each process and one for the Gaussian process, contexts growing to the right."""
    shown = [(label, values["pictures"]) for label, values in found]
    every = [p for _, own in shown for p in own]
    ends = np.concatenate([np.array(p[name]) for p in every for name in ("gp_low", "gp_high", "y")])
    grid = np.array(every[0]["grid"])
    frame = Frame(Axis(float(grid[0]), float(grid[-1]), "x"), Axis.around(ends, "y"))
    panels = []
    for label, own in shown:
        for p in own:
            layers: list[Layer] = [
                Band(p["grid"], p["low"], p["high"]),
                *(MemberLine(p["grid"], draw) for draw in p["draws"]),
                Line(p["grid"], p["mean"], markers=False),
                Points(p["x"], p["y"], 2.4),
            ]
            panels.append(Panel(f"{label}, {_count(p)}", frame, layers))
    for p in shown[0][1]:
        layers = [
            Band(p["grid"], p["gp_low"], p["gp_high"], 1),
            Line(p["grid"], p["gp_mean"], 1, markers=False),
            Points(p["x"], p["y"], 2.4),
        ]
        panels.append(Panel(f"Gaussian process, {_count(p)}", frame, layers))
    caption = (
        "One function of the test tasks with growing contexts: means and 95 % intervals of the "
        "processes, thin lines draws of functions; last row: the Gaussian process of the same "
        "kernel."
    )
    return Sheet("functions", caption, panels, len(shown[0][1]))


def _count(picture: dict[str, Any]) -> str:
    n = len(picture["x"])
    return f"{n} point{'' if n == 1 else 's'}"


def _arm(method: str, steps: int, record: dict[str, Any] | None = None, **options: Any) -> StudyArm:
    own = {"method": method, "steps": steps, "record": record or {}}
    return StudyArm(method, TITLES[method], {**own, "tasks": "tasks/gp-rbf", "options": options})


def _paper_arms() -> tuple[StudyArm, ...]:
    """The three kernels of the published table, with the noise stated."""
    kernels: dict[str, tuple[str, dict[str, Any]]] = {
        "RBF": ("tasks/gp-rbf", {"lengthscale": 0.2, "noise": 0.02}),
        "periodic": ("tasks/gp-periodic", {"lengthscale": 0.5, "period": 0.5, "noise": 0.02}),
        "Matern": ("tasks/gp-matern", {"lengthscale": 0.2, "noise": 0.1}),
    }
    found = []
    for kernel, (tasks, options) in kernels.items():
        for method, title in TITLES.items():
            record = {"floor": 0.01}
            own = {"method": method, "steps": 156_250, "record": record, "tasks": tasks}
            name = f"{method}-{kernel.lower()}"
            found.append(StudyArm(name, f"{title} on {kernel}", {**own, "options": options}))
    return tuple(found)


SMALL = {"hidden": 8}
ABOUT = "functions of Gaussian processes with noise"
EXPERIMENT = Experiment(
    name="neural-process-regression",
    title="Neural processes on functions of a known process",
    description=(
        "Functions of a Gaussian process with noise, x uniform in [-2, 2]. Each process is trained "
        "on random contexts and measured on the points outside the context, against the Gaussian "
        "process that made the functions: the best that is possible."
    ),
    scales={
        "test": StudyScale(
            (_arm("cnp", 8, SMALL), _arm("np", 8, SMALL | {"latent": 4, "members": 4})),
            1,
            Settings(64, 32, 12, 1, 8, 16, 1e-3, 2),
            ABOUT,
            "8 steps: shows that the program runs",
        ),
        "cpu": StudyScale(
            (
                _arm("cnp", 16_000),
                _arm("np", 4_000),
                _arm("anp", 2_500),
                _arm("convcnp", 4_000, {"hidden": 32}),
            ),
            1,
            Settings(65_536, 512, 40, 3, 20, 64, 3e-3, 6),
            ABOUT,
            "64 functions per step; published figures are for other kernels and longer training",
        ),
        "paper": StudyScale(
            _paper_arms(),
            1,
            Settings(50_000, 2048, 128, 0, 50, 32, 1e-3, 20),
            ABOUT,
            "50 000 functions of 128 points per epoch, 100 epochs of 32; functions are fixed, "
            "contexts drawn anew; the noise of RBF and periodic tasks is not published: 0.02 here",
        ),
    },
    run=run,
)
