"""A table of results for a paper: LaTeX with booktabs."""

from pathlib import Path

from credax.files import write_atomic
from credax.report.table import Cell, Table

_SPECIAL = {c: rf"\{c}" for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "²": r"$^2$",
    "±": r"$\pm$",
}
_ARROWS = {"↑": r"$\uparrow$", "↓": r"$\downarrow$", "→": r"$\to$"}


def latex(table: Table) -> str:
    """The table of the clean test rows as a ``tabular``; the best of a column in bold.

    Needs ``\\usepackage{booktabs}``. Cells are mean and standard error over seeds.
    """
    shown = table.part() or table
    head = " & ".join(["method", *(_heading(c.label, c.arrow) for c in shown.columns)])
    rows = [
        " & ".join([escape(method), *(_cell(shown, i, j) for j in range(len(shown.columns)))])
        for i, method in enumerate(shown.methods)
    ]
    lines = [
        f"% {' '.join(table.title.split())}: {table.data}. Mean and standard error over seeds.",
        rf"\begin{{tabular}}{{l{'r' * len(shown.columns)}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
        *(rf"{row} \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def write_latex(table: Table, path: str | Path) -> None:
    """Write `latex` of a table."""
    write_atomic(path, latex(table))


def escape(text: str) -> str:
    """Text with LaTeX's special characters escaped.

    >>> print(escape("swag_50%"))
    swag\\_50\\%
    """
    return "".join(_SPECIAL.get(character, character) for character in text)


def _heading(label: str, arrow: str) -> str:
    mark = _ARROWS.get(arrow[:1], "") + arrow[1:] if arrow else ""
    return f"{escape(label)} {mark}".strip()


def _cell(table: Table, row: int, column: int) -> str:
    cell: Cell | None = table.cells[row][column]
    if cell is None:
        return "--"
    mean, error = table.text(row, column)
    mean = mean.replace("−", "-")
    number = rf"\mathbf{{{mean}}}" if cell.best else mean
    return f"${number} \\pm {error}$" if error else f"${number}$"
