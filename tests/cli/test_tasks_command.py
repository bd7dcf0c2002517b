"""Tasks on the command line: a folder of tables, one for each task, to predictions of a new one."""

import csv

import numpy as np
import pytest

from credax.cli.main import main

SMALL = ["--epochs", "2", "--least-steps", "4", "--hidden", "8", "--quiet"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    (folder / "own").mkdir()
    rng = np.random.default_rng(0)
    for number in range(8):
        x = rng.uniform(-2, 2, rng.integers(3, 7))
        rows = [f"{a:.3f},{np.sin(a):.3f}" for a in x]
        (folder / "own" / f"{number}.csv").write_text("\n".join(["time,value", *rows]) + "\n")
    command = ["fit", "cnp", "--data", f"{folder / 'own'}/", "--out", str(folder / "run"), *SMALL]
    assert main(command) == 0
    return folder


def test_a_run_on_tasks_is_evaluated_and_predicts_a_partly_known_one(trained, tmp_path, capsys):
    assert main(["evaluate", str(trained / "run")]) == 0
    assert "log_likelihood_marginal" in capsys.readouterr().out
    assert main(["report", str(trained / "run")]) == 0
    new = tmp_path / "new.csv"
    new.write_text("value,time\n0.5,0.1\n,0.4\n0.2,-1\n,1.5\n")
    out = tmp_path / "out.csv"
    assert main(["predict", str(trained / "run"), str(new), "--out", str(out)]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [row["time"] for row in rows] == ["0.4", "1.5"]
    assert all(float(row["low_90"]) < float(row["mean"]) < float(row["high_90"]) for row in rows)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time,value\n1,2\n", "in every row"),
        ("hour,value\n1,\n", "it needs time"),
        ("time,value\n1,\nx,2\n", "not a finite number"),
    ],
)
def test_bad_questions_get_one_sentence(trained, tmp_path, capsys, text, words):
    (tmp_path / "new.csv").write_text(text)
    out = ["--out", str(tmp_path / "out.csv")]
    assert main(["predict", str(trained / "run"), str(tmp_path / "new.csv"), *out]) == 2
    assert words in capsys.readouterr().err


def test_tasks_and_tables_are_told_apart(trained, capsys):
    command = ["--data", f"{trained / 'own'}/", "--quiet", "--out", str(trained / "other")]
    assert main(["fit", "single", *command]) == 2
    assert "single takes a table" in capsys.readouterr().err
    assert main(["evaluate", str(trained / "run"), "--ood", "digits"]) == 2
    assert "holds tasks" in capsys.readouterr().err
