"""The commands as a person types them."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from credax import methods
from credax.cli import main
from credax.cli.fit import read_flags
from credax.cli.recipes import recipe
from credax.training import Training

FIT = ["fit", "deep-ensemble", "--data", "toy/two-moons", "--members", "2", "--epochs", "2"]


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    assert main([*FIT, "--out", str(folder), "--quiet"]) == 0
    return folder


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def table(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def command(*arguments):
    return [sys.executable, "-m", "credax", *map(str, arguments)]


def test_help_answers_before_jax_is_imported():
    program = (
        "import sys; from credax.cli import main; code = main(['--help']);"
        "sys.exit(code or 'jax' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


@pytest.mark.parametrize("arguments", [["compare", "--help"], ["fit", "--help"]])
def test_flags_are_read_before_jax_is_imported(arguments):
    program = (
        "import sys; from credax.cli import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit: pass\n"
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


@pytest.mark.parametrize("name", methods.names())
def test_every_method_has_flags(name):
    """Flags are flat: one of the method's may not have the name of one that all share."""
    given = read_flags(name, ["--data", "digits", "--seed", "3"])
    assert given.method == methods.get(name)()
    assert given.task == recipe("digits")
    assert type(given.task.training) is Training
    assert given.seed == 3


def test_what_a_method_decides_is_its_own_flag():
    given = read_flags("cyclical-sgmcmc", ["--cycles", "7", "--epochs", "9"])
    assert (given.method.cycles, given.task.training.epochs) == (7, 9)
    assert given.task.training.cycles == Training().cycles
    given = read_flags("snapshot-ensemble", ["--schedule", "constant"])
    assert given.method.schedule == "constant"
    assert given.task.training.schedule == Training().schedule


