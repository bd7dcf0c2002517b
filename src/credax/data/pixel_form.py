"""What is known of a data set with a target at every pixel."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from credax.data.pictures import Pictures
from credax.errors import DamagedFile, InputError
from credax.reading import check_record
from credax.reading.records import COUNT, NUMBER, TEXT, WHOLE, list_of, maybe

IGNORE = 255
"""The label of pixels that do not count, as in most published sets."""
_FIELDS = {
    "kind": TEXT,
    "height": COUNT,
    "width": COUNT,
    "channels": COUNT,
    "ignore_label": maybe(WHOLE),
    "steps": NUMBER,
    "colours": list_of(list_of(WHOLE, 3)),
    "source": TEXT,
    "count": WHOLE,
    "left_out": WHOLE,
}


@dataclass(frozen=True)
class PixelForm:
    """Pictures with a label or a number at every pixel.

    Pixels with ``ignore_label``, or NaN where targets are numbers, do not count. New pictures are
    cut and scaled as those of training were; their masks by the nearest pixel.
    """

    height: int
    width: int
    channels: int
    ignore_label: int | None = IGNORE
    steps: float = 256.0
    """Of depth in pictures of 16 bits: steps per unit; 0 of them is not known."""
    colours: tuple[tuple[int, int, int], ...] = ()
    """Of the classes in coloured masks; none where masks hold class numbers."""
    source: str = "generated"
    """In words, where pictures and targets come from."""
    count: int = 0
    left_out: int = 0

    @property
    def pictures(self) -> Pictures:
        """How pictures become inputs."""
        return Pictures(self.height, self.width, self.channels, self.count, self.left_out)

    def counts(self, y: np.ndarray) -> np.ndarray:
        """Which pixels of targets ``[rows, height, width]`` count."""
        y = np.asarray(y)
        if y.dtype.kind == "f":
            return np.isfinite(y)
        return np.ones(y.shape, bool) if self.ignore_label is None else y != self.ignore_label

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": "pixels", **asdict(self)}

    @classmethod
    def from_json(cls, content: Any, where: Any, shape: tuple[int, ...]) -> "PixelForm":
        """What `to_json` gave, for inputs of this shape."""
        check_record(content, _FIELDS, where)
        values = {name: value for name, value in content.items() if name != "kind"}
        values["colours"] = tuple(tuple(colour) for colour in values["colours"])
        made = cls(**values)
        if (made.height, made.width, made.channels) != tuple(shape) or not made.steps > 0:
            raise DamagedFile(f"{where} describes pixels that do not fit {shape}; restore it")
        return made

    def described(self) -> list[tuple[str, str, str, str]]:
        """One line: what a row is."""
        ignored = "NaN" if self.ignore_label is None else str(self.ignore_label)
        note = f"pixels with {ignored} do not count"
        note += f"; {self.left_out} left out: they cannot be read" if self.left_out else ""
        become = f"{self.height} by {self.width}, a target at every pixel"
        return [("rows", "pictures", f"{self.source}: {become}", note)]


def check_pixels(y: np.ndarray, form: PixelForm, classes: int | None, where: str) -> None:
    """Raise an error if targets are not one per pixel, or no pixel of them counts.

    ``classes`` is how many there are; None where targets are numbers.
    """
    size = (form.height, form.width)
    if y.shape[1:3] != size or y.ndim > 4 or (classes is not None and y.ndim != 3):
        raise InputError(
            f"{where} has shape {y.shape}; pictures are {size[0]} by {size[1]}, so give "
            f"[rows, {size[0]}, {size[1]}]"
        )
    counted = form.counts(y)
    if not counted.any():
        raise InputError(f"{where}: all pixels are ignored; give targets for some of them")
    if classes is None:
        return
    if y.dtype.kind not in "iu":
        raise InputError(f"{where} has type {y.dtype}; labels of pixels are integers")
    labels = y[counted]
    if labels.min() < 0 or labels.max() >= classes:
        row = int(np.argmax((counted & ((y < 0) | (y >= classes))).any((1, 2))))
        odd = y[row][counted[row] & ((y[row] < 0) | (y[row] >= classes))][0]
        raise InputError(
            f"{where}: picture {row} has the label {odd}, and there are {classes} classes (0 to "
            f"{classes - 1}); pixels to ignore have {form.ignore_label}"
        )
