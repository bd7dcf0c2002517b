"""``credax active compare``: methods and acquisitions on a labelled data set."""

import csv
import dataclasses
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from credax.active.history import History
from credax.active.loop import run as run_loop
from credax.active.repeated import duplicates, origins, repeated
from credax.cli.acquisitions import read_acquisition
from credax.cli.active import Compare, read
from credax.cli.command import COMMAND
from credax.cli.config import to_json
from credax.cli.job import Job
from credax.cli.variants import LONGEST, Variant, read_variants
from credax.data import Dataset
from credax.errors import InputError
from credax.files import write_atomic
from credax.report.contact_sheet import Shown
from credax.report.learning import Learning, LearningRun, header, table
from credax.report.learning_page import learning_page
from credax.report.pictures import is_images

DEFAULT_ROOT = "runs"
SHOWN = 10
PASSED = ("query", "rounds", "initial", "retrain", "scoring_pool", "steps", "keep_members")
"""Settings that the loop knows by the same names."""


class Loop(NamedTuple):
    """One active learning loop."""

    variant: Variant
    acquisition: str
    seed: int


@dataclass(frozen=True)
class Planned:
    """What a comparison runs: every method, acquisition and seed."""

    config: Compare
    job: Job
    dataset: Dataset
    variants: list[Variant]
    acquisitions: dict[str, Any]
    final: Any
    root: Path

    @property
    def loops(self) -> list[Loop]:
        """In the order of the table."""
        each = product(self.variants, self.acquisitions, range(self.config.seeds))
        return [Loop(*one) for one in each]

    def arm(self, loop: Loop) -> str:
        """What people read of a loop, beside its seed."""
        text = loop.acquisition
        return text if len(self.variants) == 1 else f"{loop.variant.label}, {text}"

    def folder(self, loop: Loop) -> Path:
        """Where a loop is kept."""
        return self.root / f"{_plain(loop.variant.label)}_{_plain(loop.acquisition)}_{loop.seed}"

    def run(self, loop: Loop, progress: bool | None) -> History:
        """Run, resume or read a loop."""
        job = self.job.with_task(loop.variant.task)
        return run_loop(
            job.problem,
            loop.variant.method,
            self.dataset,
            acquisition=self.acquisitions[loop.acquisition],
            final=self.final,
            key=loop.seed,
            training=job.training,
            folder=self.folder(loop),
            progress=progress,
            **{name: getattr(self.config, name) for name in PASSED},
        )


def planned(config: Compare, flags: Sequence[str]) -> Planned:
    """Every loop of a comparison; ``flags`` say which settings were chosen."""
    chosen = (config.task, config.members, list(flags))
    variants = read_variants(config.methods, None, *chosen)
    acquisitions = {text: read_acquisition(text) for text in config.acquisitions}
    if not acquisitions:
        raise InputError("acquisitions is empty; name at least one, such as --acquisitions random")
    job = Job.of(config.task)
    dataset = repeated(job.dataset, config.repeat, config.repeat_noise)
    name = Path(job.task.data).name
    root = Path(config.out or Path(DEFAULT_ROOT) / f"active_compare_{name}")
    final = None
    if config.final is not None:
        final = read_variants((config.final,), None, *chosen)[0].method
    return Planned(config, job, dataset, variants, acquisitions, final, root)


@lru_cache(maxsize=1)
def _planned_by(flags: tuple[str, ...]) -> Planned:
    return planned(read("compare", list(flags)), flags)


def train_one(arguments: tuple[str, ...], number: int) -> None:
    """One of the loops of a comparison, on a worker of a cluster."""
    plan = _planned_by(arguments)
    plan.run(plan.loops[number], False)


def compare(config: Compare, flags: list[str]) -> None:
    """Run every loop in a folder of its own, then tabulate and report."""
    from rich.console import Console

    plan = planned(config, flags)
    quiet = config.quiet or config.json
    console = Console(stderr=True, quiet=quiet)
    if config.cluster is not None:
        from credax.cli.cluster import Work, raise_first, train_on

        works = {
            number: Work(f"{plan.arm(loop)}, seed {loop.seed}", plan.folder(loop))
            for number, loop in enumerate(plan.loops)
        }
        raise_first(train_on(config.cluster, "active_compare", flags, works, quiet), works)
    runs: list[LearningRun] = []
    for number, loop in enumerate(plan.loops, 1):
        arm = plan.arm(loop)
        if config.cluster is None:
            line = f"{arm}, seed {loop.seed}  ({number} of {len(plan.loops)})"
            console.print(line, markup=False, highlight=False)
        history = plan.run(loop, False if quiet or config.cluster is not None else None)
        runs.append(learning_run(arm, loop.seed, history, plan.dataset, config.repeat))
    root = plan.root
    learning = _learning(config, plan.job, plan.variants, plan.dataset, runs)
    write_atomic(root / "results.csv", _csv([header(learning), *table(learning)]))
    write_atomic(root / "curves.csv", _csv(curve_rows(learning)))
    write_atomic(root / "report.html", learning_page(learning))
    _print(learning, root, config.json)


