"""Figures as files: the format checked, the same bytes for the same figure."""

import io
from pathlib import Path
from typing import Any

from credax.errors import unknown
from credax.files import write_atomic
from credax.plot.axes import matplotlib

FORMATS = ("pdf", "png", "svg")
# Files carry the time they were written unless told not to.
_UNDATED = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
_ABOUT = {"pdf": "Subject", "svg": "Description", "png": "Description"}


def check_format(kind: str) -> str:
    """The format, or an error that names those there are."""
    if kind not in FORMATS:
        raise unknown("format of figures", kind, FORMATS)
    return kind


def save(figure: Any, path: Path, about: str = "") -> Path:
    """Write a matplotlib figure in the format of its ending; ``about`` is kept in the file."""
    kind = check_format(path.suffix[1:])
    metadata = {**_UNDATED[kind], "Title": path.stem, **({_ABOUT[kind]: about} if about else {})}
    content = io.BytesIO()
    # Letters as letters (type 42): journals refuse the default fonts, and text can be searched.
    with matplotlib().rc_context({"pdf.fonttype": 42, "svg.hashsalt": path.stem}):
        figure.savefig(content, format=kind, bbox_inches="tight", dpi=150, metadata=metadata)
    write_atomic(path, content.getvalue())
    return path
