"""``credax compare``: several methods and seeds on one data set, a table and a page."""

import dataclasses
import json
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
    default = Compare(task=recipe_of(arguments))
    config = read_arguments(Compare, arguments, "credax compare", default)
    if config.seeds < 1:
        raise InputError(f"seeds is {config.seeds}; give at least 1")
    if not config.methods:
        raise InputError("methods is empty; name at least one, such as --methods single")
    compare(config, arguments)


def compare(config: Compare, flags: list[str]) -> None:
    """Train each method and seed in a run folder of its own, then tabulate and report.

    ``flags`` say which settings were chosen, and which come from the recipe of the data.
    """
    from rich.console import Console

    from credax.cli.decisions import print_decisions
    from credax.cli.job import Job
    from credax.cli.plan import plan
    from credax.cli.results import comparison_of, result_of
    from credax.cli.saved import Rows, saved_run
    from credax.report import print_rich, summarise, write_csv, write_html, write_json, write_latex

    if config.figures is not None and not config.output.dry_run:
        # Hours of training should not end with a missing package.
        from credax.plot.axes import matplotlib

        matplotlib()
    variants = read_variants(config.methods, config.grid, config.task, config.members, flags)
    job = Job.of(config.task)
    jobs = [job.with_task(variant.task) for variant in variants]
    evaluator = job.evaluator(config.evaluation)
    name = "_".join(
        part for part in ("compare", Path(job.task.data).name, config.output.name) if part
    )
    root = Path(config.output.out or Path(DEFAULT_ROOT) / name)
    fits = [
        (own, Fit(variant.method, own.task, seed), root / f"{variant.label}_{seed}")
        for own, variant in zip(jobs, variants, strict=True)
        for seed in range(config.seeds)
    ]
    if config.output.dry_run:
        print(json.dumps([plan(*each) for each in fits], indent=2))
        return
    quiet = config.output.quiet or config.output.json
    console = Console(stderr=True, quiet=quiet)
    print_decisions(job.dataset, console)
    runs, results, rows = [], [], Rows(job.dataset, True)
    for number, (own, fit, folder) in enumerate(fits, 1):
        label = folder.name.rpartition("_")[0].removeprefix(fit.method.name).lstrip("-")
        title = f"{fit.method.title} ({label})" if label else fit.method.title
        line = f"{title}, seed {fit.seed}  ({number} of {len(fits)})"
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
