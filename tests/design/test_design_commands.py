"""``credax design``: an experimenter at the keyboard."""

import json

import pytest

from credax.cli import main

OWN = """
import jax
import numpy as np
from jax.scipy.stats import norm

from credax.design import DesignModel

model = DesignModel(
    prior_sample=lambda key: jax.random.normal(key),
    prior_log_prob=lambda theta: norm.logpdf(theta),
    outcome_sample=lambda key, theta, xi: xi * theta + jax.random.normal(key),
    outcome_log_prob=lambda y, theta, xi: norm.logpdf(y, xi * theta),
    designs=np.array([0.5, 1.0, 3.0]),
    name="slope",
    title="Slope",
)
"""


def test_working_memory_at_the_keyboard(tmp_path, capsys):
    """The exact path: seven digits, then six after a failure, then five."""
    run = str(tmp_path / "run")
    assert main(["design", "start", "working-memory", "--out", run]) == 0
    assert "next experiment: 7.0" in capsys.readouterr().out
    assert main(["design", "tell", run, "0"]) == 0
    assert "next experiment: 6.0" in capsys.readouterr().out
    before = (tmp_path / "run" / "design.json").read_bytes()
    assert main(["design", "ask", run, "--json"]) == 0
    asked = json.loads(capsys.readouterr().out)
    assert (asked["design"], asked["experiments"]) == (6.0, 1)
    assert asked["expected"] == pytest.approx(0.174755, abs=1e-6)
    assert (tmp_path / "run" / "design.json").read_bytes() == before
    assert main(["design", "tell", run, "0", "--design", "9"]) == 0
    assert main(["design", "report", run]) == 0
    page = (tmp_path / "run" / "report.html").read_text()
    for words in ("What is believed now", "expected of a random plan", "Which experiment next"):
        assert words in page


def test_a_stopped_run_goes_on_to_the_same_bytes(tmp_path):
    """An outcome that was kept before a stop is asked after, as if nothing had been."""
    runs = [tmp_path / name for name in ("whole", "stopped")]
    for run in runs:
        assert main(["design", "start", "working-memory", "--out", str(run)]) == 0
        assert main(["design", "tell", str(run), "1"]) == 0
    content = json.loads((runs[1] / "design.json").read_text())
    (runs[1] / "design.json").write_text(json.dumps(content | {"asked": None}))
    assert main(["design", "ask", str(runs[1])]) == 0
    assert (runs[0] / "design.json").read_bytes() == (runs[1] / "design.json").read_bytes()


def test_a_model_of_ones_own(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    own, run = f"{file}:model", str(tmp_path / "run")
    small = ["--outer", "200", "--inner", "100"]
    assert main(["design", "start", own, "--out", run, *small]) == 0
    assert "next experiment: 3.0" in capsys.readouterr().out
    assert main(["design", "tell", run, "1.5"]) == 2
    assert "a folder never names code to run" in capsys.readouterr().err
    assert main(["design", "tell", run, "1.5", "--model", own]) == 0
    assert "1 experiment done" in capsys.readouterr().out
    assert main(["design", "report", run, "--model", own]) == 0
    page = (tmp_path / "run" / "report.html").read_text()
    for words in ("expected of a fixed plan", "expected of random designs", "this run: divergence"):
        assert words in page
    capsys.readouterr()
    file.write_text(OWN + "\n# changed\n")
    assert main(["design", "ask", run, "--model", own]) == 2
    assert "has changed since" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["start", "working-memry"], "did you mean 'working-memory'"),
        (["start", "location-finding", "--option", "sources"], "option is 'sources'"),
        (["start", "location-finding", "--option", "colour=1"], "no such option"),
        (["start", "nothing.py:model"], "there is no file"),
        (["ask", "nowhere"], "is not a run of credax design"),
        (["guess"], "unknown design command"),
    ],
)
def test_what_is_refused(tmp_path, monkeypatch, capsys, flags, words):
    monkeypatch.chdir(tmp_path)
    assert main(["design", *flags]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["2"], "outcome is 2; those of working-memory are 0, 1"),
        (["yes"], "OUTCOME is 'yes'"),
        (["[0, 1]"], "outcome has shape (2,)"),
        (["1", "--design", "99"], "outside of the bounds"),
        (["1", "--model", "mine.py:model"], "leave it out"),
    ],
)
def test_outcomes_that_are_refused_leave_no_trace(tmp_path, capsys, flags, words):
    run = tmp_path / "run"
    assert main(["design", "start", "working-memory", "--out", str(run)]) == 0
    before = (run / "design.json").read_bytes()
    assert main(["design", "tell", str(run), *flags]) == 2
    assert words in capsys.readouterr().err
    assert (run / "design.json").read_bytes() == before


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("policies") / "memory"
    flags = ["--steps", "5", "--hidden", "8", "--evaluate-outer", "64", "--evaluate-inner", "100"]
    train = ["design", "train", "working-memory", "--rounds", "2", "--out", str(folder), *flags]
    assert main(train) == 0
    assert main(train) == 2
    # Stopped before its evaluation: the policy is read, not trained again.
    policy, results = folder / "policy.safetensors", folder / "results.json"
    before, kept = policy.stat().st_mtime_ns, results.read_bytes()
    results.unlink()
    assert main(train) == 0
    assert (policy.stat().st_mtime_ns, results.read_bytes()) == (before, kept)
    return folder


def test_a_policy_is_trained_and_compared(trained):
    content = json.loads((trained / "results.json").read_text())
    names = ["random", "static", "myopic", "greedy", "trained policy"]
    assert list(content["information"]) == names
    assert content["information"]["greedy"]["exact"] == pytest.approx(0.405893, abs=1e-6)
    assert content["information"]["random"]["exact"] is None


def test_a_trained_policy_asks(trained, tmp_path, capsys):
    """Its designs, as many as it was trained for; the folder holds its own copy."""
    run, policy = str(tmp_path / "run"), str(trained / "policy.safetensors")
    start = ["design", "start", "working-memory", "--policy", policy]
    assert main([*start, "--out", run]) == 0
    assert "expected information" in capsys.readouterr().out
    assert (tmp_path / "run" / "policy.safetensors").exists()
    assert main(["design", "tell", run, "1"]) == 0
    assert "next experiment" in capsys.readouterr().out
    assert main(["design", "tell", run, "0"]) == 0
    assert "all 2 experiments of the policy are done" in capsys.readouterr().out
    assert main(["design", "ask", run]) == 2
    assert "was trained for 2 experiments" in capsys.readouterr().err
    other = ["--option", "most=12", "--out", str(tmp_path / "other")]
    assert main([*start, *other]) == 2
    assert "use the model it was trained for" in capsys.readouterr().err
    changed = ["--option", "mean=6.0", "--out", str(tmp_path / "changed")]
    assert main([*start, *changed]) == 2
    assert "use the same model and options" in capsys.readouterr().err
