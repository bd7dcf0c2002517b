"""The cells of the documentation run, with or without Sphinx."""

import sys

import pytest
from docs_text import PAGES, ROOT, cells

pytestmark = pytest.mark.slow

EXECUTED = [path for path in PAGES if cells(path)]


@pytest.mark.parametrize("path", EXECUTED, ids=lambda path: str(path.relative_to(ROOT / "docs")))
def test_cells_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs" / "_extensions"), *sys.path])
    names = {"__name__": "__main__"}
    try:
        for cell in cells(path):
            exec(compile(cell, str(path), "exec"), names)
    finally:
        if "matplotlib.pyplot" in sys.modules:  # figures of many pages would stay open
            sys.modules["matplotlib.pyplot"].close("all")
