"""Which classes the least certain rows are taken for each other's."""

import numpy as np

from credax.report.markup import Markup, element
from credax.report.numbers import fixed
from credax.report.parts import numbers, panel, panels, section
from credax.report.result import Comparison
from credax.report.rows import ClassRows, class_rows
from credax.report.svg import drawing

SHARE = 0.1
_MOST_CLASSES = 20
_PAIRS = 10


def confusion_section(comparison: Comparison) -> Markup | None:
    """For every method, true against predicted class of the tenth it is least certain of."""
    facts = {m: class_rows(comparison.shown(m)) for m in comparison.methods}
    counts = {m: least_certain(rows) for m, rows in facts.items() if rows}
    if not counts or len(next(iter(counts.values()))) > _MOST_CLASSES:
        return None
    names = [comparison.class_name(k) for k in range(len(next(iter(counts.values()))))]
    return section(
        "confusion",
        "What do the least certain rows get mixed up with?",
        f"The {SHARE:.0%} of the test rows with the highest total uncertainty, rows of all seeds "
        "together: the true class down the side, the predicted class along the top, darker for "
        "more rows. Off the diagonal are mistakes that the method warned of.",
        panels(
            panel(m, _matrix(m, table, names), f"{int(np.trace(table))} of {table.sum()} right")
            for m, table in counts.items()
        ),
        numbers(
            "Numbers: the most frequent confusions of the least certain rows",
            ["method", "true class", "predicted class", "rows", "share of those rows"],
            [
                [m, names[i], names[j], str(table[i, j]), fixed(table[i, j] / table.sum())]
                for m, table in counts.items()
                for i, j in _pairs(table)
            ],
        ),
    )


def least_certain(each: list[ClassRows]) -> np.ndarray:
    """Counts ``[true, predicted]`` of the least certain tenth of every seed's rows."""
    classes = 1 + max(int(max(rows.y.max(), rows.label.max())) for rows in each)
    counts = np.zeros((classes, classes), int)
    for rows in each:
        shown = np.argsort(-rows.total, kind="stable")[: max(1, round(SHARE * len(rows.y)))]
        np.add.at(counts, (rows.y[shown], rows.label[shown]), 1)
    return counts


def _pairs(table: np.ndarray) -> list[tuple[int, int]]:
    off = table * (1 - np.eye(len(table), dtype=int))
    order = np.argsort(-off, axis=None, kind="stable")[:_PAIRS]
    places = [divmod(int(k), len(table)) for k in order]
    return [(i, j) for i, j in places if off[i, j]]


def _matrix(method: str, table: np.ndarray, names: list[str]) -> Markup:
    left, top, side = 78, 62, 210 / len(table)
    parts = []
    for i, name in enumerate(names):
        middle = (i + 0.5) * side
        parts.append(_text(name, left - 5, top + middle + 4, "tick end"))
        turn = f"translate({left + middle + 4:.1f} {top - 5}) rotate(-60)"
        parts.append(element("text", _short(name), class_="tick", transform=turn))
        for j in range(len(names)):
            count = int(table[i, j])
            if not count:
                continue
            shade = f"{0.12 + 0.88 * (count / table.max()) ** 0.5:.2f}"
            x, y = left + j * side, top + i * side
            parts.append(
                element(
                    "rect",
                    x=f"{x:.1f}",
                    y=f"{y:.1f}",
                    width=f"{side - 1:.1f}",
                    height=f"{side - 1:.1f}",
                    class_="cell right" if i == j else "cell wrong",
                    fill_opacity=shade,
                )
            )
            if side >= 18:
                parts.append(_text(str(count), x + side / 2, y + side / 2 + 4, "tick middle count"))
    parts.append(_text("predicted", left, top + 226, "label"))
    parts.append(_text("true", 2, top - 12, "label"))
    return drawing(
        f"True and predicted classes of the rows {method} is least certain of", parts, height=300
    )


def _text(text: str, x: float, y: float, class_: str) -> Markup:
    return element("text", _short(text), x=f"{x:.1f}", y=f"{y:.1f}", class_=class_)


def _short(name: str) -> str:
    return name if len(name) <= 11 else name[:10] + "…"
