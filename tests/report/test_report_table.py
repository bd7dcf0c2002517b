"""Means, standard errors, who is best, and the files that say so."""

import csv
import io
import json
import math

import numpy as np
import pytest
from report_cases import bare, class_result
from rich.console import Console
from scipy import stats

from credax.errors import InputError
from credax.report import Comparison, Result, print_rich, summarise, write_csv, write_json
from credax.report.difference import differ


def best(values, metric="nll"):
    table = summarise(bare(values, metric=metric))
    return [m for m, row in zip(table.methods, table.cells, strict=True) if row[0].best]


def test_mean_and_standard_error_by_hand():
    ((cell,),) = summarise(bare({"a": [1.0, 2.0, 6.0]})).cells
    assert cell.mean == 3.0
    assert cell.standard_error == pytest.approx(math.sqrt(7.0 / 3))
    assert cell.seeds == (0, 1, 2)


def test_best_needs_a_t_test_over_seeds():
    # Errors of both are 1, so the combined one is √2; two seeds each need 4.3027 of it: 6.085.
    spread = [-1.0, 1.0]
    low = [10 + s for s in spread]
    assert best({"a": low, "b": [16.1 + s for s in spread]}) == ["a"]
    assert best({"a": low, "b": [16.0 + s for s in spread]}) == []
    assert best({"b": [16.1 + s for s in spread], "a": low}) == ["a"]


def test_the_t_test_is_scipys():
    rng = np.random.default_rng(0)
    for count in (2, 3, 5):
        for gap in np.linspace(0, 6, 13):
            one, other = rng.normal(size=count), gap + rng.normal(size=count)
            cells = summarise(bare({"a": one.tolist(), "b": other.tolist()})).cells
            clear = stats.ttest_ind(one, other).pvalue < 0.05
            assert differ(cells[0][0], cells[1][0]) == clear


def test_best_follows_the_direction():
    values = {"a": [0.90, 0.91], "b": [0.95, 0.96], "c": [0.1, 0.11]}
    assert best(values, "accuracy") == ["b"]
    assert best(values, "nll") == ["c"]
    assert best(values, "entropy") == []
    assert best(values, "coverage_90") == []
    assert best(values, "unknown_metric") == []


def test_nothing_is_best_with_one_seed_or_one_method_or_a_tie():
    assert best({"a": [1.0], "b": [5.0]}) == []
    assert best({"a": [1.0, 1.0], "b": [5.0]}) == []
    assert best({"a": [1.0, 1.1]}) == []
    assert best({"a": [1.0, 1.0], "b": [1.0, 1.0]}) == []
    assert best({"a": [1.0, 1.0], "b": [1.5, 1.5]}) == ["a"]


def test_a_value_that_is_not_finite_is_not_averaged_away():
    table = summarise(bare({"a": [1.0, math.nan], "b": [5.0, 5.1], "c": [7.0, 7.1]}))
    assert math.isnan(table.cells[0][0].mean)
    assert table.text(0, 0) == ("–", "")
    assert [row[0].best for row in table.cells] == [False, True, False]


def test_columns_come_in_the_registrys_order_and_strangers_last():
    results = [
        Result("a", 0, {"mine": 1.0, "ece": 0.1, "accuracy": 0.9}),
        Result("b", 0, {"accuracy": 0.8}),
    ]
    table = summarise(Comparison("t", "d", "classification", results))
    assert [column.name for column in table.columns] == ["accuracy", "ece", "mine"]
    assert table.cells[1][1] is None
    assert table.text(1, 1) == ("–", "")
    assert "One seed" in table.legend()
    assert "→" not in table.legend()


def test_no_metrics_at_all():
    table = summarise(Comparison("t", "d", "classification", [Result("a", 0, {})]))
    assert table.columns == ()
    assert table.cells == ((),)


def test_decimals_are_equal_down_a_column():
    table = summarise(bare({"a": [123.456, 123.556], "b": [0.5, 0.6]}))
    assert [table.text(row, 0)[0] for row in range(2)] == ["123.506", "0.550"]


