"""What was run and at what cost: seeds, members, time, memory, and notes for the reader."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from credax.report.markup import Markup, element
from credax.report.numbers import MISSING, duration, short, size
from credax.report.parts import plain_table, section
from credax.report.result import Comparison, Result
from credax.report.rows import class_rows


def _whole(value: float) -> str:
    return short(value) if value % 1 else str(int(value))


_COSTS = {
    "members": ("members", _whole),
    "parameters": ("parameters per member", lambda v: f"{v:,.0f}".replace(",", "\u202f")),
    "epochs": ("epochs", _whole),
    "training_seconds": ("training time", duration),
    "compile_seconds": ("compile time", duration),
    "peak_memory_bytes": ("peak memory", size),
    "network": ("network", str),
}


class Time(NamedTuple):
    """Seconds of training and, apart from them, of compiling; None where that is not known."""

    seconds: float
    compiling: float | None


def training_time(results: Sequence[Result]) -> Time | None:
    """Mean over seeds; where the time of compiling is known it is taken off the training."""
    whole = [r.cost.get("training_seconds") for r in results]
    known = [float(v) for v in whole if v is not None and np.isfinite(v)]
    if not known or len(known) < len(results):
        return None
    compiling = [r.cost.get("compile_seconds") for r in results]
    if any(v is None or not np.isfinite(v) for v in compiling):
        return Time(float(np.mean(known)), None)
    mean = float(np.mean([float(v) for v in compiling if v is not None]))
    return Time(max(float(np.mean(known)) - mean, 0.0), mean)


def seeds_text(results: Sequence[Result]) -> str:
    """How many seeds, and which.

    >>> seeds_text([Result("a", 0, {})]), seeds_text([Result("a", s, {}) for s in (0, 2)])
    ('1 seed (seed 0)', '2 seeds (0, 2)')
    """
    seeds = sorted(result.seed for result in results)
    if len(seeds) == 1:
        return f"1 seed (seed {seeds[0]})"
    if len(seeds) > 3 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{len(seeds)} seeds ({seeds[0]} to {seeds[-1]})"
    return f"{len(seeds)} seeds ({', '.join(map(str, seeds))})"


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
    rows = [
        [m, seeds_text(comparison.of(m)), *[_cost(comparison.of(m), key) for key in ordered]]
        for m in comparison.methods
    ]
    notes = [element("li", note) for note in _notes(comparison)]
    apart = "Training time is without compile time. " if "compile_seconds" in keys else ""
    return section(
        "cost",
        "What was run, and at what cost",
        f"Training cost and size. {apart}Peak memory is that of the compiled training step. "
        "Times and memory are means over seeds.",
        plain_table(header, rows, "Cost"),
        element("ul", notes, class_="notes") if notes else None,
    )


def _cost(results: list[Result], key: str) -> str:
    values = [r.cost[key] for r in results if r.cost.get(key) is not None]
    if key == "members" and not values:
        values = [r.prediction.num_members for r in results if r.prediction is not None]
    if not values:
        return MISSING
    if key == "training_seconds" and (time := training_time(results)) is not None:
        return duration(time.seconds) + (", compiling included" if time.compiling is None else "")
    if all(_is_number(v) for v in values):
        mean = float(np.mean(np.asarray(values, float)))
        return _COSTS[key][1](mean) if key in _COSTS and np.isfinite(mean) else short(mean)
    return ", ".join(dict.fromkeys(str(v) for v in values))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


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
