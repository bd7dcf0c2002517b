"""The rows of a table that should not be trusted."""

import re

import numpy as np
from report_cases import class_result, number_result

from credax.prediction import ClassPrediction, GaussianPrediction
from credax.report import Comparison, Facts, Result, page
from credax.report.doubtful import SHOWN, doubtful_section


def tables(section):
    """The cells of each table's rows, as text."""
    found = []
    for body in re.findall(r"<tbody>(.*?)</tbody>", section):
        rows = re.findall(r"<tr>(.*?)</tr>", body)
        found.append([[re.sub(r"<.*?>", "", c) for c in re.split(r"</t[hd]>", r)] for r in rows])
    return found


def test_least_certain_and_most_wrong_classes():
    probs = np.full((1, 12, 3), [0.9, 0.05, 0.05])
    probs[0, 7] = [0.34, 0.33, 0.33]
    probs[0, 3] = [0.005, 0.99, 0.005]
    y = np.zeros(12, int)
    inputs = np.arange(24.0).reshape(12, 2)
    inputs[7, 1] = 500.0
    result = Result("a", 2, {"nll": 1.0}, ClassPrediction.from_probs(probs), y)
    facts = Facts(feature_names=("age", "<height>"))
    names = ("cat", "dog", "eel")
    section = doubtful_section(
        Comparison("t", "d", "classification", [result], names, inputs, facts)
    )
    least, wrong = tables(section)
    assert least[0][:8] == ["7", "cat", "cat", "0.340", "0.340", "1.099", "14", "500"]
    assert len(least) == SHOWN
    assert [row[:5] for row in wrong] == [["3", "cat", "✗ dog", "0.990", "0.005"]]
    assert "<b>500</b>" in section
    assert section.count("<b>") == 1
    assert "&lt;height&gt;</th>" in section
    assert "a, seed 2" in section


def test_least_certain_and_most_wrong_numbers():
    means = np.zeros((1, 10, 2), np.float32)
    variances = np.ones_like(means)
    variances[0, 4, 1] = 100.0
    y = np.tile([[1.0, -1.0], [-1.0, 1.0]], (5, 1))
    y[6] = [1.0, 7.0]
    result = Result("a", 0, {"nll": 1.0}, GaussianPrediction(means, variances), y)
    facts = Facts(target_names=("load", "drag"))
    section = doubtful_section(
        Comparison("t", "d", "regression", [result], (), np.zeros((10, 3)), facts)
    )
    least, wrong = tables(section)
    assert least[0][:2] == ["4", "drag"]
    assert wrong[0][:4] == ["6", "drag", "7.000", "0.000"]
    assert wrong[0][4] == "−1.645 to 1.645"
    assert wrong[0][6] == "7.0"


def test_wide_tables_show_the_most_unusual_features_of_a_row():
    inputs = np.random.default_rng(0).normal(size=(40, 30))
    inputs[:, 3] = 1.0
    result = class_result("a", 0)
    least = int(np.argmax(np.asarray(result.prediction.total)))
    inputs[least, 17] = 1000.0
    section = doubtful_section(Comparison("t", "d", "classification", [result], (), inputs))
    first = tables(section)[0][0]
    assert first[0] == str(least)
    assert first[6].startswith("feature 17 = 1000, feature ")
    assert first[6].count("=") == 5


def test_only_tables_have_rows():
    results = [class_result("a", 0)]
    for inputs in (None, np.zeros((40, 4, 4, 1)), np.zeros((39, 4)), np.zeros((40, 0))):
        comparison = Comparison("t", "d", "classification", results, (), inputs)
        assert doubtful_section(comparison) is None
    line = Comparison("t", "d", "regression", [number_result("a", 0)], (), np.linspace(0, 1, 40))
    assert ">input</th>" in page(line)


def test_predictions_that_are_not_finite_are_listed_last():
    result = number_result("a", 0)
    means = np.asarray(result.prediction.means).copy()
    means[:, 5] = np.nan
    broken = Result(
        "a", 0, {"nll": 1.0}, GaussianPrediction(means, result.prediction.variances), result.y
    )
    section = doubtful_section(Comparison("t", "d", "regression", [broken], (), np.ones((40, 2))))
    assert all(row[0] != "5" for rows in tables(section) for row in rows)
