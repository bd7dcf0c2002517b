"""The test images that the last method was most and least certain of."""

from typing import NamedTuple

import numpy as np

from credax.report.markup import Markup, element
from credax.report.numbers import fixed
from credax.report.parts import numbers, section
from credax.report.png import data_uri, to_pixels, value_range
from credax.report.result import Comparison
from credax.report.rows import class_rows

SHOWN = 8


def pictures_section(comparison: Comparison) -> Markup | None:
    """Two rows of images, or nothing where the inputs are not images."""
    method = comparison.methods[-1]
    results = comparison.shown(method)
    inputs = comparison.inputs_for(results[0]) if results else None
    if inputs is None or not is_images(inputs):
        return None
    (facts,) = class_rows(results[:1])
    order = np.argsort(facts.total, kind="stable")
    most, least = order[:SHOWN], order[::-1][:SHOWN]
    rows = [
        Row(
            int(row),
            comparison.class_name(int(facts.y[row])),
            comparison.class_name(int(facts.label[row])),
            fixed(float(facts.confidence[row]), 3),
            fixed(float(facts.epistemic[row]), 4),
        )
        for row in (*most, *least)
    ]
    low, high = value_range(inputs)
    drawn = [_picture(to_pixels(inputs[row.number], low, high), row) for row in rows]
    return section(
        "pictures",
        "Which images are most and least certain?",
        f"Test images with the lowest and the highest predictive entropy under {method}, seed "
        f"{results[0].seed}: the predicted class (✗ where it is wrong), the true class, the "
        "probability of the predicted class and the epistemic uncertainty in nats.",
        _gallery("Most certain", drawn[: len(most)]),
        _gallery("Least certain", drawn[len(most) :]),
        numbers(
            "Numbers: the same images as a table",
            ["test row", "true class", "predicted class", "probability", "epistemic (nats)"],
            [[r.number, r.true, r.predicted, r.probability, r.epistemic] for r in rows],
        ),
    )


class Row(NamedTuple):
    """What is printed below an image."""

    number: int
    true: str
    predicted: str
    probability: str
    epistemic: str


def _picture(pixels: np.ndarray, row: Row) -> Markup:
    wrong = row.predicted != row.true
    words = f"test row {row.number}, true class {row.true}, predicted {row.predicted}"
    caption = [
        element("strong", f"✗ {row.predicted}" if wrong else row.predicted),
        element("span", f"true {row.true}"),
        element("span", f"p = {row.probability}"),
        element("span", f"epistemic {row.epistemic}"),
    ]
    image = element("img", src=data_uri(pixels), alt=words, width=96, height=96)
    return element("li", element("figure", image, element("figcaption", caption)))


def _gallery(heading: str, pictures: list[Markup]) -> Markup:
    return element("div", element("h3", heading), element("ul", pictures, class_="gallery"))


def is_images(inputs: np.ndarray) -> bool:
    """Whether the inputs are ``[rows, height, width, channels]`` with 1, 3 or 4 channels."""
    return (
        inputs.ndim == 4
        and inputs.shape[-1] in (1, 3, 4)
        and 0 not in inputs.shape
        and np.issubdtype(inputs.dtype, np.number)
    )
