"""The commands that only read, on damaged files: one sentence on standard error, code 2."""

import json
import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

import credax as cx
from credax import methods
from credax.cli.main import main
from credax.files import load_arrays, save_tree
from credax.prediction import GaussianPrediction, NonFinitePrediction, concatenate
from credax.training.run import DamagedLine

GOLDEN = Path(__file__).parent.parent / "golden" / "before"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A finished run of two networks on a small table, the current folder."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(GOLDEN / "deep-ensemble", tmp_path / "runs" / "one")
    shutil.copy(GOLDEN / "flowers.csv", tmp_path)
    return tmp_path / "runs" / "one"


@pytest.fixture
def says(capsys):
    """Checks that a command ends with code 2 and one sentence that matches."""

    def check(words, *arguments):
        assert main([str(a) for a in arguments]) == 2
        error = capsys.readouterr().err
        assert error.startswith("credax: error: ")
        assert error.count("\n") == 1
        assert words in error

    return check


@pytest.mark.parametrize("name", ["../../../esc", "/tmp/esc", "a/b", "..", "", "a\\b"])
def test_a_calibrators_name_stays_in_the_run(run, says, name):
    before = sorted(run.parent.parent.rglob("*"))
    says("name is", "calibrate", run, "--name", name)
    assert sorted(run.parent.parent.rglob("*")) == before


@pytest.mark.parametrize("command", [["fit", "single"], ["compare"]])
def test_a_runs_name_stays_in_its_folder(run, says, command):
    says("name is", *command, "--data", "flowers.csv", "--name", "../../esc")
    assert not Path("../../esc").exists()


def write_inputs(kind):
    if kind == "scalar":
        np.save("new.npy", np.float32(3.0))
    elif kind == "width":
        np.save("new.npy", np.zeros((4, 3), np.float32))
    elif kind == "objects":
        np.save("new.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    elif kind == "nan":
        np.save("new.npy", np.array([[1.0, 2.0], [np.nan, 1.0]]))
    elif kind == "text":
        np.save("new.npy", np.array([["a", "b"]]))
    elif kind == "pipe":
        os.mkfifo("new.npy")
    elif kind == "folder":
        os.mkdir("new.npy")


@pytest.mark.parametrize("kind", ["scalar", "width", "objects", "nan", "text", "pipe", "folder"])
def test_inputs_that_cannot_be_predicted_are_one_sentence(run, says, kind):
    write_inputs(kind)
    says("new.npy", "predict", run, "new.npy", "--out", "out.csv")
    assert not Path("out.csv").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda c: [],
        lambda c: {**c, "rows": 3},
        lambda c: {**c, "training": {"epochs": "many"}},
        lambda c: {k: v for k, v in c.items() if k != "method"},
        lambda c: {**c, "task": []},
    ],
)
def test_show_and_list_of_a_config_of_other_types(run, says, capsys, change):
    file = run / "config.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    says("config.json does not hold what it should", "show", run)
    shutil.copytree(GOLDEN / "swag", run.parent / "two")
    assert main(["list", "runs", "--json"]) == 0
    said = capsys.readouterr()
    assert "config.json does not hold what it should" in said.err
    listed = {Path(row["run"]).name: row["state"] for row in json.loads(said.out)}
    assert listed == {"one": "damaged", "two": "finished"}


@pytest.mark.parametrize("line", ["[1]", '{"step": "x"}', '{"loss": NaN}', '{"epoch": []}', "junk"])
def test_a_line_of_metrics_that_is_no_record_is_named_and_left_out(run, line, capsys):
    file = run / "metrics.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], line, *lines[1:]]) + "\n")
    warnings.simplefilter("always", DamagedLine)
    for words in (["show", str(run)], ["report", str(run)], ["list", "runs", "--root", str(run)]):
        assert main(words) == 0
        assert "line 2 of" in capsys.readouterr().err


def test_a_pipe_in_place_of_a_file_never_blocks(run, says):
    (run / "metrics.jsonl").unlink()
    os.mkfifo(run / "metrics.jsonl")
    says("is a pipe", "show", run)


