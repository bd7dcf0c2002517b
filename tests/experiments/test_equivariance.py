"""The experiments of equivariance at their smallest scale, as a person types them."""

import csv
import math

import pytest

from credax.cli import main

NAMES = {
    "equivariance-toy": "steps.svg",
    "equivariance-ising": "spread.svg",
    "equivariance-cross-product": "error.svg",
    "equivariance-continuous": "angles.svg",
    "equivariance-rotated-fashion": "agreement.svg",
    "equivariance-histology": "agreement.svg",
}


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_leaves_tables_figures_and_a_page(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", name, "--scale", "test", "--out", "out", "--quiet"]) == 0
    rows = list(csv.DictReader((tmp_path / "out" / "results.csv").read_text().splitlines()))
    assert rows
    assert all(math.isfinite(float(row["value"])) for row in rows)
    assert (tmp_path / "out" / "figures" / NAMES[name]).exists()
    assert (tmp_path / "out" / "report.html").exists()
