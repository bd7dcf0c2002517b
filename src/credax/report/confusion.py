"""The confusion matrix of the least certain rows."""

import numpy as np

from credax.report.markup import Markup, element
from credax.report.numbers import fixed, percent
from credax.report.parts import key, key_area, numbers, panel, panels, section
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
        "Which classes are confused when the prediction is uncertain?",
        f"Confusion matrix of the {percent(SHARE)} of the test rows with the highest predictive "
        "entropy, rows of all seeds together; the stronger the colour, the more rows. Off the "
        "diagonal are errors that the uncertainty warned of.",
        key(key_area("cell right", "correct"), key_area("cell wrong", "errors")),
        panels(
            panel(m, _matrix(m, table, names), f"{int(np.trace(table))} of {table.sum()} correct")
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
    """True classes down the left side, predicted ones along the top, each axis named there."""
    longest = max(len(_short(name)) for name in names)
    left = 30 + 6.5 * longest
    extent = 296 - left
    side = extent / len(table)
    turned = 6.5 * longest > side
    top = 32 + 5.2 * longest if turned else 40
    parts = [
        _text("predicted class", left + extent / 2, 12, "label middle"),
        _turned("true class", 10, top + extent / 2, -90, "label middle"),
    ]
    for i, name in enumerate(names):
        middle = (i + 0.5) * side
        parts.append(_text(_short(name), left - 6, top + middle + 4, "tick end"))
        parts.append(
            _turned(_short(name), left + middle + 4, top - 6, -60, "tick")
            if turned
            else _text(_short(name), left + middle, top - 8, "tick middle")
        )
        parts += [
            _square(i, j, int(table[i, j]), table, left, top, side)
            for j in range(len(names))
            if table[i, j]
        ]
    outline = f"M{left:.1f} {top:.1f}h{extent:.1f}v{extent:.1f}h{-extent:.1f}Z"
    parts.append(element("path", class_="grid", d=outline))
    words = f"Confusion matrix of the rows {method} is least certain of"
    return drawing(words, parts, height=top + extent + 4)


def _square(i: int, j: int, count: int, table, left: float, top: float, side: float) -> Markup:
    x, y = left + j * side, top + i * side
    # How strong the strongest colour may be so that the count on it can be read is the style's.
    shade = f"--share: {(count / table.max()) ** 0.5:.3f}"
    box = element(
        "rect",
        x=f"{x + 0.5:.1f}",
        y=f"{y + 0.5:.1f}",
        width=f"{side - 1:.1f}",
        height=f"{side - 1:.1f}",
        class_="cell right" if i == j else "cell wrong",
        style=shade,
    )
    number = _text(str(count), x + side / 2, y + side / 2 + 4, "tick middle count")
    return element("g", box, number if side >= 16 else None)


def _turned(text: str, x: float, y: float, angle: int, class_: str) -> Markup:
    turn = f"translate({x:.1f} {y:.1f}) rotate({angle})"
    return element("text", text, class_=class_, transform=turn)


def _text(text: str, x: float, y: float, class_: str) -> Markup:
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", class_=class_)


def _short(name: str) -> str:
    return name if len(name) <= 11 else name[:10] + "…"