def learning_run(
    arm: str, seed: int, history: History, dataset: Dataset, times: int = 1
) -> LearningRun:
    """What a report shows of a loop."""
    state, metric = history.state, metric_of(dataset)
    later = state.bought > 0
    initial = int((~later).sum())
    queries = [state.scores[state.bought == n] for n in range(1, len(history.rounds))]
    classes = np.zeros(0, int)
    if dataset.task == "classification":
        classes = np.bincount(state.labels[later], minlength=dataset.num_classes)
    found = origins(dataset.train.x, state.labelled, times)
    return LearningRun(
        arm=arm,
        seed=seed,
        labels=history.labels,
        values=history.curve(metric),
        nll=history.curve("nll"),
        scores=[float(each[-1]) for each in queries],
        ceiling=[each.ceiling for each in history.rounds[:-1]],
        classes=classes.tolist(),
        duplicates=duplicates(found, initial),
        purchases=int(later.sum()),
        steps=history.steps,
        seconds=float(sum(s or 0.0 for s in history.seconds)),
        first=_first(history, dataset) if seed == 0 else (),
        warnings=history.warnings,
    )


def metric_of(dataset: Dataset) -> str:
    """What a learning curve shows."""
    return "accuracy" if dataset.task == "classification" else "rmse"


def _first(history: History, dataset: Dataset) -> list[Shown]:
    """The first purchases after the initial labels, where inputs are pictures."""
    state, x = history.state, dataset.train.x
    if not is_images(x[:1]):
        return []
    names = dataset.class_names or tuple(map(str, range(dataset.num_classes)))
    places = np.flatnonzero(state.bought > 0)[:SHOWN]
    return [
        Shown(
            np.asarray(x[state.labelled[place]]),
            names[int(state.labels[place])],
            [f"row {state.labelled[place]}", f"score {state.scores[place]:.3g}"],
        )
        for place in places
    ]


def _learning(
    config: Compare, job: Job, variants: list[Variant], dataset: Dataset, runs: list[LearningRun]
) -> Learning:
    names = dataset.class_names
    if dataset.task == "classification" and not names:
        names = tuple(map(str, range(dataset.num_classes)))
    settings = {**to_json(config), "methods": [dataclasses.asdict(v.method) for v in variants]}
    titles = ", ".join(dict.fromkeys(variant.method.title for variant in variants))
    copies = f", every row {config.repeat} times" if config.repeat > 1 else ""
    return Learning(
        f"Active learning on {dataset.name}{copies}: {titles}",
        dataset.name,
        metric_of(dataset),
        names,
        runs,
        {**settings, "network": job.task.network},
        " ".join(COMMAND),
    )


def curve_rows(learning: Learning) -> list[list[str]]:
    """Every round of every loop."""
    rows = [["arm", "seed", "labels", learning.metric, "nll"]]
    for run in learning.runs:
        for labels, value, nll in zip(run.labels, run.values, run.nll, strict=True):
            rows.append([run.arm, str(run.seed), str(labels), f"{value:.6g}", f"{nll:.6g}"])
    return rows


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _plain(text: str) -> str:
    """A name for a folder."""
    return "".join(c if c.isalnum() or c in ".=+-" else "." for c in text)[:LONGEST]


def _print(learning: Learning, root: Path, as_json: bool) -> None:
    names, rows = header(learning), table(learning)
    if as_json:
        found: Any = [dict(zip(names, row, strict=True)) for row in rows]
        print(json.dumps({"results": found, "report": str(root / "report.html")}, indent=2))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    printed = Table(
        title=Text(learning.title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False
    )
    for name in header(learning, brief=True):
        printed.add_column(name, overflow="fold")
    for row in rows:
        printed.add_row(*map(Text, row))
    Console().print(printed)
    line = f"report: {root / 'report.html'}"
    Console().print(line, highlight=False, soft_wrap=True, markup=False)
