"""The report: one self-contained HTML page that needs no network, script or other file."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from credax.files import write_atomic
from credax.report import classification, regression
from credax.report.calibrated import calibrated_section, sets_section
from credax.report.chains import chains_section
from credax.report.confusion import confusion_section
from credax.report.cost import cost_section, seeds_text
from credax.report.curves import training_section
from credax.report.distance import distance_section
from credax.report.doubtful import doubtful_section
from credax.report.maps import maps_section
from credax.report.markup import Markup, element
from credax.report.ood import ood_section
from credax.report.parts import scroll, section
from credax.report.pictures import pictures_section
from credax.report.provenance import classes_table, decisions_table, facts_list
from credax.report.repulsion import repulsion_section, saliency_section
from credax.report.result import Comparison, Result
from credax.report.severity import severity_section
from credax.report.sparsification import sparsification_section
from credax.report.table import Column, Table, summarise
from credax.report.verdict import Verdict, verdict

_FIGURES = {
    "classification": (
        classification.reliability_section,
        calibrated_section,
        sets_section,
        classification.risk_coverage_section,
        confusion_section,
        classification.epistemic_section,
        ood_section,
        severity_section,
        distance_section,
        maps_section,
        training_section,
        chains_section,
        repulsion_section,
        saliency_section,
        pictures_section,
        doubtful_section,
    ),
    "regression": (
        regression.function_section,
        regression.scatter_section,
        regression.coverage_section,
        regression.deviation_section,
        sparsification_section,
        calibrated_section,
        sets_section,
        ood_section,
        distance_section,
        maps_section,
        training_section,
        chains_section,
        repulsion_section,
        doubtful_section,
    ),
}


def write_html(comparison: Comparison, path: str | Path) -> None:
    """Write the comparison as one HTML file, atomically."""
    write_atomic(Path(path), page(comparison).encode())


def page(comparison: Comparison) -> str:
    """The whole page as text."""
    table = summarise(comparison)
    figures = [draw(comparison) for draw in _FIGURES[comparison.task]]
    found = verdict(comparison, table)
    one = len(comparison.methods) == 1
    body = element(
        "main",
        element(
            "header",
            element("h1", comparison.title),
            verdict_lines(found) if found is not None else None,
            facts_list(comparison),
            classes_table(comparison.facts),
            decisions_table(comparison.facts),
        ),
        main_table(table.part() or table),
        cost_section(comparison),
        element("div", figures, class_="figures one" if one else "figures"),
        config_section(comparison),
        element("footer", "Written by credax. This file is complete: no network, no scripts."),
    )
    return document(comparison.title, body)


def document(title: str, body: Markup, more_style: str = "") -> str:
    """A whole HTML document with the report's style sheet inside."""
    style = files("credax.report").joinpath("style.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style + more_style)),
    )
    return "<!DOCTYPE html>\n" + element("html", head, element("body", body), lang="en") + "\n"


def verdict_lines(found: Verdict) -> Markup:
    """The verdict in two sentences, and below them the rules that it follows."""
    return element(
        "div",
        element("p", " ".join(found.sentences), class_="verdict"),
        element("p", " ".join(found.rules), class_="note") if found.rules else None,
    )


def main_table(table: Table) -> Markup:
    """The main table with its legend."""
    header = [element("th", "method", scope="col")]
    for column in table.columns:
        words = ": ".join(filter(None, (column.description, column.estimator)))
        arrow = element("span", column.arrow, class_="arrow") if column.arrow else None
        unit = element("small", column.unit) if column.unit else None
        header.append(element("th", column.label, arrow, unit, scope="col", title=words or None))
    rows = []
    for row, method in enumerate(table.methods):
        cells = [_cell(table, row, column) for column in range(len(table.columns))]
        rows.append(element("tr", element("th", method, scope="row"), cells))
    body = element(
        "table", element("thead", element("tr", header)), element("tbody", rows), class_="main"
    )
    meanings = [
        (element("dt", column.label), element("dd", f"{column.description}; {column.estimator}"))
        for column in table.columns
        if column.description
    ]
    return element(
        "section",
        element("h2", "Results", id="results-heading"),
        scroll(body, "Results"),
        element("p", table.legend(), class_="note"),
        element("dl", meanings, class_="meanings"),
        id="results",
        aria_labelledby="results-heading",
    )


def _cell(table: Table, row: int, column: int) -> Markup:
    cell = table.cells[row][column]
    mean, error = table.text(row, column)
    number = element("b", mean) if cell is not None and cell.best else mean
    seeds = [] if cell is None else zip(cell.seeds, cell.values, strict=True)
    values = ", ".join(f"seed {seed}: {value:.6g}" for seed, value in seeds)
    plus_minus = element("span", f" ± {error}", class_="error") if error else None
    return element("td", number, plus_minus, nominal(table.columns[column]), title=values or None)


def nominal(column: Column) -> Markup | None:
    """What a coverage was meant to be, to be printed beside it."""
    if column.target is None:
        return None
    return element("span", f" (nominal {column.target:.2f})", class_="nominal")


def config_section(comparison: Comparison) -> Markup | None:
    """The resolved configuration of every method, once for seeds that differ in the seed only."""
    seen: dict[tuple[str, str], list[Result]] = {}
    for result in comparison.results:
        if result.config:
            # The key is made from the seed, and the command names it.
            own = ("seed", "key", "command")
            shared = {k: v for k, v in result.config.items() if k not in own}
            seen.setdefault((result.method, _json(shared)), []).append(result)
    if not seen:
        return None
    blocks = []
    for (method, _), results in seen.items():
        summary = f"{method}, {seeds_text(results)}"
        text = element("pre", element("code", _json(results[0].config)))
        blocks.append(element("details", element("summary", summary), text))
    return section(
        "configuration",
        "Configuration",
        "Every setting as it was used, defaults included; seeds that differ in nothing else share "
        "one entry.",
        blocks,
    )


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
