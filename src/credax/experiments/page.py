"""An experiment's results as files and as one page: ours, the published, the figures."""

from pathlib import Path

from credax.experiments.bench import Bench
from credax.experiments.experiment import Outcome
from credax.experiments.published import Published
from credax.experiments.study import StudyBench
from credax.files import write_atomic, write_json
from credax.report import Comparison, Table, summarise, write_csv
from credax.report import write_json as write_table
from credax.report.classification import reliability_section
from credax.report.curves import training_section
from credax.report.figure import Figure
from credax.report.markup import Markup, element
from credax.report.page import config_section, cost_section, document, main_table
from credax.report.parts import plain_table, section

_STYLE = """
.member { stroke: var(--series-0); stroke-width: 0.6; stroke-opacity: 0.55; fill: none; }
svg .title { font-weight: 600; font-size: 13px; }
.sheet { max-width: 62rem; }
"""


def write_outcome(bench: Bench | StudyBench, outcome: Outcome) -> Table:
    """``results.csv``, ``results.json``, ``published.json``, ``figures/`` and ``report.html``."""
    comparison = bench.comparison(outcome)
    table = summarise(comparison)
    write_csv(table, bench.root / "results.csv")
    write_table(table, bench.root / "results.json")
    if outcome.published:
        content = [published.to_json() for published in outcome.published]
        write_json(bench.root / "published.json", content)
    for figure in outcome.figures:
        figure.write(bench.root / "figures")
    write_atomic(bench.root / "report.html", page(bench, outcome, comparison, table))
    return table


def page(bench: Bench | StudyBench, outcome: Outcome, comparison: Comparison, table: Table) -> str:
    """The whole page as text."""
    experiment = bench.experiment
    lead = f"{experiment.description} Here: {bench.scale.note or 'the published settings'}."
    classes = comparison.task == "classification"
    body = element(
        "main",
        element("header", element("h1", comparison.title), element("p", lead)),
        main_table(table),
        [element("p", finding, class_="note") for finding in outcome.findings],
        [published_section(published, outcome) for published in outcome.published],
        [figure_section(figure) for figure in outcome.figures],
        reliability_section(comparison) if classes else None,
        training_section(comparison),
        cost_section(comparison),
        config_section(comparison),
        element("footer", "Written by credax. This file is complete: no network, no scripts."),
    )
    return document(comparison.title, body, _STYLE)


def published_section(published: Published, outcome: Outcome) -> Markup:
    """A published table and ours, column by column."""
    return section(
        "published",
        f"Beside {published.title}",
        f"Mean and standard deviation over seeds. Source: {published.source}.",
        plain_table(published.header(), published.lines(outcome.results)),
    )


def figure_section(figure: Figure) -> Markup:
    """A drawing with its caption."""
    name = figure.name.replace("-", " ").capitalize()
    drawing = figure.drawn()
    # At its own size, not stretched to the page: one panel would fill the screen.
    width = f"max-width:min(62rem,{drawing.width:g}px)"
    return section(
        figure.name,
        name,
        figure.caption,
        element("div", drawing.markup, class_="sheet", style=width),
    )


def figure_paths(root: Path, outcome: Outcome) -> list[Path]:
    """Where the figures were written."""
    return [root / "figures" / f"{figure.name}.svg" for figure in outcome.figures]
