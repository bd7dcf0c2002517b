"""Pieces that every section of the page is made of."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from credax.report.markup import Markup, element
from credax.report.svg import swatch


def section(name: str, heading: str, reading: Any, *body: Any) -> Markup:
    """A section with a heading, one or two sentences on how to read it, and its figures."""
    return element(
        "section",
        element("h2", heading, id=f"{name}-heading"),
        element("p", reading, class_="reading"),
        body,
        id=name,
        aria_labelledby=f"{name}-heading",
    )


def panel(name: str, drawing: Markup, detail: str = "") -> Markup:
    """One figure of a row of equal ones, its name above."""
    small = element("small", detail) if detail else None
    return element("figure", element("figcaption", name, small), drawing, class_="panel")


def panels(figures: Iterable[Markup]) -> Markup:
    """Figures side by side on a desk, below each other on a phone."""
    figures = list(figures)
    return element("div", figures, class_="panels", style=f"--panels: {len(figures)}")


def charts(figures: Iterable[Markup], key: Markup) -> Markup:
    """Larger figures that share one legend."""
    figures = list(figures)
    layout = "keyed beside" if len(figures) == 1 else "keyed"
    return element("div", element("div", figures, class_="charts"), key, class_=layout)


def legend(names: Mapping[int, str], *extra: Markup) -> Markup:
    """Which line belongs to which method: names by the number of their series."""
    items = [element("li", swatch(i), element("span", name)) for i, name in names.items()]
    return element("ul", items, extra, class_="legend")


def key(*entries: Markup) -> Markup:
    """A legend in one row, for what all panels share."""
    return element("ul", entries, class_="legend across")


def key_line(class_: str, text: str) -> Markup:
    """A legend entry for a line that is not a method's."""
    return _key(element("path", class_=class_, d="M1 8H39"), text)


def key_area(class_: str, text: str) -> Markup:
    """A legend entry for a filled area."""
    return _key(element("path", class_=class_, d="M4 2H36V14H4Z"), text)


def key_dot(class_: str, text: str) -> Markup:
    """A legend entry for a point."""
    return _key(element("circle", class_=class_, cx=20, cy=8, r=3), text)


def _key(mark: Markup, text: str) -> Markup:
    box = element("svg", mark, viewBox="0 0 40 16", class_="swatch", aria_hidden="true")
    return element("li", box, element("span", text))


def numbers(caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Markup:
    """A figure's numbers as a table that opens on demand."""
    return element(
        "details",
        element("summary", caption),
        plain_table(header, rows, caption.removeprefix("Numbers: ")),
        class_="numbers",
    )


def plain_table(
    header: Sequence[str], rows: Iterable[Sequence[Any]], name: str = "numbers"
) -> Markup:
    """A table whose first column names its rows; wide ones scroll inside the page."""
    head = element("tr", [element("th", text, scope="col") for text in header])
    body = [
        element("tr", element("th", row[0], scope="row"), [element("td", c) for c in row[1:]])
        for row in rows
    ]
    table = element("table", element("thead", head), element("tbody", body))
    return scroll(table, name)


def scroll(table: Markup, name: str) -> Markup:
    """A box in which a wide table scrolls, also by keyboard."""
    return element(
        "div", table, class_="scroll", tabindex="0", role="region", aria_label=f"Table: {name}"
    )
