"""The verdict at the top of the page: which method, by how much, at what cost, how calibrated."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from credax.report.calibration_check import CLASS_RULE, NUMBER_RULE, Calibrated, calibration_check
from credax.report.cost import training_time
from credax.report.difference import CONFIDENCE, differ, errors_needed
from credax.report.numbers import duration, percent, short
from credax.report.result import Comparison
from credax.report.table import Cell, Column, Table

_PREFERRED = ("nll", "rmse", "accuracy")
_MOST_NAMES = 3


@dataclass(frozen=True)
class Verdict:
    """Two sentences, and the rules by which they were found."""

    sentences: tuple[str, ...]
    rules: tuple[str, ...]


@dataclass(frozen=True)
class Ranking:
    """Methods by the mean of one metric, the best first; ``tied`` may be as good."""

    table: Table
    column: int
    order: tuple[int, ...]
    tied: tuple[int, ...]

    @property
    def metric(self) -> Column:
        """What the methods are ranked by."""
        return self.table.columns[self.column]

    def name(self, row: int) -> str:
        """The name of a method."""
        return self.table.methods[row]

    def cell(self, row: int) -> Cell:
        """The values of a method; those in ``order`` have some."""
        cell = self.table.cells[row][self.column]
        assert cell is not None
        return cell

    def value(self, row: int) -> str:
        """Mean and standard error of a method as the table prints them."""
        return " ± ".join(filter(None, self.table.text(row, self.column)))


def verdict(comparison: Comparison, table: Table) -> Verdict | None:
    """What the results say, or None where no metric says which direction is better."""
    ranking = rank(table)
    if ranking is None:
        return None
    checks = {m: calibration_check(comparison, m) for m in comparison.methods}
    known = {m: check for m, check in checks.items() if check is not None}
    rules = [_comparison_rule(ranking)] if len(ranking.order) > 1 else []
    left = [m for row, m in enumerate(table.methods) if row not in ranking.order]
    rules += [f"Without a finite {ranking.metric.label}: {_list(left)}."] if left else []
    if known:
        rules.append(CLASS_RULE if comparison.task == "classification" else NUMBER_RULE)
    first = _alone(ranking) if len(ranking.order) == 1 else _who(ranking)
    second = _second(comparison, ranking, known)
    return Verdict(tuple(filter(None, (first, second))), tuple(rules))


def rank(table: Table) -> Ranking | None:
    """Rank by NLL, which evaluates answers and probabilities at once; else RMSE, else accuracy."""
    directed = [i for i, c in enumerate(table.columns) if c.higher_is_better is not None]
    by_name = {table.columns[i].name: i for i in directed if "/" not in table.columns[i].name}
    chosen = next((by_name[n] for n in _PREFERRED if n in by_name), None)
    column = chosen if chosen is not None else next(iter(by_name.values()), None)
    if column is None:
        return None
    means = {
        row: cell.mean
        for row, cells in enumerate(table.cells)
        if (cell := cells[column]) is not None and math.isfinite(cell.mean)
    }
    if not means:
        return None
    higher = bool(table.columns[column].higher_is_better)
    order = sorted(means, key=lambda row: means[row], reverse=higher)
    found = Ranking(table, column, tuple(order), ())
    best = found.cell(order[0])
    tied = tuple(row for row in order[1:] if not differ(best, found.cell(row)))
    return replace(found, tied=tied)


def _who(ranking: Ranking) -> str:
    best, rival = ranking.order[0], (*ranking.tied, ranking.order[1])[0]
    one, other = ranking.cell(best), ranking.cell(rival)
    label = f"test {ranking.metric.label}"
    if one.standard_error is None or other.standard_error is None:
        seeds = "With one seed per method" if _single(ranking) else "With one seed of a method"
        return (
            f"{seeds} no standard error is known, so these runs do not show which method is "
            f"better: {label} is {ranking.value(best)} for {ranking.name(best)} and "
            f"{ranking.value(rival)} for {ranking.name(rival)}."
        )
    error = math.hypot(one.standard_error, other.standard_error)
    gap = abs(one.mean - other.mean)
    ratio = f"{gap / error:.1f} times its standard error" if error > 0 else "equal for all seeds"
    if ranking.tied:
        names = [ranking.name(row) for row in (best, *ranking.tied)]
        enough = f" where {errors_needed(one, other):.1f} are needed" if error > 0 else ""
        return (
            f"{_list(names)} do not differ significantly by {label}: {ranking.value(best)} for "
            f"{ranking.name(best)} and {ranking.value(rival)} for {ranking.name(rival)}, a "
            f"difference of {short(gap, 2)}, {ratio}{enough}."
        )
    return (
        f"{ranking.name(best)} has the best {label}: {ranking.value(best)} against "
        f"{ranking.value(rival)} of {ranking.name(rival)}, a difference of {short(gap, 2)}, "
        f"{ratio}."
    )


def _alone(ranking: Ranking) -> str:
    (row,) = ranking.order
    table, seeds = ranking.table, len(ranking.cell(row).values)
    known = {c.name: i for i, c in enumerate(table.columns)}
    shown = [known[n] for n in ("accuracy", "rmse", "nll") if n in known] or [ranking.column]
    values = [
        f"test {table.columns[i].label} {' ± '.join(filter(None, table.text(row, i)))}"
        for i in shown
        if table.cells[row][i] is not None
    ]
    over = (
        "one seed, so no standard error is known"
        if seeds == 1
        else f"mean ± standard error over {seeds} seeds"
    )
    return f"{ranking.name(row)} reaches {_list(values)} ({over})."


def _second(comparison: Comparison, ranking: Ranking, known: dict[str, Calibrated]) -> str:
    named = [ranking.name(row) for row in (ranking.order[0], *ranking.tied)]
    parts = [_cost(comparison, ranking, named), _calibration(known, named)]
    text = "; ".join(filter(None, parts))
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _single(ranking: Ranking) -> bool:
    return all(len(ranking.cell(row).values) == 1 for row in ranking.order)


def _cost(comparison: Comparison, ranking: Ranking, named: list[str]) -> str:
    times = {m: training_time(comparison.of(m)) for m in comparison.methods}
    seconds = {m: t.seconds for m, t in times.items() if t is not None}
    best = named[0]
    if best not in seconds:
        return ""
    took = f"training took {_took(seconds[best])}"
    if times[best] is not None and times[best].compiling is not None:  # pyright: ignore
        took += " without compiling"
    if len(ranking.order) == 1:
        return took
    if len(named) > 1:
        cheapest = min((m for m in named if m in seconds), key=lambda m: seconds[m])
        dearest = max((m for m in named if m in seconds), key=lambda m: seconds[m])
        if cheapest == dearest:
            return ""
        ratio = _ratio(seconds[dearest], seconds[cheapest])
        return (
            f"{cheapest} is the cheapest of them to train ({_took(seconds[cheapest])}), {dearest} "
            f"took {ratio} as long"
        )
    other = ranking.name(ranking.order[1])
    if other not in seconds:
        return f"its {took}"
    return f"its {took}, {_ratio(seconds[best], seconds[other])} as long as {other}"


def _took(seconds: float) -> str:
    return duration(float(f"{seconds:.2g}")) if seconds < 60 else duration(seconds)


def _ratio(one: float, other: float) -> str:
    return f"{short(one / other, 2)} times" if other > 0 else "many times"


def _calibration(known: dict[str, Calibrated], named: list[str]) -> str:
    found = {m: known[m] for m in named if m in known}
    if not found:
        return ""
    if len(named) == 1:
        return f"its calibration {next(iter(found.values())).sentence}"
    groups: dict[str, list[str]] = {}
    for method, check in found.items():
        groups.setdefault(check.state, []).append(method)
    if len(groups) == 1:
        return f"their calibration {next(iter(groups))}"
    return "calibration " + " and ".join(f"{state} for {_list(ms)}" for state, ms in groups.items())


def _comparison_rule(ranking: Ranking) -> str:
    return (
        f"Methods are ranked by {ranking.metric.label} and compared by a two-sided t test over "
        f"seeds at {percent(CONFIDENCE)}; the rows are the same for all, so this says nothing of "
        "other test rows."
    )


def _list(names: Sequence[str]) -> str:
    if len(names) > _MOST_NAMES + 1:
        names = [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
