"""The report: one self-contained HTML page that needs no network, script or other file."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from credax.files import write_atomic
from credax.report import classification, regression
from credax.report.calibrated import calibrated_section, sets_section
from credax.report.confusion import confusion_section
from credax.report.curves import training_section
from credax.report.distance import distance_section
from credax.report.markup import Markup, element
from credax.report.numbers import MISSING, duration, short, size
from credax.report.parts import plain_table, scroll, section
from credax.report.pictures import pictures_section
from credax.report.repulsion import repulsion_section, saliency_section
from credax.report.result import Comparison, Result
from credax.report.rows import class_rows
from credax.report.severity import severity_section
from credax.report.strange import strange_section
from credax.report.table import Table, summarise

_FIGURES = {
    "classification": (
        classification.reliability_section,
        calibrated_section,
        sets_section,
        classification.risk_coverage_section,
        confusion_section,
        classification.epistemic_section,
        strange_section,
        severity_section,
        distance_section,
        training_section,
        repulsion_section,
        saliency_section,
        pictures_section,
    ),
    "regression": (
        regression.function_section,
        regression.scatter_section,
        regression.coverage_section,
        regression.spread_section,
        calibrated_section,
        sets_section,
        strange_section,
        distance_section,
        training_section,
        repulsion_section,
    ),
}
_COSTS = {
    "members": ("members", lambda v: short(v) if v % 1 else str(int(v))),
    "parameters": ("parameters a member", lambda v: f"{v:,.0f}".replace(",", "\u202f")),
    "epochs": ("epochs", lambda v: short(v) if v % 1 else str(int(v))),
    "training_seconds": ("training time", duration),
    "compile_seconds": ("compile time", duration),
    "peak_memory_bytes": ("peak memory", size),
    "network": ("network", str),
}


def write_html(comparison: Comparison, path: str | Path) -> None:
    """Write the comparison as one HTML file, atomically."""
    write_atomic(Path(path), page(comparison).encode())


def page(comparison: Comparison) -> str:
    """The whole page as text."""
    table = summarise(comparison)
    figures = [draw(comparison) for draw in _FIGURES[comparison.task]]
    style = files("credax.report").joinpath("style.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", comparison.title),
        element("style", Markup(style)),
    )
    body = element(
        "main",
        element("header", element("h1", comparison.title), element("p", _lead(comparison))),
        main_table(table.part() or table),
        cost_section(comparison),
        figures,
        config_section(comparison),
        element("footer", "Written by credax. This file is complete: no network, no scripts."),
    )
    return "<!DOCTYPE html>\n" + element("html", head, element("body", body), lang="en") + "\n"


def _lead(comparison: Comparison) -> str:
    methods = len(comparison.methods)
    most = max(len(comparison.of(m)) for m in comparison.methods)
    rows = next((len(r.y) for r in comparison.results if r.y is not None), None)
    subject = "one method" if methods == 1 else f"{methods} methods"
    verb = "shows" if methods == 1 else "compares"
    on_rows = f", {rows} test rows" if rows is not None else ""
    seeds = "one seed" if most == 1 else f"{most} seeds"
    quality = {
        "classification": "how often the predictions were right",
        "regression": "how close the predictions came",
    }
    return (
        f"This page {verb} {subject} on {comparison.data} ({comparison.task}{on_rows}), trained "
        f"from {seeds}{' each' if methods > 1 else ''}. It says {quality[comparison.task]}, how "
        "far their stated uncertainty can be believed, and what they cost."
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
    spread = element("span", f" ± {error}", class_="error") if error else None
    return element("td", number, spread, title=values or None)


def cost_section(comparison: Comparison) -> Markup:
    """What was run, what it cost, and what the reader should know about it."""
    found = (key for r in comparison.results for key, value in r.cost.items() if value is not None)
    keys = dict.fromkeys(found)
    ordered = [k for k in _COSTS if k in keys] + [k for k in keys if k not in _COSTS]
    if "members" not in keys and any(r.prediction is not None for r in comparison.results):
        ordered.insert(0, "members")
    header = [
        "method",
        "seeds",
        *[_COSTS[k][0] if k in _COSTS else k.replace("_", " ") for k in ordered],
    ]
    rows = []
    for method in comparison.methods:
        results = comparison.of(method)
        seeds = ", ".join(str(r.seed) for r in results)
        rows.append([method, seeds, *[_cost(results, key) for key in ordered]])
    notes = [element("li", note) for note in _notes(comparison)]
    return section(
        "cost",
        "What was run, and at what cost",
        f"Data: {comparison.data}. Times and memory are means over seeds.",
        plain_table(header, rows),
        element("ul", notes, class_="notes") if notes else None,
    )


def _cost(results: list[Result], key: str) -> str:
    values = [r.cost[key] for r in results if r.cost.get(key) is not None]
    if key == "members" and not values:
        values = [r.prediction.num_members for r in results if r.prediction is not None]
    if not values:
        return MISSING
    if all(isinstance(v, int | float | np.number) and not isinstance(v, bool) for v in values):
        mean = float(np.mean(np.asarray(values, float)))
        return _COSTS[key][1](mean) if key in _COSTS and np.isfinite(mean) else short(mean)
    return ", ".join(dict.fromkeys(str(v) for v in values))


def _notes(comparison: Comparison) -> list[str]:
    out = []
    for result in comparison.results:
        where = f"{result.method}, seed {result.seed}: "
        out += [where + note for note in result.notes]
        for rows in class_rows([result] if result.is_shown else []):
            if rows.clipped:
                out.append(
                    f"{where}the label of {rows.clipped} of {len(rows.y)} rows had a probability "
                    "below the smallest float; the NLL counts that float in its place"
                )
        odd = [name for name, value in result.metrics.items() if not np.isfinite(value)]
        if odd:
            out.append(f"{where}not finite: {', '.join(odd)}; no mean over seeds is given")
    return out


def config_section(comparison: Comparison) -> Markup | None:
    """The resolved configuration of every method, once for seeds that differ in the seed only."""
    seen: dict[tuple[str, str], list[Result]] = {}
    for result in comparison.results:
        if result.config:
            shared = {k: v for k, v in result.config.items() if k != "seed"}
            seen.setdefault((result.method, _json(shared)), []).append(result)
    if not seen:
        return None
    blocks = []
    for (method, _), results in seen.items():
        seeds = ", ".join(str(r.seed) for r in results)
        summary = f"{method}, seed{'s' if len(results) > 1 else ''} {seeds}"
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
