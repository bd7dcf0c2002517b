"""The experiments of equivariance at their smallest scale, as a person types them."""

import csv
import math

import numpy as np
import pytest

from credax.cli import main

pytestmark = pytest.mark.slow

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


def test_the_floor_of_twins_has_no_bias():
    """Two pairs: the product of their differences; many: the squared mean within 4.5 errors."""
    from credax.experiments.equivariance_twins import _floor, _product

    rng = np.random.default_rng(0)
    two = rng.standard_normal((2, 5, 3))
    assert _product(two) == pytest.approx(np.mean(np.sum(two[0] * two[1], axis=-1)))
    shift = 0.2 * rng.standard_normal((5, 3))
    found = _floor(shift + rng.standard_normal((400, 5, 3)))
    wanted = np.mean(np.sum(shift**2, axis=-1))
    assert abs(found.level - wanted) < 4.5 * found.error
    assert abs(_floor(rng.standard_normal((400, 5, 3))).level) < 4.5 * found.error
    assert found.error < wanted / 3  # so that a floor differs from none