PROBLEM = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"members": []}, "members is a list"),
        ({"members": [0, "1"]}, "members is a list"),
        ({"members": [0, 0]}, "members is a list"),
        ({"members": [0, 1, 2]}, "shape"),
        ({"input_shape": [-2]}, "input_shape"),
        ({"input_shape": [2**50]}, "input_shape"),
        ({"input_shape": "2"}, "input_shape"),
        ({"input_dtype": "object"}, "input_dtype"),
        ({"units": 3}, "units"),
        ({"units": {"inputs": {"mean": [0, 0], "scale": [0, 1]}, "targets": None}}, "units"),
        ({"units": {"inputs": {"mean": [1e300, 0], "scale": 1}, "targets": None}}, "units"),
        ({"units": {"inputs": {"mean": [1, 2, 3], "scale": 1}, "targets": None}}, "units"),
        ({"units": {"inputs": {"mean": [[1], [2, 3]], "scale": 1}, "targets": None}}, "units"),
        ({"kind": ["population"]}, "does not hold a population"),
    ],
)
def test_what_members_say_of_themselves_is_checked_by_type(tmp_path, refused, change, words):
    arrays, metadata = load_arrays(GOLDEN / "deep-ensemble" / "members.safetensors")
    save_tree(tmp_path / "members", arrays, metadata | change)
    refused(lambda: cx.Population.load(tmp_path / "members", PROBLEM), words)


@pytest.mark.parametrize(
    ("method", "change", "words"),
    [
        ("laplace", {"options": {}}, "options.bias is missing"),
        ("laplace", {"blocks": [["kronecker", [[5, 5], [5], [3, 3], [4]]]]}, "block"),
        ("laplace", {"priors": [[-1]]}, "priors"),
        ("mc-dropout", {"masks": {"kind": "inserted", "rate": 1}}, "masks.rate is 1"),
        ("mc-dropout", {"draws": 10**12}, "shape"),
        ("swag", {"law": "magic"}, "law is 'magic'"),
        ("swag", {"law_options": {"rank": 10**12}}, "shape"),
        ("swag", {"modes": 3}, "modes is 3"),
    ],
)
def test_other_posteriors_are_checked_too(tmp_path, refused, method, change, words):
    arrays, metadata = load_arrays(GOLDEN / method / "members.safetensors")
    save_tree(tmp_path / "members", arrays, metadata | change)
    record = methods.get(method)()
    refused(lambda: record.load(tmp_path / "members", PROBLEM), words)


def test_a_variance_that_overflows_is_named():
    means = np.full((2, 1, 1), 1e25, np.float32)
    with pytest.warns(NonFinitePrediction, match="1 of 1 rows"):
        concatenate([GaussianPrediction(means, np.ones_like(means))])


def test_members_that_are_not_finite_are_refused_and_those_that_overflow_are_named(tmp_path):
    arrays, metadata = load_arrays(GOLDEN / "deep-ensemble" / "members.safetensors")
    arrays["params/0_dense/bias"][1, 2] = np.inf
    save_tree(tmp_path / "members", arrays, metadata)
    words = "NaN or infinity in params/0_dense/bias of member 1"
    with pytest.raises(cx.errors.InputError, match=words):
        cx.Population.load(tmp_path / "members", PROBLEM)
    arrays["params/0_dense/bias"][1] = 3e38
    arrays["params/1_dense/kernel"][1] = 3e38
    save_tree(tmp_path / "members", arrays, metadata)
    posterior = cx.Population.load(tmp_path / "members", PROBLEM)
    with pytest.warns(NonFinitePrediction, match="3 of 3 rows, first by the member at position 1"):
        posterior.predict(np.zeros((3, 2), np.float32))


@pytest.mark.parametrize("key", [{"data": []}, [], {}])
def test_a_key_without_words_is_refused(run, says, key):
    """The seed would be its last word."""
    config = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps({**config, "key": key}))
    says("key", "evaluate", run)


def test_escapes_in_the_names_of_files_are_spelt_out(run, capsys):
    config = json.loads((run / "config.json").read_text())
    config["task"]["data"] = "a\x1b[31mb.csv"
    (run / "config.json").write_text(json.dumps(config))
    for command in (["show", run], ["list", "runs"]):
        assert main([str(word) for word in command]) == 0
        assert "\x1b[31mb" not in capsys.readouterr().out