def test_csv_is_long_and_exact(tmp_path):
    value = 0.1 + 0.2
    comparison = bare({"a, b": [value, math.nan], "c": [1.0, 2.0]})
    write_csv(summarise(comparison), tmp_path / "results.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "results.csv").read_text())))
    assert len(rows) == 4
    assert rows[0] == {
        "data": "some data",
        "method": "a, b",
        "seed": "0",
        "metric": "nll",
        "value": repr(value),
        "unit": "nats",
        "better": "lower",
    }
    assert float(rows[0]["value"]) == value
    assert rows[1]["value"] == "nan"


def test_json_is_strict_and_equal_to_the_table(tmp_path):
    table = summarise(bare({"a": [1.0, 2.0], "é": [1.0, math.inf]}))
    write_json(table, tmp_path / "results.json")

    def refuse(token):
        raise AssertionError(token)

    text = (tmp_path / "results.json").read_text(encoding="utf-8")
    content = json.loads(text, parse_constant=refuse)
    first, second = (method["results"]["nll"] for method in content["methods"])
    assert first["mean"] == 1.5
    assert first["standard_error"] == 0.5
    assert first["values"] == [1.0, 2.0]
    assert second["mean"] is None
    assert second["values"] == [1.0, None]
    assert content["methods"][1]["method"] == "é"
    assert content["metrics"][0]["estimator"].startswith("exact mixture")


@pytest.mark.parametrize("width", [200, 60])
def test_terminal_shows_every_number(width):
    results = [
        Result(f"[red]{m}", seed, {"nll": v + 0.1 * seed, "accuracy": 0.5, "mutual_information": v})
        for m, v in (("one", 0.25), ("a-very-long-method-name-indeed", 0.75))
        for seed in range(2)
    ]
    table = summarise(Comparison("title", "data", "classification", results))
    console = Console(width=width, record=True, file=io.StringIO())
    print_rich(table, console)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    assert "[red]one" in text
    for row in range(2):
        for column in range(3):
            mean, error = table.text(row, column)
            assert (f"{mean} ± {error}" if width == 200 else f"±{error}") in text
            assert mean in text


def test_terminal_sets_the_best_in_bold():
    console = Console(width=120, force_terminal=True, file=io.StringIO(), color_system="standard")
    print_rich(summarise(bare({"a": [1.0, 1.0], "b": [2.0, 2.0]})), console)
    out = console.file.getvalue()
    assert "\x1b[1m1.000 ± 0.000\x1b[0m" in out
    assert "\x1b[1m2.000" not in out


def test_results_that_do_not_fit():
    good = class_result("a", 0)
    with pytest.raises(InputError, match="at least one result"):
        Comparison("t", "d", "classification", [])
    with pytest.raises(InputError, match="twice"):
        Comparison("t", "d", "classification", [good, good])
    with pytest.raises(InputError, match="task is 'ranking'"):
        Comparison("t", "d", "ranking", [good])  # pyright: ignore
    with pytest.raises(InputError, match="needs a GaussianPrediction"):
        Comparison("t", "d", "regression", [good])
    with pytest.raises(InputError, match="both or neither"):
        Result("a", 0, {}, good.prediction)
    with pytest.raises(InputError, match="predicts 40 rows and y has 39"):
        Result("a", 0, {}, good.prediction, good.y[:-1])


def test_a_table_too_wide_either_way_is_cut_by_metrics_with_no_word_broken():
    """Eight methods with long names: each piece has all of them, each metric stands in one."""
    seeds = [{"accuracy": 0.9 + 0.01 * s, "nll": 0.3, "ece": 0.02, "brier": 0.1} for s in range(2)]
    names = [f"Deep ensemble, {n} members" for n in range(8)]
    results = [Result(n, s, dict(m)) for n in names for s, m in enumerate(seeds)]
    console = Console(width=45, record=True, file=io.StringIO())
    print_rich(summarise(Comparison("many", "digits", "classification", results)), console)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 45
    assert all(text.count(name) == text.count(names[0]) >= 2 for name in names)
    assert all(text.count(word) == 1 for word in ("Accuracy", "NLL", "ECE", "Brier"))
