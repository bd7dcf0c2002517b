"""The README's code and commands, run as they stand."""

import shlex
from itertools import pairwise

import numpy as np
import pandas
import pytest
from docs_text import README, blocks

import credax as cx
from credax.cli import main


@pytest.mark.slow
def test_the_python_example():
    first, example = [b.code for b in blocks(README) if b.language == "python"][:2]
    names = {"cx": cx, "frame": customers(60)}
    exec(first, names)
    assert names["prediction"].probs.shape == (len(names["data"].test), 2)
    exec(example, names)
    assert cx.evaluate(names["prediction"], names["data"].test.y)["accuracy"] > 0.95
    assert names["prediction"].epistemic.shape == names["data"].test.y.shape


def customers(rows):
    """A table like that of the first screen, whose outcome depends on its colour."""
    generator = np.random.default_rng(0)
    days = np.datetime64("2023-01-01") + generator.integers(0, 700, rows)
    colour = generator.choice(["red", "blue", ""], rows)
    return pandas.DataFrame(
        {
            "id": np.arange(rows),
            "colour": np.where(colour == "", None, colour),
            "since": days.astype(str),
            "size": generator.normal(3, 1, rows).round(1),
            "outcome": np.where(colour == "red", "stayed", "left"),
        }
    )


def commands():
    lines = "".join(block.code for block in blocks(README) if block.language == "console")
    shown = [line for line in lines.splitlines() if line.startswith("$ credax")]
    return [shlex.split(line, comments=True)[2:] for line in shown]


def here(arguments):
    """Whether a command's data sets are on this machine: large ones may not be."""
    named = [b for a, b in pairwise(arguments) if a in ("--data", "--ood", "--shift")]
    known = [name for value in named for name in value.split(",") if name in cx.data.names()]
    return all(cx.data.describe(name).available() for name in known)


@pytest.mark.slow
def test_the_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("inputs.npy", cx.data.load("digits").test.x[:3])
    customers(60).to_csv("customers.csv", index=False)
    customers(5).drop(columns="outcome").to_csv("new.csv", index=False)
    pool = customers(60).drop(columns="id").rename(columns={"outcome": "label"})
    pool.loc[20:, "label"] = None
    pool.to_csv("pool.csv", index=False)
    assert {line[0] for line in commands()} >= {"compare", "fit", "evaluate", "predict", "report"}
    for arguments in filter(here, commands()):
        short = arguments[0] in ("compare", "fit", "active")
        quick = ["--epochs", "1", "--quiet"] if short else []
        quick = ["--scale", "test", "--quiet"] if arguments[0] == "reproduce" else quick
        # A large data set that happens to be on this machine is not trained on whole.
        few = ["--train-rows", "200", "--test-rows", "50"] if "fashion-mnist" in arguments else []
        quick = [*quick, *few]
        assert main([*arguments, *quick]) == 0, capsys.readouterr().err
    assert (tmp_path / "runs" / "compare_digits" / "report.html").exists()
    assert (tmp_path / "runs" / "ensemble" / "report.html").exists()
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 4
