"""``credax compare``: several methods and seeds on one data set, a table and a page."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from credax.cli.config import Compare, Fit, read_arguments
from credax.cli.recipes import recipe_of
from credax.cli.variants import read_variants
from credax.errors import InputError

DEFAULT_ROOT = "runs"
# Of all that was measured, what the terminal shows below the main table; the page has the rest.
_TERMINAL = {"accuracy", "nll", "ece", "set_coverage", "set_size", "entropy_predictive"}
_TERMINAL |= {"rmse", "coverage_90", "interval_coverage", "interval_width", "total_variance"}
_TERMINAL |= {"mmd_tenths", "ns_tenths", "ns_balanced_tenths"}


def run(arguments: list[str]) -> None:
    """Read the flags, train what is missing, print the table, write the page."""
    compare(_read(arguments), arguments)


def _read(arguments: Sequence[str]) -> Compare:
    default = Compare(task=recipe_of(list(arguments)))
    config = read_arguments(Compare, list(arguments), "credax compare", default)
    if config.seeds < 1:
        raise InputError(f"seeds is {config.seeds}; give at least 1")
    if not config.methods:
        raise InputError("methods is empty; name at least one, such as --methods single")
    return config


@dataclass(frozen=True)
class Planned:
    """What a comparison trains: each fit with its job and its folder."""

    job: Any
    fits: list[tuple[Any, Fit, Path]]
    root: Path

    def title(self, number: int) -> str:
        """What people read of a fit."""
        _, fit, folder = self.fits[number]
        label = folder.name.rpartition("_")[0].removeprefix(fit.method.name).lstrip("-")
        title = f"{fit.method.title} ({label})" if label else fit.method.title
        return f"{title}, seed {fit.seed}"


def planned(config: Compare, flags: Sequence[str]) -> Planned:
    """Every method and seed.

    ``flags`` say which settings were chosen, and which come from the recipe of the data.
    """
    from credax.cli.job import Job

    variants = read_variants(config.methods, config.grid, config.task, config.members, list(flags))
    job = Job.of(config.task)
    jobs = [job.with_task(variant.task) for variant in variants]
    name = "_".join(
        part for part in ("compare", Path(job.task.data).name, config.output.name) if part
    )
    root = Path(config.output.out or Path(DEFAULT_ROOT) / name)
    fits = [
        (own, Fit(variant.method, own.task, seed), root / f"{variant.label}_{seed}")
        for own, variant in zip(jobs, variants, strict=True)
        for seed in range(config.seeds)
    ]
    return Planned(job, fits, root)


@lru_cache(maxsize=1)
def _planned_by(arguments: tuple[str, ...]) -> Planned:
    return planned(_read(arguments), arguments)


def train_one(arguments: tuple[str, ...], number: int) -> None:
    """One of the fits of a comparison, on a worker of a cluster."""
    own, fit, folder = _planned_by(arguments).fits[number]
    own.train(fit, folder, False)


def _train_on_cluster(plan: Planned, arguments: list[str], address: str, quiet: bool) -> None:
    from credax.cli.cluster import Work, raise_first, train_on
    from credax.training import RunFolder

    works = {
        number: Work(plan.title(number), folder)
        for number, (_, _, folder) in enumerate(plan.fits)
        if not RunFolder(folder).finished
    }
    raise_first(train_on(address, "compare", arguments, works, quiet), works)


def compare(config: Compare, flags: list[str]) -> None:
    """Train each method and seed in a run folder of its own, then tabulate and report."""
    from rich.console import Console

    from credax.cli.decisions import print_decisions
    from credax.cli.plan import plan
    from credax.cli.results import comparison_of, result_of
    from credax.cli.saved import Rows, saved_run
    from credax.report import print_rich, summarise, write_csv, write_html, write_json, write_latex

    if config.figures is not None and not config.output.dry_run:
        # Hours of training should not end with a missing package.
        from credax.plot.axes import matplotlib

        matplotlib()
    all_fits = planned(config, flags)
    job, fits, root = all_fits.job, all_fits.fits, all_fits.root
    evaluator = job.evaluator(config.evaluation)
    if config.output.dry_run:
        print(json.dumps([plan(*each) for each in fits], indent=2))
        return
    quiet = config.output.quiet or config.output.json
    console = Console(stderr=True, quiet=quiet)
    print_decisions(job.dataset, console)
    if config.cluster is not None:
        _train_on_cluster(all_fits, flags, config.cluster, quiet)
    runs, results, rows = [], [], Rows(job.dataset, True)
    for number, (own, fit, folder) in enumerate(fits):
        if config.cluster is None:
            line = f"{all_fits.title(number)}  ({number + 1} of {len(fits)})"
            console.print(line, markup=False, highlight=False)
        progress = False if quiet else None
        posterior = own.train(fit, folder, progress)
        runs.append(saved_run(folder, own.problem if own.code else None))
        results.append(result_of(runs[-1], rows, posterior, evaluator, progress))
    comparison = comparison_of(runs, rows.dataset, results)
    table = summarise(comparison)
    write_csv(table, root / "results.csv")
    write_json(table, root / "results.json")
    write_latex(table, root / "results.tex")
    write_html(comparison, root / "report.html")
    if config.figures is not None:
        from credax.plot import save_figures

        save_figures(comparison, root / "figures", config.figures)
    if config.output.json:
        print((root / "results.json").read_text())
        return
    for part in (table.part() or table, *more_tables(table)):
        print_rich(part, Console())
    line = f"report: {root / 'report.html'}"
    Console().print(line, highlight=False, soft_wrap=True, markup=False)


def more_tables(table: Any) -> list[Any]:
    """What is printed below the main table: one table per question."""
    parts = {
        "under corruption": table.part("shift/pooled/"),
        "OOD detection": table.part("ood/"),
        "after calibration": table.part("calibrated/"),
        "weights against the reference, in tenths of MMD²": table.part("weights/"),
    }
    shown = [(title, part) for title, part in parts.items() if part is not None]
    return [_shortened(dataclasses.replace(part, title=title)) for title, part in shown]


def _shortened(table: Any) -> Any:
    """Without the words that the title says already, and without what only the page shows."""
    kept = [c for c in table.columns if c.name.split("/")[-1] in _TERMINAL]
    if not kept:
        return table
    positions = [table.columns.index(column) for column in kept]
    columns = tuple(
        dataclasses.replace(c, label=c.label.removesuffix(", shift, pooled")) for c in kept
    )
    cells = tuple(tuple(row[i] for i in positions) for row in table.cells)
    return dataclasses.replace(table, columns=columns, cells=cells)
