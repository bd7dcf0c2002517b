"""Code of the user's own on the command line: run when the user names it, refused when changed."""

import json
import warnings

import numpy as np
import pytest

from credax.cli import main

CODE = """
import jax, jax.numpy as jnp
import credax as cx

def make(outputs, width=4):
    return cx.networks.MLP((width,), outputs=outputs)

ready = cx.networks.MLP((3,), outputs=2)

class Sharp(cx.Likelihood):
    task = "classification"

    def log_prob(self, outputs, y):
        return jnp.take_along_axis(jax.nn.log_softmax(2 * outputs), y[:, None], -1)[:, 0]

    def predict(self, outputs):
        return cx.ClassPrediction.from_logits(2 * outputs)

    def check(self, y, outputs):
        cx.Categorical().check(y, outputs)

def shake(key, x, y):
    return x + 0.01 * jax.random.normal(key, x.shape), y

number = 3
"""
DATA = ["--data", "toy/two-moons", "--train-rows", "60", "--epochs", "2"]
OWN = ["--network", "mine.py:make", "--network-options", "width=5"]
OWN += ["--likelihood", "mine.py:Sharp", "--augment", "mine.py:shake"]
FIT = ["fit", "single", *DATA, *OWN, "--quiet"]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CODE)
    return tmp_path / "mine.py"


def said(capsys, *words):
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.mark.slow
def test_a_run_with_own_code_from_fit_to_prediction(mine, capsys, tmp_path):
    """Fit, resume, refuse a changed file, evaluate and predict when the file is named again."""
    assert said(capsys, *FIT, "--out", "run")[0] == 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert set(config["code"]) == {"network", "likelihood", "augment shake"}
    assert config["code"]["network"]["file"] == "mine.py"
    assert config["code"]["network"]["outputs"] == 2
    assert said(capsys, *FIT, "--out", "run")[0] == 0  # the finished run is read
    code, text = said(capsys, "evaluate", "run")
    assert code == 2
    assert "come from code of your own; name its file again to run it: --problem mine.py" in text
    code, first = said(capsys, "evaluate", "run", "--problem", "mine.py")
    assert code == 0
    np.save(tmp_path / "new.npy", np.zeros((2, 2), np.float32))
    words = ["predict", "run", "new.npy", "--problem", "mine.py", "--out", "out.csv"]
    assert said(capsys, *words)[0] == 0
    assert said(capsys, "report", "run", "--problem", "mine.py")[0] == 0
    mine.write_text(CODE + "# an afterthought\n")
    for command in (["evaluate", "run", "--problem", "mine.py"], [*FIT, "--out", "run"]):
        code, text = said(capsys, *command)
        assert code == 2
        assert "its content has changed" in text
        assert "\n" not in text.strip()
    mine.write_text(CODE)
    assert said(capsys, "evaluate", "run", "--problem", "mine.py") == (0, first)


def test_a_folder_never_runs_code_by_itself(mine, capsys, tmp_path):
    """What a configuration names is not run, however it is written."""
    assert said(capsys, *FIT, "--out", "run")[0] == 0
    trap = tmp_path / "trap"
    mine.write_text(f"open({str(trap)!r}, 'w')\n" + CODE)
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_text())
    for name in ("format", "code"):
        config.pop(name)
        path.write_text(json.dumps(config))
        assert said(capsys, "evaluate", "run")[0] == 2
    assert not trap.exists()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--network", "gone.py:make"], "there is no file gone.py"),
        (["--network", "mine.py:nothing"], "has no 'nothing'; it has"),
        (["--network", "mine.py:number"], "name a function outputs -> network"),
        (["--network", "mine.py:shake"], "cannot be called with the number of outputs"),
        (["--network", "mine.py:Sharp"], "cannot be called with the number of outputs"),
        (["--network", "mine.py:ready", "--network-options", "width=3"], "leave them out"),
        (["--likelihood", "mine.py:number"], "likelihood is mine.py:number, a int"),
        (["--augment", "mine.py:number"], "name a function (key, x, y)"),
        (["--likelihood", "poison"], "did you mean 'poisson'"),
        (["--likelihood", "poisson"], "is for classification"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(mine, capsys, flags, words):
    code, text = said(capsys, "fit", "single", *DATA, *flags)
    assert code == 2
    assert words in text
    assert "\n" not in text.strip()


def test_a_zoo_keeps_networks_by_name(mine, capsys):
    code, text = said(
        capsys, "zoo", "train", *DATA[:2], "--network", "mine.py:make", "--count", "2"
    )
    assert code == 2
    assert "mine.py:make is code of your own" in text


@pytest.mark.slow
def test_around_a_run_on_the_command_line(mine, capsys, tmp_path):
    """Laplace of a run's network is that of the same population in Python; others are refused."""
    import credax as cx

    fit = ["fit", "single", *DATA, "--quiet"]
    assert said(capsys, *fit, "--out", "one")[0] == 0
    around = ["fit", "laplace", *DATA, "--around", "one", "--out", "two", "--quiet"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two epochs end at no mode
        assert said(capsys, *around)[0] == 0
    x = np.zeros((1, 2), np.float32)
    one, two = (cx.open_run(tmp_path / name).posterior() for name in ("one", "two"))
    for a, b in zip(*(sorted_leaves(p) for p in (one, two)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert two.predict(x).num_members > 1
    code, text = said(capsys, *around[:-4], "one", *OWN[:2], "--out", "three")
    assert code == 2
    assert "which has another network than this command" in text
    again = ["fit", "swag", *DATA, "--around", "two", "--out", "four"]
    code, text = said(capsys, *again)
    assert code == 2
    assert "a run of laplace, which keeps no plain networks" in text


def sorted_leaves(posterior):
    import jax

    return jax.tree.leaves(posterior.variables.params)
