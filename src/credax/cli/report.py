"""``credax report RUN ...``: one page for one or more finished runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from credax.cli.config import read_arguments
from credax.errors import InputError


@dataclass(frozen=True)
class Report:
    """The report page of one or more finished runs on the same data."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Folders of runs."""
    problem: str | None = None
    """FILE.py:NAME of the credax.Problem, for runs with a network of your own."""
    out: str | None = None
    """Where to write the page; by default report.html in the first run's folder."""


def run(arguments: list[str]) -> None:
    """Read the runs back and write the page."""
    config = read_arguments(Report, arguments, "credax report")
    if not config.runs:
        raise InputError("runs is empty; name at least one run folder (see: credax list runs)")
    from credax.cli.results import comparison_of, result_of, same_data
    from credax.cli.saved import rows_to_show, saved_run
    from credax.report import write_html

    saved = [saved_run(path, config.problem) for path in config.runs]
    same_data(saved)
    rows = [rows_to_show(run) for run in saved]
    results = [result_of(run, own, remembered=True) for run, own in zip(saved, rows, strict=True)]
    path = Path(config.out or Path(config.runs[0]) / "report.html")
    write_html(comparison_of(saved, rows[0].dataset, results), path)
    print(f"report: {path}")
