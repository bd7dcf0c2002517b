"""``credax report RUN ...``: one page for one or more finished runs."""

import shlex
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
    out: str | None = None
    """Where to write the page; by default report.html in the first run's folder."""


def run(arguments: list[str]) -> None:
    """Read the runs back and write the page."""
    config = read_arguments(Report, arguments, "credax report")
    if not config.runs:
        raise InputError("runs is empty; name at least one run folder (see: credax list runs)")
    from credax.cli.job import SavedRun, facts_of
    from credax.report import Comparison, distinguish, write_html
    from credax.report.result import title_of

    saved = [SavedRun.open(path) for path in config.runs]
    names = {run.job.dataset.name for run in saved}
    if len(names) > 1:
        raise InputError(
            f"the runs are on different data ({', '.join(sorted(names))}); report one set at a time"
        )
    dataset = saved[0].job.dataset
    results = distinguish([run.result() for run in saved])
    command = shlex.join(["credax", "report", *arguments])
    comparison = Comparison(
        title=title_of(list(dict.fromkeys(result.method for result in results))),
        data=dataset.name,
        task=dataset.task,
        results=results,
        class_names=dataset.class_names,
        inputs=dataset.test.x,
        facts=facts_of(dataset, [run.folder.path for run in saved], command),
    )
    path = Path(config.out or Path(config.runs[0]) / "report.html")
    write_html(comparison, path)
    print(f"report: {path}")
