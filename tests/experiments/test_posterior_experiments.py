"""One mode against many, and UCI regression: tables as printed, claims by hand, whole commands."""

import csv
import math

import numpy as np
import pytest

from credax import experiments
from credax.cli import main
from credax.experiments import uci
from credax.experiments.posterior_table import CIFAR100, TINY_IMAGENET, findings
from credax.report import Result

pytestmark = pytest.mark.slow


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def values(root):
    rows = csv.DictReader((root / "results.csv").read_text().splitlines())
    return {(row["method"], row["metric"]): float(row["value"]) for row in rows}


@pytest.mark.parametrize(
    ("table", "rows", "label", "metric", "value"),
    [
        (CIFAR100, 10, "Laplace, many modes", "ood_mutual_information", 98.5),
        (CIFAR100, 10, "viBNN, one mode", "fpr_at_ood_recall", 79.1),
        (TINY_IMAGENET, 8, "SWAG, many modes", "aupr_out", 96.5),
        (uci.published(("energy", "yacht"))[0], 6, "SWAG", "yacht:nll", 0.404),
        (uci.published(("energy", "yacht"))[1], 6, "Deep ensemble", "energy:rmse", 2.09),
    ],
)
def test_tables_are_as_printed(table, rows, label, metric, value):
    assert len(table.rows) == rows
    column = [measure.name for measure in table.measures].index(metric)
    assert table.rows[label][column].mean == pytest.approx(value)


def test_claims_compare_the_same_method_with_one_and_many_modes():
    names = ("nll", "accuracy", "ece", "auroc", "mutual_information", "mmd", "ns")
    one, many = dict.fromkeys(names, 0.5), dict.fromkeys(names, 0.25)
    results = [
        Result("SWAG, one mode", 0, one),
        Result("SWAG, many modes", 0, many),
        Result("Laplace, one mode", 0, one),
        Result("Laplace, many modes", 0, {**many, "nll": 0.75}),
        Result("Deep ensemble", 0, many),
        Result("Dropout, one mode", 0, one),
    ]
    lines = findings(results)
    assert lines[0].startswith("NLL is lower with many modes than with one in 1 of 2")
    assert lines[1].startswith("accuracy is higher with many modes than with one in 0 of 2")
    assert "Dropout" not in lines[0]
    assert findings(results[-2:]) == ()


def test_modes_share_the_networks_of_a_row():
    """Every row but SGHMC's burn-in holds equally many networks: 1 x 100 or 10 x 10."""
    for arm in experiments.get("posterior-table").scales["cpu"].arms:
        method = arm.method
        count = getattr(method, "members", None) or method.samples * method.modes
        assert count == 100, arm.name


def test_the_table_of_modes_from_the_command_line(tmp_path, capsys):
    arms = "laplace-one,laplace-many,dropout-many,deep-ensemble"
    words = ["reproduce", "posterior-table", "--scale", "test", "--arms", arms, "--quiet"]
    code, out, _ = run(capsys, *words, "--out", tmp_path)
    assert code == 0
    assert "MMD is lower" in out
    found = values(tmp_path)
    assert all(math.isfinite(value) for value in found.values())
    assert found["Deep ensemble", "reference_networks"] == 6
    # A cloud around one network is far from independent ones, and an ensemble is not.
    assert found["Laplace, one mode", "mmd"] > found["Deep ensemble", "mmd"] + 1
    assert found["Deep ensemble", "mmd_low"] <= 0.5


def test_regression_from_the_command_line(tmp_path, capsys):
    words = ["reproduce", "uci", "--scale", "test", "--methods", "single,laplace", "--quiet"]
    code, out, _ = run(capsys, *words, "--out", tmp_path)
    assert code == 0
    assert "UCI regression (test scale): toy" in out
    assert "toy RMSE ↓" in out
    found = values(tmp_path)
    assert {method for method, _ in found} == {"Single network", "Laplace"}
    assert 0 < found["Laplace", "toy:rmse"] < 3
    assert np.isfinite(found["Laplace", "toy:nll"])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["uci", "--sets", "bostn"], "bostn"),
        (["forde-digits", "--sets", "boston"], "one data set"),
        (["uci", "--arms", "nobody"], "nobody"),
    ],
)
def test_bad_sets_and_arms_are_one_sentence(words, sentence, capsys):
    code, _, err = run(capsys, "reproduce", *words)
    assert code == 2
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
