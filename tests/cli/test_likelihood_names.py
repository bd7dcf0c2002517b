"""Likelihoods by name on a user's table: from a file of counts to predictions and a page."""

import csv

import numpy as np
import pytest

from credax.cli import main

pytestmark = pytest.mark.slow


@pytest.fixture
def counts(tmp_path, monkeypatch):
    """Counts of few distinct values, which a reader left to itself takes for classes."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    y = rng.poisson(np.exp(0.5 + 0.4 * x[:, 0]))
    lines = ["a,b,visits", *(f"{a:.4f},{b:.4f},{t}" for (a, b), t in zip(x, y, strict=True))]
    (tmp_path / "counts.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "new.csv").write_text("a,b\n0.1,0.2\n2,0\n")
    return tmp_path


@pytest.mark.parametrize("likelihood", ["poisson", "quantile", "student-t"])
def test_counts_from_a_table_to_a_page(counts, capsys, likelihood):
    fit = ["fit", "deep-ensemble", "--data", "counts.csv", "--likelihood", likelihood]
    fit += ["--members", "2", "--epochs", "10", "--out", "run", "--quiet"]
    assert main(fit) == 0
    assert main(["evaluate", "run"]) == 0
    shown = capsys.readouterr().out
    assert ("crps" in shown) == (likelihood != "quantile")
    assert "coverage_90" in shown
    assert main(["predict", "run", "new.csv", "--out", "out.csv"]) == 0
    rows = list(csv.DictReader((counts / "out.csv").read_text().splitlines()))
    low, high = (np.array([float(row[name]) for row in rows]) for name in ("low_90", "high_90"))
    assert (low <= high).all()
    if likelihood == "poisson":
        np.testing.assert_array_equal([low, high], np.round([low, high]))
    assert main(["report", "run"]) == 0
    page = (counts / "run" / "report.html").read_text()
    assert "Do the intervals cover as often as they should?" in page
    assert "nan" not in page.lower().split("<style")[0]
