"""What a person is asked: ``to_label.csv``, and copies of pictures with a contact sheet."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from credax.active.answers import ROW
from credax.cli.person_run import PersonRun
from credax.cli.predictions import as_csv
from credax.data.pictures import Pictures
from credax.data.tabular import read_frame
from credax.data.unlabelled import plain_label
from credax.errors import InputError
from credax.files import write_atomic
from credax.reading.regular import read_bytes
from credax.report.contact_sheet import Shown, contact_sheet
from credax.report.png import encode_png, to_pixels, value_range

TABLE, FOLDER = "to_label.csv", "to_label"
OWN = (ROW, "score", "why")


def write_questions(run: PersonRun) -> list[str]:
    """Write what is asked for now; a file that a person has begun to fill is never overwritten.

    Returns sentences for the terminal.
    """
    path = run.path / TABLE
    said = []
    if path.exists():
        found = _begun(path, run.target)
        if found is not None and set(found) == set((run.state.asked + 1).tolist()):
            return []
        told = {int(r) + 1: run.label_text(v) for r, v in _labels(run)}
        if found is None or any(label and told.get(row) != label for row, label in found.items()):
            aside = _aside(path)
            path.rename(aside)
            said.append(f"{path.name} held answers that were not told: it is now {aside.name}")
    write_atomic(path, as_csv(question_columns(run)))
    if isinstance(run.preparation, Pictures):
        _copy_pictures(run)
    return said


def question_columns(run: PersonRun) -> dict[str, np.ndarray]:
    """Row, its own cells, score, why, and an empty column for the label."""
    asked, cells = run.state.asked, run.kept["cells"]
    shown = {
        (f"kept_{name}" if name in (*OWN, run.target) else name): np.array(
            [texts[row] for row in asked], dtype=str
        )
        for name, texts in cells.items()
    }
    scores = [f"{s:.6g}" if np.isfinite(s) else "" for s in run.state.asked_scores]
    return {
        ROW: asked + 1,
        **shown,
        "score": np.array(scores, dtype=str),
        "why": np.array(run.standing.why, dtype=str),
        run.target: np.array([""] * len(asked), dtype=str),
    }


def _labels(run: PersonRun) -> Any:
    return zip(run.state.labelled.tolist(), run.state.labels.tolist(), strict=True)


def _begun(path: Path, target: str) -> dict[int, str] | None:
    """The rows of a table of questions and what was filled in; None where it cannot be read."""
    try:
        frame = read_frame(path, (ROW, target))
        rows, labels = frame[ROW].texts(), frame[target].texts()
        return {int(float(r)): plain_label(label) for r, label in zip(rows, labels, strict=True)}
    except (InputError, ValueError, OverflowError):
        return None


def _aside(path: Path) -> Path:
    number = 1
    while (other := path.with_name(f"{path.stem}_{number}{path.suffix}")).exists():
        number += 1
    return other


def _copy_pictures(run: PersonRun) -> None:
    """Copies of the asked pictures, named by their rows, and a page that shows them all."""
    place, names = run.path / FOLDER, run.kept["cells"]["picture"]
    shutil.rmtree(place, ignore_errors=True)
    source, asked = Path(run.kept["source"]), run.state.asked
    pixels = np.asarray(run.pool[asked]) if len(asked) else run.pool[:0]
    low, high = value_range(pixels) if len(asked) else (0, 255)
    shown = []
    for row, image, why in zip(asked, pixels, run.standing.why, strict=True):
        original = source / names[row]
        name = f"{row + 1:05d}_{Path(names[row]).name}"
        if original.is_file():
            write_atomic(place / name, read_bytes(original))
        else:  # the pool keeps what the network sees
            own = encode_png(to_pixels(image, low, high))
            write_atomic(place / Path(name).with_suffix(".png").name, own)
        shown.append(Shown(image, f"row {row + 1}", [names[row], *why.split("; ")]))
    lead = (
        f"{len(asked)} pictures to label: write each one's class into the column "
        f"{run.target!r} of {TABLE}, then run: credax active tell {run.path}"
    )
    page = contact_sheet(f"To label: {source.name}", lead, shown)
    write_atomic(place / "index.html", page)
