"""What was decided for a user's own data, as a table for the terminal."""

from typing import Any

from credax.data import Dataset

HEADER = ("column", "is", "becomes", "note")


def print_decisions(dataset: Dataset, console: Any, counted: bool = True) -> None:
    """Print what becomes of every column of a table, or of pictures; nothing for other data.

    With ``counted`` the title has the rows of every split.
    """
    if dataset.preparation is None:
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    rows = {"training": dataset.train, "validation": dataset.validation, "test": dataset.test}
    counts = ", ".join(f"{len(split)} {name}" for name, split in rows.items() if split is not None)
    table = Table(
        title=Text(f"{dataset.name}: {counts} rows" if counted else dataset.name),
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for name in HEADER:
        table.add_column(name, overflow="fold")
    for line in dataset.preparation.described():
        table.add_row(*map(Text, line))
    console.print(table)
