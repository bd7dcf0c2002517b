"""Pictures to be labelled, side by side on one self-contained page."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from credax.report.markup import Markup, element
from credax.report.page import document
from credax.report.png import data_uri, to_pixels, value_range

SIZE = 128
STYLE = """
.contact { display: flex; flex-wrap: wrap; gap: 1rem; list-style: none; padding: 0; }
.contact li { width: 11rem; }
.contact img { image-rendering: auto; width: 8rem; height: 8rem; object-fit: contain; }
.contact figcaption span { display: block; font-size: 0.8rem; overflow-wrap: anywhere; }
.contact figure { margin: 0; }
"""


class Shown(NamedTuple):
    """One picture: its pixels, its number in bold, and lines below it."""

    pixels: np.ndarray
    name: str
    lines: Sequence[str]


def contact_sheet(title: str, lead: str, pictures: Sequence[Shown]) -> str:
    """The page as text."""
    body = element(
        "main",
        element("header", element("h1", title), element("p", lead)),
        contact_list(pictures),
        element("footer", "Written by credax. This file is complete: no network, no scripts."),
    )
    return document(title, body, STYLE)


def contact_list(pictures: Sequence[Shown]) -> Markup:
    """The pictures as a list of figures."""
    if not pictures:
        return element("p", "none", class_="note")
    low, high = value_range(np.stack([each.pixels for each in pictures]))
    items = []
    for each in pictures:
        pixels = to_pixels(each.pixels, low, high)
        image = element("img", src=data_uri(pixels), alt=each.name, width=SIZE, height=SIZE)
        words = [element("strong", each.name), [element("span", line) for line in each.lines]]
        items.append(element("li", element("figure", image, element("figcaption", words))))
    return element("ul", items, class_="contact")
