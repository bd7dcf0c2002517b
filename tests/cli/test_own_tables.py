"""A data scientist with a table: from a messy file to predictions and a report, by commands."""

import csv
import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))
from messy_tables import HEADER, customers, write_table

import credax as cx
from credax.cli.main import main
from credax.cli.predictions import as_csv
from credax.data.preparation import read_preparation

GERMAN = {"delimiter": ";", "comma": True, "mark": True, "end": "\r\n"}
SMALL = ["--network-options", "hidden=(16,)", "--batch-size", "32", "--epochs", "40"]
ROWS = customers(300)
NEW = customers(40, seed=1)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Semicolons, decimal commas, German dates, missing cells; target in the middle."""
    folder = tmp_path_factory.mktemp("customers")
    order = (0, 6, 1, 2, 3, 4, 5)
    rows = [[row[k] for k in order] for row in ROWS]
    write_table(folder / "customers.csv", rows, [HEADER[k] for k in order], **GERMAN)
    command = ["fit", "deep-ensemble", "--data", str(folder / "customers.csv"), "--target"]
    command += ["bought", "--ignore", "id", "--members", "2", *SMALL, "--out", str(folder / "run")]
    assert main(command) == 0
    return folder


@pytest.fixture
def work(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    config = json.loads((tmp_path / "work/run/config.json").read_text())
    config["dataset"]["path"] = config["task"]["data"] = str(tmp_path / "work/customers.csv")
    (tmp_path / "work/run/config.json").write_text(json.dumps(config))
    return tmp_path / "work"


def predicted(*arguments, out="predictions.csv"):
    assert main(["predict", "run", *arguments, "--out", out]) == 0
    with open(out, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def refused(capsys, command, words):
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert words in error


def test_what_was_decided_is_printed_stored_and_in_the_report(work, capsys):
    command = ["fit", "single", "--data", "customers.csv", "--target", "bought", "--ignore", "id"]
    assert main([*command, *SMALL, "--out", "one", "--dry-run"]) == 0
    said = capsys.readouterr().out
    for words in ("one-hot, 3 levels: blue,", "year, month, weekday, days", "0 or 1", " missing: "):
        assert words in said
    assert "classification, by its text" in said
    columns = json.loads(Path("run/config.json").read_text())["dataset"]["preparation"]["columns"]
    assert [c["kind"] for c in columns] == ["category", "number", "boolean", "date", "number"]
    assert main(["report", "run"]) == 0
    page = Path("run/report.html").read_text()
    assert "How the data became inputs" in page
    assert "one-hot, 3 levels: blue, green, red" in page
    assert "colour=red" in page


def test_new_rows_in_any_order_and_dialect_are_the_same_predictions(work, capsys):
    order = (5, 4, 3, 2, 1, 0)
    rows, header = [[row[k] for k in order] for row in NEW], [HEADER[k] for k in order]
    write_table("new.csv", rows, header)
    write_table("german.csv", rows, header, **GERMAN)
    typed = pd.read_csv("new.csv", parse_dates=["since"])
    typed["extra"] = "="
    typed.to_parquet("new.parquet")
    typed.to_feather("new.feather")
    found = [
        predicted(f"new.{k}", "--keep", "id", out=f"{k}.csv") for k in ("csv", "parquet", "feather")
    ]
    found.append(predicted("german.csv", "--keep", "id", out="g.csv"))
    assert "columns not used: extra" in capsys.readouterr().err
    assert [row["id"] for row in found[0]] == [row[0] for row in NEW]
    assert [row["row"] for row in found[0]] == [str(k) for k in range(1, 41)]
    right = [row["label"] == new[6] for row, new in zip(found[0], NEW, strict=True)]
    assert np.mean(right) > 0.85
    for other in found[1:]:
        assert other == found[0]
    columns = ["row", "id", "label", "confidence", "total", "aleatoric", "epistemic"]
    assert list(found[0][0])[:7] == columns
    assert list(found[0][0])[-3:] == ["trust", "reason", "unusual"]


def test_trust_follows_the_rule_that_is_told(work, capsys):
    write_table("new.csv", [row[:6] for row in NEW], HEADER[:6])
    rows = predicted("new.csv")
    said = capsys.readouterr().out
    assert "the rule: " in said
    for row in rows:
        score, value, *_, limit = row["reason"].split()
        assert row["trust"] == ("yes" if float(value) <= float(limit) else "no")
        assert float(row[score]) == pytest.approx(float(value), rel=1e-3)
    yes = [r["label"] == n[6] for r, n in zip(rows, NEW, strict=True) if r["trust"] == "yes"]
    assert len(yes) > 20
    assert np.mean(yes) > 0.85
    fewer = predicted("new.csv", "--error", "0.03", out="strict.csv")
    assert sum(r["trust"] == "yes" for r in fewer) < len(yes)
    refused(capsys, ["predict", "run", "new.csv", "--error", "2", "--out", "p.csv"], "error is 2")


def test_a_conformal_set_decides_where_there_is_one(work, capsys):
    write_table("new.csv", [row[:6] for row in NEW], HEADER[:6])
    assert main(["calibrate", "run", "--method", "threshold"]) == 0
    rows = predicted("new.csv")
    assert "90% prediction set of threshold" in capsys.readouterr().out
    for row in rows:
        inside = json.loads(row["threshold_set"])
        assert (row["trust"] == "yes") == (inside == [row["label"]])
        assert "the 90% set of threshold holds" in row["reason"]


def test_what_training_never_showed_is_flagged_and_not_trusted(work, capsys):
    rows = [list(row[:6]) for row in NEW[:4]]
    rows[1][1] = "mauve"
    rows[2][3] = ""
    rows[3][0] = "=1+1"
    write_table("odd.csv", rows, HEADER[:6])
    found = predicted("odd.csv", "--keep", "id")
    assert "2 of 4 rows are unlike all training rows" in capsys.readouterr().err
    assert [row["unusual"] for row in found] == [
        "",
        "colour has the unseen level 'mauve'",
        "member is missing, as it never was in training",
        "",
    ]
    assert [found[k]["trust"] for k in (1, 2)] == ["no", "no"]
    assert found[3]["id"] == "'=1+1"


@pytest.mark.parametrize(
    ("place", "cell", "words"),
    [
        (2, "old", "line 3: column 'age' holds 'old', which is not a finite number"),
        (3, "perhaps", "line 3: column 'member' holds 'perhaps', which is neither true nor false"),
        (4, "soon", "line 3: column 'since' holds 'soon', which is not a date"),
        (5, "1e39", "line 3: column 'spent' holds 1e+39, which is not a finite float32"),
    ],
)
def test_new_cells_of_another_kind_are_refused_by_line(work, capsys, place, cell, words):
    rows = [list(row[:6]) for row in NEW[:3]]
    rows[1][place] = cell
    write_table("odd.csv", rows, HEADER[:6])
    refused(capsys, ["predict", "run", "odd.csv"], words)


def test_missing_columns_and_kept_ones_that_are_not_there(work, capsys):
    write_table("odd.csv", [row[:5] for row in NEW], HEADER[:5])
    refused(capsys, ["predict", "run", "odd.csv"], "has no column 'spent'; the model was trained")
    write_table("new.csv", [row[:6] for row in NEW], HEADER[:6])
    refused(capsys, ["predict", "run", "new.csv", "--keep", "ID"], "did you mean 'id'?")
    refused(capsys, ["predict", "run", "new.csv", "odd.csv"], "give one file")
    refused(capsys, ["predict", "run", "."], "a folder, and the run was not trained on one")


def test_other_labelled_rows_are_evaluated_and_a_changed_file_is_refused(work, capsys):
    write_table("later.csv", NEW)
    assert main(["evaluate", "run", "--data", "later.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.85
    assert main(["evaluate", "run", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    Path("customers.csv").rename("moved.csv")
    assert main(["evaluate", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == pytest.approx(before)
    text = Path("moved.csv").read_text(encoding="utf-8-sig")
    Path("customers.csv").write_text(text.replace("red", "rose"), encoding="utf-8")
    refused(capsys, ["evaluate", "run"], "its columns were")


def test_the_same_command_reads_the_finished_run(work, capsys):
    command = ["fit", "deep-ensemble", "--data", "customers.csv", "--target", "bought", "--ignore"]
    command += ["id", "--members", "2", *SMALL, "--out", "run", "--json"]
    before = Path("run/members.safetensors").stat().st_mtime_ns
    assert main(command) == 0
    assert Path("run/members.safetensors").stat().st_mtime_ns == before
    capsys.readouterr()
    refused(capsys, [*command, "--kinds", "colour=category"], "other settings (task.kinds")


@pytest.mark.slow
def test_compare_and_several_targets(work, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2))
    frame = pd.DataFrame({"mass": x[:, 0] - x[:, 1], "a": x[:, 0], "b": x[:, 1], "area": x[:, 0]})
    frame.to_csv("two.csv", index=False, sep=";", decimal=",")
    command = ["compare", "--data", "two.csv", "--target", "mass,area", "--methods"]
    command += ["single,deep-ensemble", "--seeds", "1", "--members", "2", *SMALL[:-1], "120"]
    assert main([*command, "--quiet", "--out", "both"]) == 0
    page = Path("both/report.html").read_text()
    assert "regression of 2 targets at once" in page
    frame[["b", "a"]].to_csv("new.csv", index=False)
    assert main(["calibrate", "both/deep-ensemble_0", "--method", "residual"]) == 0
    assert main(["predict", "both/deep-ensemble_0", "new.csv", "--out", "p.csv"]) == 0
    with open("p.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for name in ("mass", "area"):
        mean = np.array([float(row[f"mean_{name}"]) for row in rows])
        assert np.corrcoef(mean, frame[name])[0, 1] > 0.9
        low, high = (
            np.array([float(row[f"residual_{end}_{name}"]) for row in rows])
            for end in ("low", "high")
        )
        assert np.mean((low <= frame[name]) & (frame[name] <= high)) > 0.8
    assert {row["trust"] for row in rows} <= {"yes", "no"}


def test_options_of_tables_are_for_tables(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["fit", "single", "--dry-run", "--data"]
    refused(capsys, [*command, "digits", "--target", "x"], "target is given and data is digits")
    refused(capsys, [*command, "digits", "--size", "8"], "it is for a folder of pictures")
    write_table("t.csv", ROWS)
    refused(capsys, [*command, "t.csv", "--size", "8"], "size is given and data is t.csv")
    refused(capsys, [*command, "t.csv", "--target", "bought"], "--ignore id")
    rest = ["--target", "spent", "--ignore", "id"]
    assert main([*command, "t.csv", *rest, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["config"]["task"]["likelihood"] == "heteroscedastic-deviation"
    assert plan["rows"] == {"train": 204, "validation": 36, "test": 60}
    many = [[*row[:5], str(k % 4), row[6]] for k, row in enumerate(ROWS)]
    write_table("t.csv", many)
    for task, name in (("auto", "categorical"), ("regression", "heteroscedastic-deviation")):
        assert main([*command, "t.csv", *rest, "--task", task, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["config"]["task"]["likelihood"] == name


def test_a_run_of_python_predicts_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(ROWS, columns=HEADER)
    data = cx.data.from_frame(frame, target="bought", ignore="id", validation=0.2)
    problem = cx.Problem(cx.networks.MLP((4,), outputs=2), cx.Categorical())
    cx.fit(problem, "single", data, training=cx.Training(1), folder="run", progress=False)
    write_table("new.csv", [row[:6] for row in NEW], HEADER[:6])
    rows = predicted("new.csv")
    assert {row["trust"] for row in rows} == {"unknown"}
    saved = cx.open_run("run")
    probs = saved.posterior().predict(data.preparation.inputs(frame[:3])).probs
    assert probs.shape == (3, 2)


@pytest.mark.slow
def test_an_exported_run_says_how_to_encode_a_raw_row(work):
    """By the example, whose process does not know credax: the same inputs, the same prediction."""
    assert main(["export", "run", "--out", "model.export"]) == 0
    columns = json.loads(Path("model.json").read_text())["preparation"]["columns"]
    example = Path(__file__).parents[2] / "examples" / "encode_row.py"
    encode = runpy.run_path(str(example))["encode"]
    given = [dict(zip(HEADER[:6], (c or None for c in row[:6]), strict=True)) for row in NEW]
    preparation = read_preparation(cx.open_run("run").about, "run")
    expected = preparation.inputs(pd.DataFrame(given))
    assert np.isin([row["age"] for row in given], [None]).any()
    found = np.array([encode(row, columns) for row in given], np.float32)
    np.testing.assert_array_equal(found, expected)
    command = [sys.executable, str(example), "model.export", json.dumps(given[0])]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    probs = cx.load("run").predict(expected[:1]).probs
    np.testing.assert_allclose(json.loads(said.stdout)["probs"], probs, atol=1e-6)


@pytest.mark.parametrize("text", ["=A1", "+A1", "-A1", "@A1", "\tA1", "-", "=1"])
def test_formulas_are_neutralised(text):
    columns = {"x": np.array([text]), text: np.array(["plain"])}
    (header, cells) = list(csv.reader(as_csv(columns).splitlines()))
    assert header == ["x", f"'{text}"]
    assert cells == [f"'{text}", "plain"]


def test_numbers_are_not_neutralised():
    columns = {"x": np.array([-1.5]), "y": np.array(["-1.5"]), "z": np.array(["+3e-4"])}
    assert as_csv(columns) == "x,y,z\n-1.5,-1.5,+3e-4\n"


OWN_COUNTS = """
import credax as cx
rate = cx.Poisson()
"""


@pytest.mark.slow
def test_counts_with_a_likelihood_of_ones_own_and_few_rows(tmp_path, monkeypatch, capsys):
    """Few whole numbers are no classes to a likelihood of numbers; 20 rows are no batch of 32."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(OWN_COUNTS)
    lines = [f"{k % 7 / 3},{k % 4}" for k in range(40)]
    Path("counts.csv").write_text("\n".join(["a,k", *lines]) + "\n")
    command = ["fit", "single", "--data", "counts.csv", "--target", "k", "--epochs", "2", "--out"]
    assert main([*command, "run", "--likelihood", "mine.py:rate"]) == 0
    config = json.loads(Path("run/config.json").read_text())
    assert config["task"]["task"] == "regression"
    assert config["task"]["training"]["batch_size"] == config["rows"]["count"] < 32
    assert main(["predict", "run", "counts.csv", "--problem", "mine.py", "--out", "p.csv"]) == 0
    assert "on 5 rows" in capsys.readouterr().out  # the validation rows, by which trust is decided
