"""The main table: mean and standard error of every metric over seeds, and who is best."""

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from credax import metrics
from credax.errors import InputError
from credax.files import write_atomic
from credax.metrics import METRICS
from credax.report.difference import CONFIDENCE, differ
from credax.report.numbers import MISSING, column_decimals, fixed, percent
from credax.report.result import Comparison, Result

_METHOD_WIDTH = 16


@dataclass(frozen=True)
class Column:
    """A metric as a table shows it; one that the registry does not know has only its name."""

    name: str
    label: str
    unit: str = ""
    higher_is_better: bool | None = None
    target: float | None = None
    estimator: str = ""
    description: str = ""

    @property
    def arrow(self) -> str:
        """The direction that is better: up, down, towards a target, or nothing."""
        if self.higher_is_better is not None:
            return "↑" if self.higher_is_better else "↓"
        return "" if self.target is None else f"→ {self.target:g}"


@dataclass(frozen=True)
class Cell:
    """A method's values of one metric, seed by seed, with their mean and its standard error.

    ``standard_error`` is ``deviation / √seeds``, None with fewer than two seeds. A value that is
    not finite makes the mean NaN: it is not averaged away.
    """

    seeds: tuple[int, ...]
    values: tuple[float, ...]
    mean: float
    standard_error: float | None
    best: bool = False


@dataclass(frozen=True)
class Table:
    """Methods by metrics; ``cells[row][column]`` is None where a method lacks a metric."""

    title: str
    data: str
    task: str
    methods: tuple[str, ...]
    columns: tuple[Column, ...]
    cells: tuple[tuple[Cell | None, ...], ...]

    @property
    def has_errors(self) -> bool:
        """Whether any standard error is defined."""
        return any(
            c is not None and c.standard_error is not None for row in self.cells for c in row
        )

    def text(self, row: int, column: int) -> tuple[str, str]:
        """A cell's mean and standard error as printed, equal decimals down the column."""
        cell = self.cells[row][column]
        if cell is None:
            return MISSING, ""
        column_cells = [c for r in self.cells if (c := r[column]) is not None]
        errors = [c.standard_error for c in column_cells if c.standard_error is not None]
        decimals = column_decimals([c.mean for c in column_cells], errors)
        error = "" if cell.standard_error is None else fixed(cell.standard_error, decimals)
        return fixed(cell.mean, decimals), error

    def part(self, prefix: str = "") -> "Table | None":
        """The columns whose name begins so; by default those about the clean test rows."""
        shown = [
            i
            for i, c in enumerate(self.columns)
            if (c.name.startswith(prefix) if prefix else "/" not in c.name)
        ]
        if not shown:
            return None
        cells = tuple(tuple(row[i] for i in shown) for row in self.cells)
        return replace(self, columns=tuple(self.columns[i] for i in shown), cells=cells)

    def between(self, start: int, stop: int) -> "Table":
        """The columns from ``start`` up to ``stop``."""
        cells = tuple(row[start:stop] for row in self.cells)
        return replace(self, columns=self.columns[start:stop], cells=cells)

    def legend(self) -> str:
        """What the arrows, the ± and the bold print mean."""
        meanings = {
            "↑": "↑ higher is better",
            "↓": "↓ lower is better",
            "→": "→ the value to aim at",
        }
        used = {column.arrow[:1] for column in self.columns}
        arrows = ", ".join(text for arrow, text in meanings.items() if arrow in used)
        errors = (
            "Mean ± standard error over seeds. Bold: better than the runner-up by a t test over "
            f"seeds at {percent(CONFIDENCE)}."
            if self.has_errors
            else "One seed per method: the standard error is not defined, so values stand alone "
            "and nothing is in bold."
        )
        return f"{arrows}. {errors}" if arrows else errors


def summarise(comparison: Comparison) -> Table:
    """Mean and standard error over seeds for every method and metric.

    The best of a column is flagged only where it differs from the runner-up by a t test over seeds
    (`credax.report.difference.differ`), so never with a single seed.
    """
    found = dict.fromkeys(name for result in comparison.results for name in result.metrics)
    known = [name for name in METRICS if name in found]
    columns = tuple(_column(name) for name in known + [n for n in found if n not in METRICS])
    by_column = [
        _flag_best([_cell(comparison.of(m), column.name) for m in comparison.methods], column)
        for column in columns
    ]
    cells = tuple(zip(*by_column, strict=True)) or tuple(() for _ in comparison.methods)
    return Table(
        comparison.title, comparison.data, comparison.task, comparison.methods, columns, cells
    )


def _column(name: str) -> Column:
    # A metric of one of several data sets is named "boston:nll".
    place, _, plain = name.rpartition(":")
    try:
        metric = metrics.get(plain)
    except InputError:
        return Column(name, name.replace("_", " "))
    return Column(
        name,
        f"{place} {metric.label}".strip(),
        metric.unit,
        metric.higher_is_better,
        metric.target,
        metric.estimator,
        metric.description,
    )


def _cell(results: list[Result], name: str) -> Cell | None:
    pairs = [(r.seed, float(r.metrics[name])) for r in results if name in r.metrics]
    if not pairs:
        return None
    seeds, values = zip(*pairs, strict=True)
    if not all(map(math.isfinite, values)):
        return Cell(seeds, values, math.nan, None)
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
    return Cell(seeds, values, fmean(values), error)


