"""Acquisitions side by side: folders that resume, tables, and a page that is complete."""

import csv
import json
import math

import numpy as np
import pytest

from credax.active.repeated import duplicates, origins, repeated
from credax.cli.main import main
from credax.data import Dataset, Split
from credax.report.learning import Learning, LearningRun, header, table
from credax.report.learning_page import learning_page

FLAGS = ["--data", "digits", "--train-rows", "120", "--test-rows", "60", "--network", "mlp"]
FLAGS += ["--network-options", "hidden=(8,)", "--members", "2", "--epochs", "5", "--query", "4"]
FLAGS += ["--rounds", "2", "--initial", "10", "--seeds", "2", "--quiet"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    root = tmp_path_factory.mktemp("compare") / "run"
    flags = [*FLAGS, "--acquisitions", "random,batchbald", "--repeat", "2", "--out", str(root)]
    assert main(["active", "compare", *flags]) == 0
    return root, flags


def test_a_comparison_leaves_a_table_curves_and_a_page(compared):
    root, _ = compared
    with open(root / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["arm"] for row in rows] == ["random", "batchbald"]
    assert rows[0]["gradient steps"] == str(3 * 5 * 2)  # rounds, epochs of one batch, members
    assert rows[0]["duplicates"].endswith(" of 16")
    with open(root / "curves.csv", newline="") as file:
        curves = list(csv.DictReader(file))
    assert len(curves) == 2 * 2 * 3
    assert sorted({row["labels"] for row in curves}) == ["10", "14", "18"]
    page = (root / "report.html").read_text()
    for heading in ("What does a label buy?", "What was bought first?", "Which classes"):
        assert heading in page
    assert "ceiling: log members" in page
    assert "<script" not in page
    assert page.count("data:image/png;base64,") == 2 * 8


def test_the_same_comparison_is_only_read_again(compared, monkeypatch, capsys):
    root, flags = compared
    states = {path: path.read_bytes() for path in root.glob("*/state.safetensors")}
    assert len(states) == 4
    import credax.active.loop as loop

    monkeypatch.setattr(loop, "ask_for", None)  # nothing is chosen again
    assert main(["active", "compare", *flags, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["arm"] for row in found["results"]] == ["random", "batchbald"]
    assert all(path.read_bytes() == content for path, content in states.items())


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--acquisitions", "balb"], "did you mean 'bald'"),
        (["--seeds", "0"], "seeds is 0"),
        (["--repeat", "0"], "repeat is 0"),
        (["--query", "400"], "the pool has 120 rows"),
    ],
)
def test_bad_comparisons_are_refused_in_one_sentence(flags, words, tmp_path, capsys):
    assert main(["active", "compare", *FLAGS, *flags, "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err


def run_of(arm, seed, values, **options):
    known = {"nll": values, "scores": [0.1] * 2, "ceiling": [None] * 2, "classes": [3, 1]}
    known |= {"duplicates": 0, "purchases": 4, "steps": 10, "seconds": 1.0, **options}
    return LearningRun(arm, seed, [2, 4, 6], values, **known)


def test_labels_needed_are_medians_and_say_which_seeds_did_not_arrive():
    """Seeds that never reach a level count as infinite, not as absent: else the worst would win."""
    runs = [
        run_of("good", 0, [0.5, 0.92, 0.96]),
        run_of("good", 1, [0.91, 0.93, 0.94]),
        run_of("good", 2, [0.5, 0.6, 0.97]),
        run_of("bad", 0, [0.5, 0.6, 0.7], duplicates=3),
        run_of("bad", 1, [0.5, 0.6, 0.91]),
        run_of("bad", 2, [0.5, 0.6, 0.7]),
    ]
    learning = Learning("title", "data", "accuracy", ("a", "b"), runs, {})
    rows = [dict(zip(header(learning), row, strict=True)) for row in table(learning)]
    assert rows[0]["labels for 90%"] == "4"
    assert rows[0]["labels for 95%"] == "6 (2 of 3 seeds)"
    assert rows[1]["labels for 90%"] == "over 6 (1 of 3 seeds)"
    assert rows[1]["labels for 95%"] == "not reached"
    assert rows[1]["duplicates"] == "3 of 12"
    assert math.isinf(runs[3].labels_for(0.9))
    np.testing.assert_allclose(learning.quartiles("good")[1][:, 0], [0.5, 0.5, 0.705])
    assert "<h2" in learning_page(learning)


def test_copies_are_counted_by_where_they_come_from():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    empty = Split(x[:0], np.zeros(0, np.int32))
    data = repeated(Dataset("d", Split(x, np.arange(3)), empty), 3, noise=0.1)
    assert data.train.x.shape == (9, 2)
    assert data.train.y.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    np.testing.assert_allclose(data.train.x[::3], x, atol=1.0)
    assert len(np.unique(data.train.x[:3], axis=0)) == 3
    bought = np.array([0, 3, 1, 4, 8])
    assert duplicates(origins(data.train.x, bought, 3)) == 2
    assert duplicates(origins(data.train.x, bought)) == 0
    assert duplicates(origins(data.train.x, bought, 3), initial=4) == 0
