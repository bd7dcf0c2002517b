"""Pictures of a user's own: any size and colour in, bytes of one shape out."""

import io
import os
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import UInt8

from credax.data.images import MOST_PIXELS, WHITE
from credax.errors import DamagedFile, InputError, MissingExtra
from credax.reading import check_settings, damage, first_line, open_regular, read_bytes

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".bmp")
FORMATS = ("PNG", "JPEG", "WEBP", "BMP")
MOST_FILE = 2**28
"""Bytes of one picture's file."""
_GREY = ("1", "L", "LA", "I", "I;16", "I;16B", "I;16L")
_NOT_A_PICTURE = "is not a readable picture"
_AT_ONCE = 1024
_ORIENTATION = 0x0112
# What makes a picture upright, by the orientation that its EXIF data tells.
_TURNS = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE"}
_TURNS |= {6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90"}
_WIDE = 257  # 65535 / 255: what one step of 8 bits is in 16


class Header(NamedTuple):
    """What the first bytes of a picture's file say, after turning it upright."""

    height: int
    width: int
    grey: bool


class Unreadable(NamedTuple):
    """A file that is no picture, and why."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path} ({self.reason})"


class Read(NamedTuple):
    """Pictures that could be read, their files, and name and reason of each that could not."""

    x: UInt8[np.ndarray, "rows height width channels"]
    paths: list[Path]
    damaged: list[str]


@dataclass(frozen=True)
class Pictures:
    """How pictures become inputs: turned upright as their EXIF says, made 8 bits per colour, laid
    on white where they are transparent, made grey or red-green-blue, cut around the centre to the
    inputs' ratio of sides, and scaled by bilinear interpolation.
    """

    height: int
    width: int
    channels: int
    count: int = 0
    left_out: int = 0

    def read(self, paths: Sequence[Path], out: np.ndarray | None = None) -> Read:
        """All pictures, read by several threads at once; those that cannot be read are left out.

        ``out`` is where to put them, in memory by default; the rows that are returned are its
        first.
        """
        shape = (len(paths), self.height, self.width, self.channels)
        x = np.empty(shape, np.uint8) if out is None else out
        kept, damaged = [], []
        for path, found in zip(paths, in_threads(self._read_one, paths), strict=True):
            if isinstance(found, Unreadable):
                damaged.append(str(found))
            else:
                x[len(kept)] = found
                kept.append(path)
        return Read(x[: len(kept)], kept, damaged)

    def _read_one(self, path: Path) -> np.ndarray | Unreadable:
        try:
            return self.decode(read_bytes(path, MOST_FILE), str(path))
        except InputError as error:
            return _unreadable(path, error)

    def decode(self, contents: bytes, where: str) -> UInt8[np.ndarray, "height width channels"]:
        """One picture from the bytes of its file."""
        with damage(where, "save it again", problem=_NOT_A_PICTURE):
            with pillow().open(io.BytesIO(contents), formats=FORMATS) as picture:
                _check_pixels(picture)
                # JPEG can be decoded at a half or a quarter: enough where it is made far smaller.
                longest = 4 * max(self.height, self.width)
                picture.draft(None, (longest, longest))
                pixels = self._scaled(_eight_bits(_upright(picture)))
            return np.asarray(pixels, np.uint8).reshape(self.height, self.width, self.channels)

    def _scaled(self, picture: Any) -> Any:
        picture = _on_white(picture).convert("L" if self.channels == 1 else "RGB")
        width, height = picture.size
        scale = min(width / self.width, height / self.height)
        across, down = scale * self.width, scale * self.height
        left, top = (width - across) / 2, (height - down) / 2
        box = (left, top, min(left + across, width), min(top + down, height))
        bilinear = pillow().Resampling.BILINEAR
        return picture.resize((self.width, self.height), bilinear, box)

    def described(self) -> list[tuple[str, str, str, str]]:
        """One line: what pictures become, and how many were left out."""
        colours = "grey" if self.channels == 1 else "red, green, blue"
        become = f"{self.height} by {self.width}, {colours}; cut around the centre, bilinear"
        note = f"{self.left_out} left out: they cannot be read" if self.left_out else ""
        return [("pictures", f"{self.count} files", become, note)]

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": "pictures", **asdict(self)}

    @classmethod
    def from_json(cls, content: dict[str, Any], where: Any, shape: tuple[int, ...]) -> "Pictures":
        """What `to_json` gave, for inputs of this shape."""
        values: Any = {name: value for name, value in content.items() if name != "kind"}
        check_settings(cls, values, where)
        made = cls(**values)
        if (made.height, made.width, made.channels) != tuple(shape) or made.channels not in (1, 3):
            raise DamagedFile(
                f"{where} describes pictures of another shape than {shape}; restore it"
            )
        return made


def read_header(path: Path) -> Header | Unreadable:
    """Size and colour of a picture from the first bytes of its file, or what is wrong with it."""
    problem = damage(path, "save it again", problem=_NOT_A_PICTURE)
    try:
        with open_regular(path) as file, problem, pillow().open(file, formats=FORMATS) as picture:
            _check_pixels(picture)
            sideways = _orientation(picture) >= 5
            width, height = picture.size[::-1] if sideways else picture.size
            return Header(height, width, picture.mode in _GREY)
    except InputError as error:
        return _unreadable(path, error)


def in_threads(function: Any, items: Sequence[Any]) -> Iterator[Any]:
    """What a function gives for each item, in order, computed by as many threads as processors."""
    pillow()
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for start in range(0, len(items), _AT_ONCE):
            with warnings.catch_warnings():
                # Pillow warns of metadata that it reads around; unreadable pixels are errors.
                warnings.simplefilter("ignore")
                found = list(pool.map(function, items[start : start + _AT_ONCE]))
            yield from found


def _unreadable(path: Path, error: InputError) -> Unreadable:
    cause = error.__cause__
    if type(cause).__name__ == "UnidentifiedImageError":
        return Unreadable(path, "no PNG, JPEG, WebP or BMP file")
    return Unreadable(path, first_line(cause if isinstance(cause, Exception) else error))


def is_picture(name: str) -> bool:
    """Whether a file is a picture by the ending of its name; hidden files are not."""
    return name.lower().endswith(ENDINGS) and not name.startswith(".")


def sentence(damaged: Sequence[str], total: int) -> str:
    """How many pictures could not be read, and the first of them."""
    more = f" (and {len(damaged) - 3} more)" if len(damaged) > 3 else ""
    return (
        f"{len(damaged)} of {total} pictures are left out because they cannot be read: "
        f"{', '.join(damaged[:3])}{more}"
    )


def pillow() -> Any:
    """The package that reads pictures, or an error that says what to install."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra("pillow", "data", "reading pictures") from None
    return Image


def _check_pixels(picture: Any) -> None:
    if picture.width * picture.height > MOST_PIXELS:
        raise ValueError(f"it has {picture.width} by {picture.height} pixels")


def _orientation(picture: Any) -> int:
    """How a camera was held, from 1 to 8; damaged EXIF data does not damage the picture."""
    try:
        found = picture.getexif().get(_ORIENTATION, 1)
    except Exception:
        return 1
    return found if found in _TURNS else 1


def _upright(picture: Any) -> Any:
    turn = _TURNS.get(_orientation(picture))
    return picture if turn is None else picture.transpose(pillow().Transpose[turn])


def _eight_bits(picture: Any) -> Any:
    """Grey of 16 bits as 8: Pillow itself would cut off what is above 255."""
    if not picture.mode.startswith(("I", "F")):
        return picture
    wide = np.clip(np.asarray(picture, np.float64), 0, WHITE * _WIDE)
    return pillow().fromarray(np.rint(wide / _WIDE).astype(np.uint8))


def _on_white(picture: Any) -> Any:
    if "A" not in picture.getbands() and "transparency" not in picture.info:
        return picture
    colours = picture.convert("RGBA")
    white = pillow().new("RGBA", colours.size, (WHITE,) * 4)
    return pillow().alpha_composite(white, colours)