def _flag_best(cells: list[Cell | None], column: Column) -> list[Cell | None]:
    ranked = [c for c in cells if c is not None and not math.isnan(c.mean)]
    if column.higher_is_better is None or len(ranked) < 2:
        return cells
    ranked.sort(key=lambda c: c.mean, reverse=column.higher_is_better)
    first, second = ranked[:2]
    if not differ(first, second):
        return cells
    best = Cell(first.seeds, first.values, first.mean, first.standard_error, best=True)
    return [best if c is first else c for c in cells]


def print_rich(table: Table, console: Any = None) -> None:
    """Print the table to the terminal; a narrow one gets errors below, turns it, or cuts it."""
    from rich.console import Console
    from rich.text import Text

    console = Console() if console is None else console
    fits = fitting(console)
    forms = [
        _rich_table(table, " ± ", None),
        _rich_table(table, "\n±", _METHOD_WIDTH),
        _turned_table(table),
    ]
    whole = [form for form in forms if fits(form)]
    for form in whole[:1] or _pieces(table, fits):
        console.print(form)
    console.print(Text(table.legend(), style="dim"))


def _pieces(table: Table, fits: Callable[[Any], bool]) -> list[Any]:
    """Tables of all methods and as many metrics as fit, one below the other."""
    part = lambda start, stop: _rich_table(table.between(start, stop))  # noqa: E731
    return cut(part, len(table.columns), fits)


def cut(part: Callable[[int, int], Any], columns: int, fits: Callable[[Any], bool]) -> list[Any]:
    """``part(start, stop)`` for consecutive ranges of columns, each as long as it fits."""
    pieces, start = [], 0
    while start < columns:
        stop = start + 1
        while stop < columns and fits(part(start, stop + 1)):
            stop += 1
        pieces.append(part(start, stop))
        start = stop
    return pieces


def fitting(console: Any) -> Callable[[Any], bool]:
    """Whether something is no wider than the console."""
    from rich.measure import Measurement

    unbounded = console.options.update(max_width=10_000)
    return lambda form: Measurement.get(console, unbounded, form).maximum <= console.width


def _rich_table(table: Table, separator: str = " ± ", method_width: int | None = None):
    from rich.text import Text

    out = _empty_table(table)
    longest = max(map(len, (*table.methods, "method")))
    out.add_column("method", width=method_width and min(longest, method_width), overflow="fold")
    for column in table.columns:
        out.add_column(Text(f"{column.label} {column.arrow}".rstrip()), justify="right")
    for row, method in enumerate(table.methods):
        cells = [_rich_cell(table, row, index, separator) for index in range(len(table.columns))]
        out.add_row(Text(method), *cells)
    return out


def _turned_table(table: Table):
    """One row per metric and one column per method."""
    from rich.text import Text

    out = _empty_table(table)
    out.add_column("metric", overflow="fold")
    for method in table.methods:
        out.add_column(Text(method), justify="right", overflow="fold")
    for index, column in enumerate(table.columns):
        cells = [_rich_cell(table, row, index, " ± ") for row in range(len(table.methods))]
        out.add_row(Text(f"{column.label} {column.arrow}".rstrip()), *cells)
    return out


def _empty_table(table: Table):
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    return RichTable(
        title=Text(f"{table.title}: {table.data}"),
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )


def _rich_cell(table: Table, row: int, column: int, separator: str):
    from rich.text import Text

    cell = table.cells[row][column]
    mean, error = table.text(row, column)
    text = f"{mean}{separator}{error}" if error else mean
    return Text(text, style="bold" if cell is not None and cell.best else "")


def write_csv(table: Table, path: str | Path) -> None:
    """Every single number in long form: one row per method, seed and metric, at full precision.

    Columns ``data, method, seed, metric, value, unit, better``; ``better`` is ``higher``, ``lower``
    or empty. Means are left to the reader's own tool; `write_json` holds them.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["data", "method", "seed", "metric", "value", "unit", "better"])
    words = {True: "higher", False: "lower", None: ""}
    for method, row in zip(table.methods, table.cells, strict=True):
        for column, cell in zip(table.columns, row, strict=True):
            for seed, value in zip(cell.seeds, cell.values, strict=True) if cell else ():
                better = words[column.higher_is_better]
                writer.writerow(
                    [table.data, method, seed, column.name, repr(value), column.unit, better]
                )
    write_atomic(Path(path), text.getvalue().encode())


def write_json(table: Table, path: str | Path) -> None:
    """The table as JSON: what each metric is, and mean, standard error and values by method.

    A number that is not finite is written as null, because JSON has no other way.
    """
    content = {
        "title": table.title,
        "data": table.data,
        "task": table.task,
        "metrics": [asdict(column) for column in table.columns],
        "methods": [
            {
                "method": method,
                "results": {
                    column.name: asdict(cell)
                    for column, cell in zip(table.columns, row, strict=True)
                    if cell is not None
                },
            }
            for method, row in zip(table.methods, table.cells, strict=True)
        ],
    }
    text = json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomic(Path(path), (text + "\n").encode())


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
