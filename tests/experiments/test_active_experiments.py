"""Experiments of active learning: published tables, settings, and whole commands at test scale."""

import csv
import json

import numpy as np
import pytest

from credax import active, experiments
from credax.cli import main
from credax.experiments.active_loops import Buying, dropout_network
from credax.experiments.active_mnist import PAPER, RERUN
from credax.experiments.active_repeated_mnist import FIVE_TIMES, TWICE

NAMES = ("active-mnist", "active-repeated-mnist", "active-snapshots")


@pytest.mark.parametrize(
    ("table", "label", "column", "value"),
    [
        (PAPER, "BALD", 0, 145),
        (PAPER, "Random", 1, 835),
        (RERUN, "Variation ratios", 1, 283),
        (TWICE, "BatchBALD", 1, 245),
        (FIVE_TIMES, "Random", 0, 155),
        (FIVE_TIMES, "BALD", 2, 0.891),
    ],
)
def test_tables_are_as_printed(table, label, column, value):
    assert table.rows[label][column].mean == pytest.approx(value)


def test_published_rows_have_the_labels_of_arms():
    """A row under another label would stand beside nothing."""
    for name, tables in zip(NAMES, ((PAPER, RERUN), (TWICE, FIVE_TIMES)), strict=False):
        for scale in experiments.get(name).scales.values():
            labels = {arm.label for arm in scale.arms}
            assert all({*table.rows} <= labels for table in tables)


@pytest.mark.parametrize("name", NAMES)
def test_every_arm_has_an_acquisition_and_fits_the_pool(name):
    """An arm without one would fail after the arms before it were trained."""
    for scale in experiments.get(name).scales.values():
        settings: Buying = scale.evaluation
        for arm in scale.arms:
            active.get(settings.acquisitions.get(arm.name, arm.name))
        assert {*settings.continued} <= {arm.name for arm in scale.arms}
        pool = scale.data.train_rows * settings.repeat
        assert settings.labels() <= (settings.scoring_pool or pool)
        json.dumps(dict(settings.acquisitions))


def test_the_published_snapshots_are_five():
    """Jung et al.: ResNet-18 on CIFAR-10, 200 epochs, networks after 120, 140, ..., 200."""
    scale = experiments.get("active-snapshots").scales["paper"]
    method = next(arm.method for arm in scale.arms if arm.name == "snapshot")
    steps = scale.training.steps_per_epoch(5000)
    captures = np.array(method.captures(scale.training.epochs * steps)) / steps
    np.testing.assert_allclose(captures, [120, 140, 160, 180, 200], atol=0.5)


def test_the_network_of_mc_dropout():
    """Published: two convolutions of 5x5 with 32 and 64 channels, 128 units, dropout of a half."""
    names = [type(layer).__name__ for layer in dropout_network(10).layers]
    assert names.count("Dropout") == 2
    assert names.index("Dropout") > max(i for i, n in enumerate(names) if n == "Conv")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_whole_command(name, tmp_path, capsys):
    """Runs, writes a table and a curve, and reads the finished loops the second time."""
    arguments = ["reproduce", name, "--scale", "test", "--out", str(tmp_path), "--quiet"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "Labels for 90%" in printed
    with open(tmp_path / "results.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["metric"] == "accuracy"]
    scale = experiments.get(name).scales["test"]
    assert {row["method"] for row in rows} == {arm.label for arm in scale.arms}
    assert (tmp_path / "figures" / "learning-curves.svg").exists()
    folders = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert {f"{arm.name}_0" for arm in scale.arms} <= folders
    before = (tmp_path / "results.csv").read_bytes()
    assert main(arguments) == 0
    capsys.readouterr()
    assert (tmp_path / "results.csv").read_bytes() == before
    assert all(0 <= float(row["value"]) <= 1 for row in rows)
