"""``--cluster``: trainings on the workers of a Dask cluster are those of the command alone."""

import subprocess
import sys
from pathlib import Path

import pytest

from credax.cli import cluster, main
from credax.cli.cluster import Work, raise_first, work
from credax.cli.cluster_view import View
from credax.errors import FolderInUse

sys.path.insert(0, str(Path(__file__).parent.parent / "fuzz"))
from cluster_kills import results

DATA = ["--data", "toy/two-moons", "--network-options", "hidden=(4,)", "--batch-size", "64"]
COMPARE = ["compare", *DATA, "--methods", "single", "--seeds", "2", "--epochs", "2", "--quiet"]


def test_a_comparison_on_workers_is_the_sequential_one(tmp_path):
    """In a process of its own: workers are processes that begin with the main module's file."""
    for name, more in (("alone", []), ("spread", ["--cluster", "local:2"])):
        command = [sys.executable, "-m", "credax", *COMPARE, "--out", str(tmp_path / name), *more]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
    assert len(results(tmp_path / "alone")) == 3
    assert results(tmp_path / "alone") == results(tmp_path / "spread")


@pytest.mark.slow
def test_a_zoo_on_workers_is_the_sequential_one(tmp_path):
    flags = ["zoo", "train", *DATA, "--network", "mlp", "--count", "5", "--at-once", "2"]
    flags += ["--epochs", "2", "--quiet"]
    for name, more in (("alone", []), ("spread", ["--cluster", "local:2"])):
        command = [sys.executable, "-m", "credax", *flags, "--out", str(tmp_path / name), *more]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    shards = [sorted((tmp_path / name).glob("shard-*")) for name in ("alone", "spread")]
    assert [p.read_bytes() for p in shards[0]] == [p.read_bytes() for p in shards[1]]
    assert len(shards[0]) == 1


COMMANDS = {
    "reproduce": ["reproduce", "forde-toy-1d", "--scale", "test", "--seeds", "1", "--quiet"],
    "active": [
        *("active", "compare", *DATA, "--methods", "single", "--acquisitions", "random,entropy"),
        *("--seeds", "1", "--rounds", "1", "--initial", "8", "--query", "2", "--epochs", "2"),
        "--quiet",
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_other_commands_write_the_same_table(tmp_path, name, monkeypatch, capsys):
    """Each training by itself, as workers do it, before the command: the same table."""

    def here(address, command, arguments, works, quiet):
        words = [
            work(command, list(arguments), ["credax"], n, cluster.__version__, ".") for n in works
        ]
        assert words == [None] * len(works)
        trained.extend(works.values())
        return {}

    trained: list[Work] = []
    monkeypatch.setattr(cluster, "train_on", here)
    assert main([*COMMANDS[name], "--out", str(tmp_path / "alone")]) == 0
    assert main([*COMMANDS[name], "--out", str(tmp_path / "spread"), "--cluster", "local:1"]) == 0
    assert len(trained) > 1
    assert all(one.folder.is_dir() for one in trained)
    table = "curves.csv" if name == "active" else "results.csv"  # the other one has seconds
    tables = [(tmp_path / n / table).read_text() for n in ("alone", "spread")]
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("local:0", "cluster is 'local:0'; give the number of workers"),
        ("somewhere", "cluster is 'somewhere'; give local:N"),
        ("tcp://127.0.0.1:9", "no Dask scheduler answers at tcp://127.0.0.1:9"),
    ],
)
def test_addresses_that_lead_nowhere(tmp_path, address, words, refused, monkeypatch):
    monkeypatch.setattr(cluster, "RECONNECT_SECONDS", 0)
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    works = {0: Work("one", tmp_path)}
    refused(lambda: cluster.train_on(address, "compare", [], works, True), words)


def test_a_worker_of_another_version_is_refused_before_and_during(refused):
    class Client:
        def run(self, function):
            return {"tcp://a:1": function(), "tcp://b:2": "0.0.7"}

    check = lambda: cluster._refuse_other_versions(Client(), "tcp://a:0")  # noqa: E731
    refused(check, "the worker at tcp://b:2 has credax 0.0.7 and this command is")
    words = work("compare", COMPARE, ["credax"], 0, "0.0.7", ".")
    assert words is not None
    assert "and the command is 0.0.7" in words


def test_a_worker_that_does_not_see_the_folder_says_so(tmp_path):
    words = work("compare", COMPARE, ["credax"], 0, cluster.__version__, str(tmp_path / "no"))
    assert words is not None
    assert "a worker has no folder" in words


def test_a_folder_that_another_worker_has_is_waited_for(monkeypatch):
    monkeypatch.setattr(cluster.time, "sleep", lambda seconds: None)
    tries = []

    def train():
        tries.append(1)
        if len(tries) < 3:
            raise FolderInUse("held")

    cluster._when_free(train)
    assert len(tries) == 3


def test_failures_are_one_sentence(refused):
    works = {3: Work("SWAG, seed 1", Path("a")), 5: Work("Single, seed 0", Path("b"))}
    refused(
        lambda: raise_first({5: "no room", 3: "no data"}, works),
        "2 of 2 trainings failed, the first of them SWAG, seed 1: no data",
    )
    raise_first({}, works)


def test_the_view_shows_how_far_each_is(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"epoch": 3.0, "step": 9, "loss": 0.25}\n')
    view = View({0: ("one", tmp_path), 1: ("two", tmp_path / "none")}, quiet=True)
    view.update({0, 1})
    assert view.lines() == [
        "0 of 2 trainings, 2 running",
        "  one: epoch 3, loss 0.25",
        "  two: begins",
    ]
    view.ended(1, False)
    assert view.lines()[0] == "1 of 2 trainings, 1 failed, 1 running"


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"credax\[cluster\]"):
        cluster.train_on("local:1", "compare", [], {0: Work("one", Path("a"))}, True)
    assert cluster.train_on("local:1", "compare", [], {}, True) == {}
