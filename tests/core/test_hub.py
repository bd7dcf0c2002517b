"""Runs pushed to a hub and loaded from it, against a small server on the loopback address."""

import json
import sys

import numpy as np
import pytest

import credax as cx
from credax import hub, zoo
from credax.cli.main import main

pytest.importorskip("huggingface_hub")
sys.path.insert(0, __file__.rpartition("/")[0])
from hub_server import serving


@pytest.fixture
def server(tmp_path, monkeypatch):
    with serving() as running:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{running.server_port}")
        monkeypatch.setenv("HF_TOKEN", "hf_nobody")
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
        yield running


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "mine"
    data = cx.data.load("toy/two-moons", train=30, test=10)
    problem = cx.Problem(cx.networks.MLP((3,), outputs=2), cx.Categorical())
    training = cx.Training(epochs=1, batch_size=10)
    posterior = cx.fit(problem, "single", data, training=training, folder=folder, progress=False)
    return folder, posterior, data.test.x


def test_what_is_pushed_is_what_is_loaded(server, run, tmp_path, capsys):
    folder, posterior, x = run
    assert main(["push", str(folder), "hf://user/moons"]) == 0
    files = server.repositories["user/moons"]
    assert {*files} == {"config.json", "members.safetensors", "metrics.jsonl", "README.md"}
    assert files["members.safetensors"] == (folder / "members.safetensors").read_bytes()
    card = files["README.md"].decode()
    assert 'cx.load("hf://user/moons")' in card
    assert "30 train, 10 test" in card
    assert card.startswith("---\nlibrary_name: credax")
    loaded = cx.load("hf://user/moons")
    np.testing.assert_array_equal(loaded.predict(x).probs, posterior.predict(x).probs)
    assert main(["pull", "hf://user/moons", str(tmp_path / "copy")]) == 0
    again = cx.load(tmp_path / "copy").predict(x)
    np.testing.assert_array_equal(again.probs, posterior.predict(x).probs)


def test_rows_are_pushed_only_when_asked(server, run):
    folder, _, _ = run
    hub.push(folder, "hf://user/with-rows", rows=True)
    assert "rows.safetensors" in server.repositories["user/with-rows"]


def test_paths_of_the_machine_stay_here():
    config = {
        "command": "credax fit --data /home/me/secret.csv",
        "dataset": {"path": "/home/me/secret.csv"},
        "task": {"data": "/home/me/secret.csv", "data_dir": "/home/me"},
    }
    assert "/home" not in json.dumps(hub._public(config))


def test_only_json_and_safetensors_are_fetched(server, run, tmp_path):
    hub.push(run[0], "hf://user/mixed")
    server.repositories["user/mixed"]["evil.pkl"] = b"cos\nsystem\n"
    found = hub.pull("hf://user/mixed", tmp_path / "here")
    assert not (found / "evil.pkl").exists()
    assert not any("evil" in request for request in server.requests)


def test_what_cannot_be_is_one_sentence(server, run, tmp_path):
    with pytest.raises(cx.InputError, match="give hf://user/name"):
        hub.push(run[0], "hf://moons")
    with pytest.raises(cx.InputError, match="neither a run nor a zoo"):
        hub.push(tmp_path, "hf://user/nothing")
    with pytest.raises(cx.InputError, match="fetching hf://user/absent failed"):
        cx.load("hf://user/absent")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("mine")
    with pytest.raises(cx.InputError, match="not empty"):
        hub.pull("hf://user/absent", tmp_path / "full")


def test_a_zoo_goes_the_same_way(server, tmp_path):
    problem = cx.Problem(cx.networks.MLP((5,), outputs=3), cx.Categorical())
    network = {"name": "mlp", "options": {"hidden": (5,)}, "outputs": 3}
    manifest = zoo.Manifest.of(problem, np.zeros((1, 4), np.float32), network, "categorical")
    with zoo.ZooWriter(tmp_path / "zoo", manifest) as writer:
        for i in range(3):
            arrays = {n: np.full(s, i, np.float32) for n, s in manifest.shapes.items()}
            writer.append(arrays, {"name": f"net-{i}"})
        writer.finish()
    hub.push(tmp_path / "zoo", "hf://user/zoo")
    found = zoo.Zoo.open(hub.pull("hf://user/zoo", tmp_path / "copy"), verify=True)
    for name in manifest.shapes:
        stored = found[:, name].reshape(3, -1)
        np.testing.assert_array_equal(stored, np.arange(3.0)[:, None] * np.ones_like(stored))
    assert b"# 3 networks" in server.repositories["user/zoo"]["README.md"]
