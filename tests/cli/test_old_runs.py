"""Runs, calibrators and shift scores written before runs were self-contained are still read.

``tests/golden/before`` was written by credax 0.1.0 as of commit a2e5119.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import credax as cx
from credax.cli.main import main
from credax.runs import read_config
from credax.zoo import Zoo

BEFORE = Path(__file__).parent.parent / "golden" / "before"
EXPECTED = json.loads((BEFORE / "expected.json").read_text())
PROBLEM = """
import credax as cx
problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical(), weight_decay=1e-3)
"""


@pytest.fixture
def before(tmp_path, monkeypatch):
    shutil.copytree(BEFORE, tmp_path / "before")
    monkeypatch.chdir(tmp_path / "before")
    return tmp_path / "before"


@pytest.mark.parametrize("name", sorted(set(EXPECTED) - {"python"}))
def test_old_runs_say_what_they_said(before, capsys, name):
    assert main(["evaluate", name, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == EXPECTED[name].keys()
    for metric, value in EXPECTED[name].items():
        np.testing.assert_allclose(found[metric], value, rtol=1e-4, atol=1e-5, err_msg=metric)


def test_old_runs_predict_with_their_calibrators(before, capsys):
    command = ["predict", "deep-ensemble", "flowers.csv", "--calibration", "aps", "--out", "p.csv"]
    assert main(command) == 0
    assert "columns not used: kind" in capsys.readouterr().err
    assert "aps_set" in (before / "p.csv").read_text().splitlines()[0]


def test_an_old_run_whose_file_changed_is_refused(before, capsys):
    lines = (before / "flowers.csv").read_text().splitlines()
    (before / "flowers.csv").write_text("\n".join(lines[:-3]) + "\n")
    for command in (["evaluate", "swag"], ["predict", "swag", "flowers.csv"]):
        assert main(command) == 2
        assert "flowers.csv is not as it was" in capsys.readouterr().err


def test_an_old_run_of_python_asks_for_its_problem(before, capsys):
    assert main(["predict", "python", "flowers.csv"]) == 2
    assert "give --problem FILE.py:NAME" in capsys.readouterr().err
    (before / "mine.py").write_text(PROBLEM)
    x = np.loadtxt("flowers.csv", delimiter=",", skiprows=1, usecols=(0, 1), dtype=np.float32)
    np.save("x.npy", x)
    command = ["predict", "python", "x.npy", "--problem", "mine.py:problem", "--out", "p.csv"]
    assert main(command) == 0
    assert len((before / "p.csv").read_text().splitlines()) == 61


@pytest.mark.optimised
def test_an_old_unfinished_run_is_finished_to_the_same_bytes(before):
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical(), weight_decay=1e-3)
    data = cx.data.load("flowers.csv")
    training = cx.Training(6, 16, checkpoint_every=1)
    cx.fit(
        problem, cx.DeepEnsemble(2), data.train, training=training, folder="unfinished",
        progress=False,
    )  # fmt: skip
    found = (before / "unfinished" / "members.safetensors").read_bytes()
    assert found == (before / "unfinished.expected.safetensors").read_bytes()
    assert "format" not in read_config(before / "unfinished")


def test_an_old_zoo_is_read_and_extended(before, capsys):
    old = Zoo.open("zoo", verify=True).population()
    command = ["zoo", "train", "--data", "flowers.csv", "--count", "7", "--at-once", "3"]
    command += ["--shard-members", "4", "--epochs", "2", "--batch-size", "16"]
    command += ["--network-options", "hidden=(4,)", "--out", "zoo", "--quiet"]
    assert main(command) == 0
    assert "7 usable of 7" in capsys.readouterr().out
    new = Zoo.open("zoo", verify=True).population()
    first = np.asarray(new.take(range(6)).variables.params["1_dense"]["kernel"])
    np.testing.assert_array_equal(first, np.asarray(old.variables.params["1_dense"]["kernel"]))
