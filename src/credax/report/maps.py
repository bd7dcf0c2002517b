"""Maps side by side: picture, truth, prediction, error and uncertainty at every pixel."""

import numpy as np

from credax.report.markup import Markup, element
from credax.report.numbers import fixed
from credax.report.parts import numbers, scroll, section
from credax.report.picture_grid import grey
from credax.report.png import data_uri, to_pixels, value_range
from credax.report.result import Comparison, Maps

_PALETTE = np.array(
    [
        (68, 84, 140),
        (222, 143, 62),
        (86, 160, 104),
        (190, 74, 72),
        (140, 110, 180),
        (150, 118, 92),
        (214, 130, 180),
        (120, 120, 120),
        (190, 186, 90),
        (90, 182, 200),
    ],
    np.uint8,
)
_IGNORED = np.array([20, 20, 20], np.uint8)
_HEADS = ("picture", "truth", "prediction", "error", "aleatoric", "epistemic")


def maps_section(comparison: Comparison) -> Markup | None:
    """The best and the worst pictures of the last method; nothing where rows have no pixels."""
    method = comparison.methods[-1]
    found = [result for result in comparison.of(method) if result.maps is not None]
    if not found or found[0].maps is None:
        return None
    maps = found[0].maps
    what = "share of wrong pixels" if maps.classes else "mean absolute error"
    unit = "nats" if maps.classes else "variance"
    scales = {name: _top(getattr(maps, name), maps.counted) for name in ("aleatoric", "epistemic")}
    rows = [_row(maps, position, scales) for position in range(len(maps.rows))]
    head = element("tr", [element("th", name, scope="col") for name in ("", *_HEADS)])
    table = element("table", element("thead", head), element("tbody", rows), class_="maps")
    colours = _legend(comparison, maps) if maps.classes else None
    return section(
        "maps",
        "Where is it wrong, and where does it know?",
        f"Test pictures with the least and the greatest {what} under {method}, seed "
        f"{found[0].seed}. Errors are white. Aleatoric uncertainty is what the members agree is "
        "noise, epistemic uncertainty where they disagree; white is the 99th percentile of these "
        f"pictures: {fixed(scales['aleatoric'], 3)} and {fixed(scales['epistemic'], 4)} ({unit}). "
        "Pixels that do not count are black in the truth and the error.",
        colours,
        scroll(table, "Maps"),
        numbers(
            "Numbers: the same pictures as a table",
            ["test picture", what, "mean aleatoric", "mean epistemic"],
            [
                [
                    int(number),
                    fixed(float(maps.errors[i]), 4),
                    fixed(float(maps.aleatoric[i].mean()), 4),
                    fixed(float(maps.epistemic[i].mean()), 5),
                ]
                for i, number in enumerate(maps.rows)
            ],
        ),
    )


def _row(maps: Maps, i: int, scales: dict[str, float]) -> Markup:
    low, high = value_range(maps.x)
    picture = to_pixels(maps.x[i], low, high)
    counted = maps.counted[i]
    if maps.classes:
        truth, predicted = _coloured(maps.y[i], counted), _coloured(maps.predicted[i])
        error = grey((maps.predicted[i] != maps.y[i]) & counted)
    else:
        known = maps.y[maps.counted]
        top = max(float(known.max()), 1e-12) if known.size else 1.0
        truth, predicted = grey(np.nan_to_num(maps.y[i]), top), grey(maps.predicted[i], top)
        gap = np.where(counted, np.abs(maps.predicted[i] - np.nan_to_num(maps.y[i])), 0)
        error = grey(gap, _top(gap, counted))
    uncertain = [grey(getattr(maps, name)[i], scales[name]) for name in scales]
    shown = (picture, truth, predicted, error, *uncertain)
    side = max(96, min(192, maps.x.shape[2]))
    tall = round(side * maps.x.shape[1] / maps.x.shape[2])
    images = [
        element("img", src=data_uri(p), alt=f"{name} of {maps.rows[i]}", width=side, height=tall)
        for name, p in zip(_HEADS, shown, strict=True)
    ]
    words = (f"picture {maps.rows[i]}", element("br"), f"error {fixed(float(maps.errors[i]), 3)}")
    return element("tr", element("th", *words, scope="row"), [element("td", one) for one in images])


def _coloured(labels: np.ndarray, counted: np.ndarray | None = None) -> np.ndarray:
    colours = _PALETTE[np.asarray(labels, int) % len(_PALETTE)]
    return colours if counted is None else np.where(counted[..., None], colours, _IGNORED)


def _top(values: np.ndarray, counted: np.ndarray) -> float:
    """The 99th percentile, so that single pixels do not darken the rest."""
    chosen = values[counted] if counted.any() else values
    return max(float(np.percentile(chosen, 99)), 1e-12)


def _legend(comparison: Comparison, maps: Maps) -> Markup:
    present = np.unique(np.concatenate([maps.predicted.ravel(), maps.y[maps.counted].ravel()]))
    items = []
    for label in present.astype(int):
        red, green, blue = _PALETTE[label % len(_PALETTE)]
        square = element("span", "■ ", style=f"color: rgb({red}, {green}, {blue})")
        items.append(element("span", square, comparison.class_name(int(label)), "  "))
    return element("p", items, class_="note")
