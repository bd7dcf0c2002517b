"""A run answers from its folder alone, and refuses data that is not what it was trained on."""

import csv
import json
import shutil

import numpy as np
import pytest

import credax as cx
from credax.cli.main import main

RNG = np.random.default_rng(0)
CENTRES = {"ant, red": (0.0, 5.0), 'the "cat"': (4.0, 0.0), "wolf": (-4.0, -4.0)}
LABELS = np.array(list(CENTRES) * 20)
X = np.array([CENTRES[label] for label in LABELS]) + 0.3 * RNG.standard_normal((60, 2))
SMALL = ["--network-options", "hidden=(8,)", "--batch-size", "16", "--quiet"]


def write(path, rows, header=("length", "width", "kind"), delimiter=","):
    with open(path, "w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows([header, *rows])


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with a table and a run on it that separates the classes."""
    folder = tmp_path_factory.mktemp("trained")
    write(folder / "pets.csv", [(*x, label) for x, label in zip(X, LABELS, strict=True)])
    command = ["fit", "deep-ensemble", "--data", str(folder / "pets.csv"), "--members", "2"]
    command += ["--epochs", "60", "--validation", "0.2", *SMALL, "--out", str(folder / "run")]
    assert main(command) == 0
    assert main(["calibrate", str(folder / "run"), "--method", "aps"]) == 0
    return folder


@pytest.fixture
def work(trained, tmp_path, monkeypatch):
    shutil.copytree(trained, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    # The run knows where its file was; here that file is another one, or gone.
    config = json.loads((tmp_path / "work/run/config.json").read_text())
    config["dataset"]["path"] = config["task"]["data"] = str(tmp_path / "work/pets.csv")
    (tmp_path / "work/run/config.json").write_text(json.dumps(config))
    return tmp_path / "work"


def predicted(capsys, *arguments):
    assert main(["predict", "run", *arguments]) == 0, capsys.readouterr().err
    with open("predictions.csv", newline="") as file:
        return list(csv.DictReader(file))


def refused(capsys, command, words):
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert words in error


def test_columns_are_matched_by_name(work, capsys):
    write("new.csv", [(9, x[1], x[0]) for x in X], ("id", "width", "length"))
    rows = predicted(capsys, "new.csv")
    assert np.mean([row["label"] for row in rows] == LABELS) > 0.95
    assert "columns not used: id" in capsys.readouterr().err


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_semicolons_tabs_and_decimal_commas(work, capsys, delimiter):
    texts = [[f"{v:.4f}".replace(".", ",") for v in x[::-1]] for x in X]
    write("new.csv", texts, ("width", "length"), delimiter)
    rows = predicted(capsys, "new.csv")
    assert np.mean([row["label"] for row in rows] == LABELS) > 0.95


@pytest.mark.parametrize(
    ("header", "rows", "words"),
    [
        (("length", "breadth"), [(1, 2)], "no column 'width'"),
        ((1.0, 2.0), [(1, 2)], "it seems to have no header"),
        (("length", "width", "width"), [(1, 2, 3)], "two columns named 'width'"),
        (("length", "width"), [(1, "x")], "line 2: column 'width' holds 'x'"),
        (("length", "width"), [], "has a header and no rows"),
        (("length", "width"), [(1, 2, 3)], "3 cells in line 2"),
        (("length", "width"), [(1, "inf")], "not a finite number"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(work, capsys, header, rows, words):
    write("new.csv", rows, header)
    refused(capsys, ["predict", "run", "new.csv"], words)


@pytest.mark.parametrize("shape", [(), (3,), (4, 3), (0, 2), (2, 2, 2)])
def test_arrays_of_another_shape_are_refused(work, capsys, shape):
    np.save("new.npy", np.ones(shape, np.float32))
    refused(capsys, ["predict", "run", "new.npy"], "the run takes rows of shape (2,)")


def test_names_and_labels_with_commas_and_quotes_survive(work, capsys):
    write("new.csv", X, ("length", "width"))
    rows = predicted(capsys, "new.csv", "--calibration", "aps")
    assert {row["label"] for row in rows} == set(CENTRES)
    assert all(f"p_{name}" in rows[0] for name in CENTRES)
    sets = [json.loads(row["aps_set"]) for row in rows]
    assert all(set(names) <= set(CENTRES) for names in sets)
    # Classes enter a set from the most probable on.
    assert all(row["label"] in names for row, names in zip(rows, sets, strict=True) if names)
    assert sum(map(bool, sets)) > 30


def test_a_renamed_label_changes_no_old_prediction(work, capsys):
    text = (work / "pets.csv").read_text()
    (work / "pets.csv").write_text(text.replace("wolf", "aardvark"))
    write("new.csv", X, ("length", "width"))
    assert {row["label"] for row in predicted(capsys, "new.csv")} == set(CENTRES)
    refused(capsys, ["evaluate", "run"], "its classes were")


def test_a_shortened_file_is_refused(work, capsys):
    lines = (work / "pets.csv").read_text().splitlines()
    (work / "pets.csv").write_text("\n".join(lines[:40]) + "\n")
    refused(capsys, ["evaluate", "run"], "pets.csv is not as it was")
    refused(capsys, ["calibrate", "run", "--name", "again"], "pets.csv is not as it was")
    # All its rows were seen before, most of them in training.
    refused(capsys, ["evaluate", "run", "--data", "pets.csv"], "are training rows")


def test_a_moved_run_without_its_file_predicts_reports_and_evaluates(work, capsys, monkeypatch):
    assert main(["evaluate", "run", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    (work / "pets.csv").unlink()
    (work / "elsewhere").mkdir()
    shutil.move("run", "elsewhere/moved")
    monkeypatch.chdir(work / "elsewhere")
    write("new.csv", X, ("length", "width"))
    assert main(["predict", "moved", "new.csv"]) == 0
    assert main(["report", "moved"]) == 0
    assert "the &quot;cat&quot;" in (work / "elsewhere/moved/report.html").read_text()
    capsys.readouterr()
    assert main(["evaluate", "moved", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == pytest.approx(before)
    refused(capsys, ["calibrate", "moved", "--name", "x"], "pets.csv")


def test_the_same_file_under_another_name_is_the_same_data(work, capsys):
    assert main(["evaluate", "run", "--json"]) == 0
    before = json.loads(capsys.readouterr().out)
    shutil.move("pets.csv", "renamed.csv")
    assert main(["evaluate", "run", "--data", "renamed.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == pytest.approx(before)


def test_new_labelled_rows_are_evaluated_by_the_names_of_their_classes(work, capsys):
    """Of two classes only, in another order of columns: all rows, no new numbering of classes."""
    kept = LABELS != "ant, red"
    rows = [(label, b, a + 0.001) for (a, b), label in zip(X[kept], LABELS[kept], strict=True)]
    write("new.csv", rows, ("kind", "width", "length"))
    assert main(["evaluate", "run", "--data", "new.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.95
    write("odd.csv", [("dog", 1, 2)], ("kind", "width", "length"))
    refused(capsys, ["evaluate", "run", "--data", "odd.csv"], "class 'dog' is not one of")


def test_only_a_sample_of_many_rows_is_kept_and_said_to_be_one(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("credax.training.stored.SAMPLE_ROWS", 5)
    write("pets.csv", [(*x, label) for x, label in zip(X, LABELS, strict=True)])
    command = ["fit", "single", "--data", "pets.csv", "--epochs", "2", *SMALL, "--out", "run"]
    assert main([*command, "--json"]) == 0
    before = json.loads(capsys.readouterr().out)["metrics"]
    (tmp_path / "pets.csv").unlink()
    refused(capsys, ["evaluate", "run"], "--stored")
    assert main(["evaluate", "run", "--stored"]) == 0
    assert "5 of 12 test rows" in capsys.readouterr().err
    assert main(["evaluate", "run", "--stored", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    run = cx.open_run("run")
    kept = run.stored.test
    exact = cx.evaluate(run.posterior().predict(kept.x), kept.y)  # of the five, not of all
    assert found["nll"] == pytest.approx(exact["nll"], rel=1e-5)
    assert found["nll"] != pytest.approx(before["nll"], rel=1e-3)
    assert main(["report", "run"]) == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "5 of 12 test rows" in page
    assert "are of all test rows" in page
    assert f"{before['nll']:.4f}" in page  # of all test rows, as they were measured after training


def test_runs_of_python_are_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("pets.csv", [(*x, label) for x, label in zip(X, LABELS, strict=True)])
    data = cx.data.load("pets.csv")
    problem = cx.Problem(cx.networks.MLP((8,), outputs=3), cx.Categorical())
    cx.fit(problem, "deep-ensemble", data, folder="run", training=cx.Training(3), progress=False)
    write("new.csv", X, ("length", "width"))
    for command in (["predict", "run", "new.csv"], ["evaluate", "run"], ["report", "run"]):
        assert main(command) == 0, capsys.readouterr().err
    assert main(["show", "run"]) == 0
    assert main(["list", "runs", "--root", "."]) == 0
    assert set(CENTRES) == set(cx.open_run("run").about.class_names)


OWN = """
import jax.numpy as jnp
import credax as cx

def initialise(key, x):
    return {"w": jnp.zeros((x.shape[-1], 3))}

def function(params, x):
    return SCALE * x @ params["w"]

problem = cx.Problem(cx.adapters.from_function(initialise, function), cx.Categorical())
"""


def test_a_network_of_ones_own_is_asked_for_in_one_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("pets.csv", [(*x, label) for x, label in zip(X, LABELS, strict=True)])
    (tmp_path / "own.py").write_text(OWN.replace("SCALE", "1.0"))
    (tmp_path / "other.py").write_text(OWN.replace("SCALE", "2.0"))
    from credax.cli.saved import read_problem

    cx.fit(
        read_problem("own.py:problem"), cx.Single(), cx.data.load("pets.csv"), folder="run",
        training=cx.Training(3), progress=False,
    )  # fmt: skip
    write("new.csv", X, ("length", "width"))
    refused(capsys, ["predict", "run", "new.csv"], "give --problem FILE.py:NAME")
    refused(capsys, ["evaluate", "run", "--problem", "own.py:nothing"], "no credax.Problem")
    other = ["predict", "run", "new.csv", "--problem", "other.py:problem"]
    refused(capsys, other, "is not that of the run")
    assert main(["predict", "run", "new.csv", "--problem", "own.py:problem"]) == 0
