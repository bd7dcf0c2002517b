"""Diversity of the members of a repulsive ensemble, and where their input gradients point."""

import numpy as np

from credax.report.colours import signed_colours
from credax.report.curves import curves_of, figure_of
from credax.report.markup import Markup, element
from credax.report.numbers import fixed, short
from credax.report.parts import charts, legend, numbers, panel, panels, section
from credax.report.png import data_uri, to_pixels, value_range
from credax.report.result import Comparison, Result
from credax.report.svg import drawing

_MEASURES = {
    "gradient_cosine": "cosine of members' input gradients",
    "gradient_distance": "squared distance of unit input gradients",
    "force_ratio": "repulsive force over gradient of the loss",
}
_MEMBERS = 5
_ROWS = 12


def repulsion_section(comparison: Comparison) -> Markup | None:
    """Diversity and force by epoch, and the last kernel matrix between members."""
    found = {
        name: curves
        for name in _MEASURES
        if (curves := curves_of(comparison, name, f"member_{name}"))
    }
    if not found:
        return None
    shown = dict.fromkeys(index for curves in found.values() for index in curves)
    names = {index: comparison.methods[index] for index in sorted(shown)}
    kernels = {m: k for m in names.values() if (k := _last_kernel(comparison.of(m))) is not None}
    rows = [
        [f"{names[i]}, {_MEASURES[name]}", *[short(float(v)) for v in (c.mean[0], c.mean[-1])]]
        for name, curves in found.items()
        for i, c in curves.items()
    ]
    return section(
        "repulsion",
        "How diverse are the members?",
        "Diversity of the members' input gradients and strength of the repulsion per epoch. A "
        "lower cosine and a larger distance mean more diverse members; the ratio compares the "
        "repulsive force with the gradient of the loss. The matrix is the kernel between "
        "members at the end of training, 1 for identical members.",
        charts([figure_of(_MEASURES[n], curves) for n, curves in found.items()], legend(names)),
        panels(panel(f"{m}: kernel", _kernel(m, k)) for m, k in kernels.items())
        if kernels
        else None,
        numbers("Numbers: at the first and the last epoch", ["", "first", "last"], rows),
        numbers(
            "Numbers: the last kernel matrix",
            ["method and member", *[str(j) for j in range(max(map(len, kernels.values())))]],
            [
                [f"{m}, {i}", *[fixed(float(v), 3) for v in row]]
                for m, kernel in kernels.items()
                for i, row in enumerate(kernel)
            ],
        )
        if kernels
        else None,
    )


def saliency_section(comparison: Comparison) -> Markup | None:
    """The members' input gradients at a few test images, method by method."""
    shown = {m: g for m in comparison.methods if (g := _gradients(comparison.of(m))) is not None}
    inputs = comparison.inputs
    if not shown or inputs is None:
        return None
    count = min(gradients.shape[1] for gradients in shown.values())
    low, high = value_range(inputs)
    blocks = []
    for row in range(count):
        tiles = [_tile(to_pixels(inputs[row], low, high), f"test image {row}", "input")]
        for method, gradients in shown.items():
            for member in range(min(_MEMBERS, len(gradients))):
                map_ = gradients[member, row].sum(-1)
                pixels = signed_colours(map_, float(np.abs(map_).max()))
                caption = f"{method}, {member}"
                tiles.append(_tile(pixels, f"gradient of {method}, member {member}", caption))
        blocks.append(element("ul", tiles, class_="gallery tight"))
    return section(
        "saliency",
        "Which pixels does each member use?",
        "Input gradients (saliency maps) of the true class's logit at a few test images, one tile "
        "per member: red pixels raise the logit, blue ones lower it, each tile scaled by its own "
        "largest entry.",
        blocks,
        numbers(
            "Numbers: mean cosine between members' gradients at these images",
            ["method", *[f"image {row}" for row in range(count)]],
            [[m, *[fixed(v, 3) for v in _cosines(g[:, :count])]] for m, g in shown.items()],
        ),
    )


def _gradients(results: list[Result]) -> np.ndarray | None:
    """Input gradients of the first seed that has several members' of them."""
    found = [r.gradients for r in results if r.gradients is not None and len(r.gradients) > 1]
    return found[0] if found else None


def _cosines(gradients: np.ndarray) -> list[float]:
    """Mean over pairs of members, image by image."""
    flat = gradients.reshape(*gradients.shape[:2], -1).astype(float)
    unit = flat / np.maximum(np.linalg.norm(flat, axis=-1, keepdims=True), 1e-30)
    gram = np.einsum("ibd,jbd->bij", unit, unit)
    pairs = np.triu_indices(len(gradients), 1)
    return [float(matrix[pairs].mean()) for matrix in gram]


def _last_kernel(results: list[Result]) -> np.ndarray | None:
    found = [line["kernel"] for r in results for line in r.history[-1:] if line.get("kernel")]
    return np.asarray(found[0], float) if found and len(found[0]) <= _ROWS else None


def _kernel(method: str, kernel: np.ndarray) -> Markup:
    side = 200 / len(kernel)
    parts = []
    for i, row in enumerate(kernel):
        parts.append(
            element("text", str(i), x="20", y=f"{30 + (i + 0.6) * side:.1f}", class_="tick end")
        )
        parts.append(
            element("text", str(i), x=f"{26 + (i + 0.5) * side:.1f}", y="22", class_="tick middle")
        )
        for j, value in enumerate(row):
            parts.append(
                element(
                    "rect",
                    x=f"{26 + j * side:.1f}",
                    y=f"{28 + i * side:.1f}",
                    width=f"{side - 1:.1f}",
                    height=f"{side - 1:.1f}",
                    class_="cell right",
                    style=f"--share: {min(max(float(value), 0), 1):.3f}",
                )
            )
    words = f"Kernel between the members of {method} at the end of training"
    return drawing(words, parts, width=300, height=236)


def _tile(pixels: np.ndarray, words: str, caption: str) -> Markup:
    image = element("img", src=data_uri(pixels), alt=words, width=72, height=72)
    return element("li", element("figure", image, element("figcaption", caption)))
