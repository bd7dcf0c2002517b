"""A user's own rows of which few have labels: a table with empty cells, a folder of pictures."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from credax.data.cells import is_number
from credax.data.columns import Columns
from credax.data.dataset import Task
from credax.data.decide import decide_columns, kinds_of
from credax.data.folder import channel_units, picture_shape, pictures_below
from credax.data.frame import Frame, Series
from credax.data.parsing import NO_LABEL, plain_text
from credax.data.pictures import Header, Pictures, in_threads, is_picture, read_header, sentence
from credax.data.tabular import column_units, read_frame
from credax.errors import InputError
from credax.standardise import Standardise

FEW = 20
"""Whole numbers with at most so many different values are classes."""
UNLABELLED = ("unlabelled", "unlabeled")
"""Names of a subfolder whose pictures have no class."""


@dataclass(frozen=True)
class Unlabelled:
    """Inputs of all rows, their labels as text (empty where there is none), and what they are."""

    x: np.ndarray
    labels: tuple[str, ...]
    units: Standardise | None
    preparation: Columns | Pictures
    cells: Mapping[str, Sequence[str]]
    """What a person sees of each row: columns of text by name."""
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)


def read_unlabelled_table(
    path: str | os.PathLike[str],
    *,
    target: str,
    more: str | os.PathLike[str] | None = None,
    ignore: Sequence[str] = (),
    kinds: Mapping[str, str] | Sequence[str] = (),
    columns: Columns | None = None,
) -> Unlabelled:
    """A table whose column ``target`` is filled for some rows, or not there at all.

    ``more`` is another table with the same columns and the target, whose rows come after. What
    becomes of every column is decided on all rows, for no label is needed for it; or it is known
    already (``columns``).
    """
    frame, labels = _without_labels(read_frame(path), target)
    if more is not None:
        extra, known = _without_labels(read_frame(more), target)
        if not any(known):
            raise InputError(
                f"labels is {more}, which has no labels in a column {target!r}; name it so"
            )
        frame, labels = _joined(frame, extra), (*labels, *known)
    if columns is None:
        inputs = frame.without(ignore)
        every = np.ones(len(frame), bool)
        found = decide_columns(inputs, every, kinds_of(kinds))
        columns = Columns(found, (target,), tuple(ignore), "its labels, as they come")
    x = columns.encode(frame).x
    cells = {series.name: series.texts() for series in frame.series}
    return Unlabelled(x, labels, column_units(columns, Standardise.of(x)), columns, cells)


def read_unlabelled_pictures(folder: Path, size: int | None = None) -> Unlabelled:
    """Pictures of a folder: those in subfolders have their class, those beside them have none.

    A subfolder called ``unlabelled`` holds pictures without a class too.
    """
    found = _found(folder)
    if not found:
        raise InputError(f"{folder} holds no .png, .jpg, .webp or .bmp files")
    headers = list(in_threads(read_header, [path for path, _ in found]))
    sound = [header for header in headers if isinstance(header, Header)]
    if not sound:
        damaged = [str(header) for header in headers]
        raise InputError(f"{folder}: {sentence(damaged, len(found))}; none is left")
    pictures = Pictures(*picture_shape(sound, size))
    read = pictures.read([path for path, _ in found])
    labels = dict(found)
    notes = (sentence(read.damaged, len(found)),) if read.damaged else ()
    pictures = dataclasses.replace(pictures, count=len(read.paths), left_out=len(read.damaged))
    names = [str(path.relative_to(folder)) for path in read.paths]
    return Unlabelled(
        read.x,
        tuple(labels[path] for path in read.paths),
        channel_units(read.x),
        pictures,
        {"picture": names},
        notes,
    )


def task_of_labels(labels: Sequence[str], given: str = "auto") -> Task:
    """What labels are: as said, else text or few whole numbers classes, other numbers targets.

    >>> task_of_labels(["cat", "dog"]), task_of_labels(["1", "3"]), task_of_labels(["1.5", "2"])
    ('classification', 'classification', 'regression')
    """
    if given in ("classification", "regression"):
        return given
    if not all(map(is_number, labels)):
        return "classification"
    values = {float(label) for label in labels}
    whole = all(value == np.rint(value) for value in values) and len(values) <= FEW
    return "classification" if whole else "regression"


def plain_label(cell: str) -> str:
    """A label as it is compared: numbers in one form, nothing where the cell says so.

    >>> plain_label("2.0"), plain_label("n/a"), plain_label(" cat ")
    ('2', '', 'cat')
    """
    cell = cell.strip()
    return "" if cell.lower() in NO_LABEL else plain_text(cell)


def _without_labels(frame: Frame, target: str) -> tuple[Frame, tuple[str, ...]]:
    """The columns beside the target, and its labels, empty where there are none."""
    if target not in frame.names:
        return frame, ("",) * len(frame)
    series = frame[target]
    pairs = zip(series.texts(), series.missing, strict=True)
    typed = series.stored != "text"
    labels = tuple("" if typed and gone else plain_label(text) for text, gone in pairs)
    return frame.without([target]), labels


def _joined(first: Frame, second: Frame) -> Frame:
    """The rows of two tables with the same columns, those of the second after the first's."""
    absent = [name for name in first.names if name not in second.names]
    if absent:
        raise InputError(
            f"{second.where} has no column {absent[0]!r}, which {first.where} has; give both the "
            "same columns"
        )
    series = tuple(_after(first[name], second[name]) for name in first.names)
    return dataclasses.replace(first, series=series, places=[*first.places, *second.places])


def _after(first: Series, second: Series) -> Series:
    if first.stored != second.stored:
        first, second = _as_text(first), _as_text(second)
    values = np.concatenate([first.values, second.values])
    return Series(first.name, first.stored, values, np.r_[first.missing, second.missing])


def _as_text(series: Series) -> Series:
    texts = np.empty(len(series), object)
    texts[:] = series.texts()
    return Series(series.name, "text", texts, series.missing)


def _found(folder: Path) -> list[tuple[Path, str]]:
    """Files with their classes, empty where they have none, in the order of their names."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.name[0] == "." or path.name == "__MACOSX":
            continue
        if path.is_dir():
            label = "" if path.name.lower() in UNLABELLED else path.name
            found += [(each, label) for each in pictures_below(path)]
        elif is_picture(path.name):
            found.append((path, ""))
    return found
