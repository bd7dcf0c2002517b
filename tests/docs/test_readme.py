"""The README's code and commands, run as they stand."""

import shlex

import numpy as np
import pytest
from docs_text import README, blocks

import credax as cx
from credax.cli import main


@pytest.mark.slow
def test_the_python_example():
    example = next(block.code for block in blocks(README) if block.language == "python")
    names = {}
    exec(example, names)
    assert cx.evaluate(names["prediction"], names["data"].test.y)["accuracy"] > 0.95
    assert names["prediction"].epistemic.shape == names["data"].test.y.shape


def commands():
    lines = "".join(block.code for block in blocks(README) if block.language == "console")
    shown = [line for line in lines.splitlines() if line.startswith("$ credax")]
    return [shlex.split(line, comments=True)[2:] for line in shown]


def here(arguments):
    """Whether a command's data set is on this machine: large ones may not be."""
    named = arguments[arguments.index("--data") + 1] if "--data" in arguments else "digits"
    return cx.data.describe(named).available()


@pytest.mark.slow
def test_the_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("inputs.npy", cx.data.load("digits").test.x[:3])
    assert {line[0] for line in commands()} >= {"compare", "fit", "evaluate", "predict", "report"}
    for arguments in filter(here, commands()):
        quick = ["--epochs", "1", "--quiet"] if arguments[0] in ("compare", "fit") else []
        quick = ["--scale", "test", "--quiet"] if arguments[0] == "reproduce" else quick
        assert main([*arguments, *quick]) == 0, capsys.readouterr().err
    assert (tmp_path / "runs" / "compare_digits" / "report.html").exists()
    assert (tmp_path / "runs" / "ensemble" / "report.html").exists()
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 4