@pytest.mark.parametrize("arguments", [["--help"], ["list", "--help"], ["report", "--help"]])
def test_help_imports_no_jax(arguments):
    """Importing jax is what would make help slow; time itself depends on the machine."""
    code = (
        "import sys; from credax.cli import main\n"
        f"try: main({arguments})\nexcept SystemExit: pass\n"
        "sys.exit('jax' in sys.modules or 'numpy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_fit_keeps_a_run_and_prints_metrics(finished, capsys):
    code, out, _ = run(capsys, *FIT, "--out", finished, "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary["metrics"]["accuracy"] > 0.5
    assert summary["cost"]["members"] == 2
    config = json.loads((finished / "config.json").read_text())
    assert config["task"]["network"] == "mlp"
    assert config["training"]["epochs"] == 2


def test_evaluate_predict_report_and_show_read_the_run(finished, capsys, work):
    code, out, _ = run(capsys, "evaluate", finished, "--json")
    assert code == 0
    metrics = json.loads(out)
    code, out, _ = run(capsys, *FIT, "--out", finished, "--json")
    assert json.loads(out)["metrics"] == metrics
    code, out, _ = run(capsys, "show", finished)
    assert code == 0
    assert "2 of 2" in out
    code, out, _ = run(capsys, "report", finished, "--out", "page.html")
    assert code == 0
    assert "<!doctype html>" in (work / "page.html").read_text().lower()
    code, out, _ = run(capsys, "list", "runs", "--root", finished.parent, "--json")
    assert [row["state"] for row in json.loads(out)] == ["finished"]


def test_predictions_are_written_and_never_overwritten(finished, capsys, work):
    x = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    np.savez(work / "x.npz", x=x)
    np.savetxt(work / "x.csv", x, delimiter=",", header="a,b", comments="")
    assert run(capsys, "predict", finished, "x.npz")[0] == 0
    rows = table(work / "predictions.csv")
    assert len(rows) == 5
    probabilities = [float(rows[0][name]) for name in rows[0] if name.startswith("p_")]
    np.testing.assert_allclose(sum(probabilities), 1, rtol=1e-5)
    total = float(rows[0]["aleatoric"]) + float(rows[0]["epistemic"])
    np.testing.assert_allclose(float(rows[0]["total"]), total, rtol=1e-4)
    code, _, err = run(capsys, "predict", finished, "x.npz")
    assert code == 2
    assert "exists" in err
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, _, err = run(capsys, "predict", finished, "x.csv", "--out", "p.npz")
    assert code == 0
    assert "taken in their order: a, b" in err
    assert np.load(work / "p.npz")["members"].shape == (2, 5, 2)


def test_regression_predictions_have_intervals(capsys, work):
    fit = ["fit", "single", "--data", "toy/cubic", "--epochs", "2", "--out", "run", "--quiet"]
    assert run(capsys, *fit)[0] == 0
    np.save(work / "x.npy", np.linspace(-5, 5, 4, dtype=np.float32)[:, None])
    assert run(capsys, "predict", "run", "x.npy")[0] == 0
    rows = table(work / "predictions.csv")
    assert all(float(r["low_90"]) < float(r["mean"]) < float(r["high_90"]) for r in rows)


def test_compare_writes_table_and_page(capsys, work):
    arguments = ["compare", "--data", "toy/two-moons", "--epochs", "2", "--seeds", "2"]
    code, out, _ = run(capsys, *arguments, "--members", "2", "--quiet")
    assert code == 0
    assert "Deep ensemble" in out
    folder = work / "runs" / "compare_two-moons"
    assert {"report.html", "results.csv", "results.json"} <= {p.name for p in folder.iterdir()}
    assert len(list(folder.glob("*/members.safetensors"))) == 4
    stamps = {p: p.stat().st_mtime_ns for p in folder.glob("*/members.safetensors")}
    code, out, _ = run(capsys, *arguments, "--members", "2", "--json")
    assert code == 0
    json.loads(out)
    assert stamps == {p: p.stat().st_mtime_ns for p in folder.glob("*/members.safetensors")}


@pytest.mark.parametrize("method", methods.names())
def test_every_method_has_a_dry_run(capsys, work, method):
    """With what the method decides about the training: HMC's transitions are its epochs."""
    flags = ["--data", "toy/two-moons", "--network-options", "hidden=(4,)", "--dry-run", "--json"]
    if method == "mc-batch-norm":
        flags.insert(4, "norm=batch")
    code, out, err = run(capsys, "fit", method, *flags)
    assert code == 0, err
    content = json.loads(out)
    assert content["parameters"]["members"] >= 1
    assert content["memory_bytes_estimate"]["total"] > 0
    if method in ("hmc", "nuts"):
        assert content["steps"] == {"per epoch": 1, "total": 600}
    assert not list(work.iterdir())


def test_dry_run_writes_nothing(capsys, work):
    code, out, _ = run(capsys, *FIT, "--dry-run", "--json")
    assert code == 0
    plan = json.loads(out)
    # 2-50-50-2: 150 + 2550 + 102
    assert plan["parameters"].pop("all over one network") == 2.0
    assert plan["parameters"] == {"one network": 2802, "members": 2, "all": 5604}
    assert plan["memory_bytes_estimate"]["total"] > 0
    assert plan["steps"]["total"] == 2 * plan["steps"]["per epoch"]
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("what", ["methods", "datasets", "networks", "metrics", "runs"])
def test_lists(capsys, what):
    assert run(capsys, "list", what)[0] == 0
    code, out, _ = run(capsys, "list", what, "--json")
    assert code == 0
    assert isinstance(json.loads(out), list)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compar"], "did you mean 'compare'"),
        (["fit", "deep-ensembel"], "did you mean 'deep-ensemble'"),
        (["fit", "--data", "digits"], "needs a method"),
        (["fit", "single", "--data", "digit"], "did you mean 'digits'"),
        (["fit", "single", "--data", "toy/two-moons", "--network", "mpl"], "did you mean 'mlp'"),
        (["fit", "deep-ensemble", "--data", "toy/two-moons", "--members", "0"], "members is 0"),
        ([*FIT, "--batch-size", "100000"], "batch_size is 100000"),
        ([*FIT, "--learning-rate", "-1"], "learning_rate"),
        ([*FIT, "--augment", "flip"], "images"),
        ([*FIT, "--patience", "3"], "--validation"),
        ([*FIT, "--network-options", "hiden=(3,)"], "did you mean 'hidden'"),
        ([*FIT, "--network-options", "hidden"], "name=value"),
        ([*FIT, "--likelihood", "gaussian"], "likelihood is gaussian"),
        (["compare", "--methods", "single,forda", "--data", "toy/two-moons"], "unknown method"),
        (["compare", "--seeds", "0"], "seeds is 0"),
        (["compare", "--methods", ",", "--data", "toy/two-moons"], "methods is empty"),
        (["evaluate", "nowhere"], "not a run"),
        (["show", "nowhere"], "not a run"),
        (["report", "nowhere"], "not a run"),
        (["fit", "single", "--data", "missing.npz"], "missing.npz"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(capsys, work, arguments, words):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert words in err
    assert err.startswith("credax: error: ")
    assert err.count("\n") == 1
    assert list(work.iterdir()) == []


@pytest.mark.parametrize("flag", ["--epochs=many", "--no-such-flag=1"])
def test_bad_flags_exit_with_two(flag, work):
    with pytest.raises(SystemExit) as caught:
        main([*FIT, flag])
    assert caught.value.code == 2
    assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"x": np.full((9, 2), np.nan), "y": np.arange(9) % 2}, "not a finite"),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0, int)}, "x is empty"),
        ({"x": np.zeros((9, 2)), "y": np.zeros(8, int)}, "rows"),
    ],
)
def test_bad_files_of_the_user_are_named(capsys, work, content, words):
    np.savez(work / "mine.npz", **content)
    code, _, err = run(capsys, "fit", "single", "--data", "mine.npz", "--epochs", "1")
    assert code == 2
    assert words in err
    assert [p.name for p in work.iterdir()] == ["mine.npz"]


