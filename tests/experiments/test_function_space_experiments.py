"""Bands on toys: coverage by hand, what is said of them, and the whole command."""

import csv
import math

import numpy as np
import pytest

from credax import experiments
from credax.cli import main
from credax.experiments import function_space_toys as toys
from credax.prediction import GaussianPrediction
from credax.report import Result


def test_coverage_and_width_by_hand():
    """A prediction that is right inside the data, and three deviations off outside."""
    x = np.linspace(-6, 6, 25)
    inside = toys.is_inside("toy/cubic-gap", x)
    assert inside.sum() == 10
    means = (x**3 + np.where(inside, 0.0, 6.0))[None, :, None]
    prediction = GaussianPrediction(means, np.full_like(means, 4.0))
    found = toys.measured("toy/cubic-gap", prediction, 25)
    assert found["cubic-gap:coverage_inside"] == 1
    assert found["cubic-gap:coverage_outside"] == 0
    assert found["cubic-gap:deviation_outside"] == pytest.approx(2)


def test_findings_compare_widths():
    metrics = {"inside": 1.0, "outside": 3.0}
    own = {f"sine:deviation_{k}": v for k, v in metrics.items()}
    own |= {"sine:coverage_inside": 0.9, "sine:coverage_outside": 0.5}
    lines = toys.findings([Result(toys.EXACT, 0, own)], ["toy/sine"])
    assert lines == (
        f"sine: {toys.EXACT} 3.0 times as wide outside the data as inside, covering 50% of the "
        "curve there.",
    )


def test_processes_take_the_kernel_of_the_toy():
    scale = experiments.get("function-space-toys").scales["cpu"]
    changed = {arm.name: toys.with_kernel(arm, "linear") for arm in scale.arms}
    assert changed["gp"].method.kernel == changed["functional-vi"].method.kernel == "linear"
    assert changed["deep-ensemble"].method == scale.arms[-1].method


@pytest.mark.slow
def test_the_toys_from_the_command_line(tmp_path, capsys):
    arms = "gp,functional-vi-linearised,mean-field-vi"
    words = ["reproduce", "function-space-toys", "--scale", "test", "--arms", arms, "--quiet"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert "times as wide" in capsys.readouterr().out
    rows = csv.DictReader((tmp_path / "results.csv").read_text().splitlines())
    values = {(row["method"], row["metric"]): float(row["value"]) for row in rows}
    assert all(math.isfinite(value) for value in values.values())
    assert (tmp_path / "figures" / "cubic-gap.svg").exists()
    assert values["Gaussian process", "sine:coverage_inside"] > 0.5
