"""Points with their names beside them, placed so that they can be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from credax.report.layers import Layer
from credax.report.markup import Markup, element
from credax.report.svg import Frame

_LETTER, _LINE, _RADIUS = 6.3, 13.0, 3.2
# Beside, above and below the point, then farther away: across, down and which end is anchored.
_OFFSETS = (
    (7, 4, "start"),
    (-7, 4, "end"),
    (0, -8, "middle"),
    (0, 17, "middle"),
    *((7 * side, down, end) for down in (-7, 15) for side, end in ((1, "start"), (-1, "end"))),
    *((7 * side, down, end) for down in (-19, 27) for side, end in ((1, "start"), (-1, "end"))),
)
_START = {"start": 0.0, "middle": 0.5, "end": 1.0}


class Place(NamedTuple):
    """Where a name stands from its point, in units of the drawing, and which end is there."""

    across: float
    down: float
    anchor: str


@dataclass(frozen=True, eq=False)
class NamedPoints(Layer):
    """Discs, each with a name beside it."""

    x: Any
    y: Any
    names: Sequence[str]

    def svg(self, frame: Frame) -> list[Markup]:
        """The discs, and the names where they cover nothing."""
        across, down = frame.at(np.asarray(self.x, float), np.asarray(self.y, float))
        texts = [
            element(
                "text",
                name,
                x=f"{a + place.across:.1f}",
                y=f"{b + place.down:.1f}",
                class_="label",
                text_anchor=place.anchor,
            )
            for a, b, name, place in zip(across, down, self.names, self.places(frame), strict=True)
        ]
        return [frame.points(self.x, self.y, "point", _RADIUS), *texts]

    def places(self, frame: Frame) -> list[Place]:
        """For every name the first place that covers no point and no other name, in the frame."""
        across, down = frame.at(np.asarray(self.x, float), np.asarray(self.y, float))
        taken = [(a - 4, b - 4, a + 4, b + 4) for a, b in zip(across, down, strict=True)]
        found = []
        for a, b, name in zip(across, down, self.names, strict=True):
            boxes = [_box(a, b, len(name), Place(*offset)) for offset in _OFFSETS]
            covered = [_covered(box, taken, frame) for box in boxes]
            best = int(np.argmin(covered))
            taken.append(boxes[best])
            found.append(Place(*_OFFSETS[best]))
        return found


def _box(x: float, y: float, letters: int, place: Place) -> tuple[float, float, float, float]:
    width = _LETTER * letters
    left = x + place.across - _START[place.anchor] * width
    bottom = y + place.down + 2
    return left, bottom - _LINE, left + width, bottom


def _covered(box, taken, frame: Frame) -> float:
    """The area that a box shares with others, and ten times that outside the frame."""
    left, top, right, bottom = box
    shared = sum(
        max(0.0, min(right, r) - max(left, x)) * max(0.0, min(bottom, b) - max(top, t))
        for x, t, r, b in taken
    )
    inside = max(0.0, min(right, frame.right + 8) - max(left, frame.left)) * max(
        0.0, min(bottom, frame.bottom) - max(top, frame.top)
    )
    return shared + 10 * ((right - left) * (bottom - top) - inside)