def test_a_corrupt_config_is_named(capsys, work, finished):
    (work / "run").mkdir()
    (work / "run" / "config.json").write_text('{"task": ')
    for name in ("evaluate", "show", "report"):
        code, _, err = run(capsys, name, "run")
        assert code == 2
        assert "config.json" in err
    (work / "run" / "config.json").write_text('{"task": {}}')
    code, _, err = run(capsys, "evaluate", "run")
    assert code == 2
    assert "not the configuration" in err


def test_an_unfinished_run_says_how_to_go_on(capsys, work, finished):
    (work / "run").mkdir()
    (work / "run" / "config.json").write_text((finished / "config.json").read_text())
    code, _, err = run(capsys, "evaluate", "run")
    assert code == 2
    assert "not finished" in err


def test_a_damaged_result_is_said_so(capsys, work, finished):
    (work / "run").mkdir()
    for path in finished.iterdir():
        if path.is_file():
            (work / "run" / path.name).write_bytes(path.read_bytes())
    members = work / "run" / "members.safetensors"
    members.write_bytes(members.read_bytes()[:-20])
    code, _, err = run(capsys, "evaluate", "run")
    assert code == 2
    assert "damaged" in err


def test_an_unwritable_place_is_one_sentence(capsys, work):
    (work / "file").write_text("precious")
    code, _, err = run(capsys, *FIT, "--out", work / "file" / "run")
    assert code == 2
    assert "--out" in err
    assert (work / "file").read_text() == "precious"


def _killed_and_resumed(folder: Path, arguments: list[str], seconds: float) -> bytes:
    process = subprocess.Popen(
        command(*arguments, "--out", folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 120
    while not (folder / "state.safetensors").exists() and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (folder / "members.safetensors").exists(), "the run ended before it was killed"
    subprocess.run(command(*arguments, "--out", folder, "--quiet"), check=True, capture_output=True)
    return (folder / "members.safetensors").read_bytes()


@pytest.mark.slow
def test_sigkill_at_a_random_moment_changes_no_byte(work):
    arguments = ["fit", "deep-ensemble", "--data", "toy/two-moons", "--members", "2"]
    arguments += ["--epochs", "4000", "--checkpoint-every", "1"]
    subprocess.run(
        command(*arguments, "--out", "whole", "--quiet"), check=True, capture_output=True
    )
    whole = (work / "whole" / "members.safetensors").read_bytes()
    moment = random.Random(os.getpid()).uniform(0, 0.5)
    assert _killed_and_resumed(work / "cut", arguments, moment) == whole


def test_show_structure_prints_groups_and_axes(capsys):
    code, out, _ = run(
        capsys, "show-structure", "cnn", "--input", "8,8,3", "--network-options", "channels=(4,6)"
    )
    assert code == 0
    assert "3 groups of hidden units" in out
    assert "group 0: 4 units, 1 scaling" in out
    assert (
        "params/1_conv/kernel  3 window × 3 window × 4 (group 0) input × 6 (group 1) output" in out
    )
    code, out, _ = run(capsys, "show-structure", "mlp", "--json", "--no-verify")
    assert code == 0
    assert [group["units"] for group in json.loads(out)["groups"]] == [64, 64]
    code, _, error = run(capsys, "show-structure", "mlp", "--input", "8,x")
    assert code == 2
    assert "32,32,3" in error


def test_control_characters_of_names_are_spelt_out(capsys):
    assert main(["show", "no\x1b[31mrun"]) == 2
    shown = capsys.readouterr().err
    assert "\x1b" not in shown
    assert r"no\x1b[31mrun" in shown


def test_brackets_in_names_are_printed_as_they_are(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = "fit single --data toy/two-moons --epochs 1 --train-rows 20 --quiet --out [red]mine"
    assert main(words.split()) == 0
    assert "run kept in [red]mine" in capsys.readouterr().out
    assert main(["list", "runs", "--root", "."]) == 0
    assert "[red]mine" in capsys.readouterr().out


def test_ctrl_c_while_the_program_starts_is_no_traceback():
    code = (
        "import os, signal, sys, importlib.abc\n"
        "class Late(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'tyro': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Late())\n"
        "from credax.cli import main\n"
        "main(['list', 'methods'])\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert found.returncode == 130, found.stderr
    assert "Traceback" not in found.stderr
