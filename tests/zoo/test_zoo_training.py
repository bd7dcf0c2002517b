"""Zoos trained here: members are those of an ensemble, resumable; the commands end to end."""

import json

import jax
import numpy as np
import pytest

import credax as cx
from credax.cli import main
from credax.errors import InputError
from credax.quality import compare_units
from credax.zoo import Zoo, analyse, train_zoo

pytestmark = pytest.mark.slow

NETWORK = {"name": "mlp", "options": {"hidden": (6,)}, "outputs": 3}
TRAINING = cx.Training(epochs=6, batch_size=10, learning_rate=0.05, strategy="vmap")


@pytest.fixture(scope="module")
def dataset(blobs):
    x, y = blobs
    return cx.Dataset("blobs", cx.data.Split(x[:50], y[:50]), cx.data.Split(x[50:], y[50:]))


@pytest.fixture(scope="module")
def problem():
    return cx.Problem(cx.networks.MLP((6,), outputs=3), cx.Categorical(), weight_decay=1e-3)


def train(problem, dataset, folder, count, **options):
    options = {"training": TRAINING, "network": NETWORK, "likelihood": "categorical", **options}
    return train_zoo(problem, dataset, folder, count=count, **options)


def test_members_are_those_of_an_ensemble_and_more_can_be_added(problem, dataset, tmp_path):
    told = []
    zoo = train(
        problem, dataset, tmp_path / "zoo", 5, at_once=2, progress=lambda *a: told.append(a)
    )
    ensemble = cx.fit(
        problem, cx.DeepEnsemble(members=7), dataset.train, training=TRAINING, progress=False
    )
    kernels = np.asarray(ensemble.variables.params["0_dense"]["kernel"])
    np.testing.assert_allclose(zoo[:, "0_dense/kernel"], kernels[:5], rtol=1e-4, atol=1e-5)
    assert told[-1][0] == pytest.approx(5)
    accuracy = [
        float(
            np.mean(np.asarray(ensemble.member(i).predict(dataset.test.x).label) == dataset.test.y)
        )
        for i in range(5)
    ]
    np.testing.assert_allclose(zoo.values("test_accuracy"), accuracy, atol=1e-6)
    longer = train(problem, dataset, tmp_path / "zoo", 7, at_once=4)
    np.testing.assert_allclose(longer[:, "0_dense/kernel"], kernels, rtol=1e-4, atol=1e-5)
    assert [s.members for s in longer.manifest.shards] == [5, 2]
    assert not list((tmp_path / "zoo").glob(".run-*"))
    with pytest.raises(InputError, match="other networks or settings"):
        train(problem, dataset, tmp_path / "zoo", 7, seed=1)


def test_a_stopped_training_goes_on_to_the_same_bytes(problem, dataset, tmp_path):
    train(problem, dataset, tmp_path / "whole", 6, at_once=2)

    def stop(done, text):
        if done > 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(problem, dataset, tmp_path / "broken", 6, at_once=2, progress=stop)
    with pytest.raises(InputError, match="no usable members"):
        Zoo.open(tmp_path / "broken")
    train(problem, dataset, tmp_path / "broken", 6, at_once=2)
    for path in (tmp_path / "whole").glob("*.*"):
        assert path.read_bytes() == (tmp_path / "broken" / path.name).read_bytes(), path.name


def test_members_that_learn_nothing_are_kept_out(problem, dataset, tmp_path):
    zoo = train(problem, dataset, tmp_path / "zoo", 4)
    scores = zoo.values("train_accuracy")
    with pytest.raises(InputError, match="no usable members"):
        train(problem, dataset, tmp_path / "none", 4, least_accuracy=1.0)
    assert scores.min() > 0.15
    records = (tmp_path / "none" / "members.jsonl").read_text().splitlines()
    assert [json.loads(line)["status"] for line in records] == ["failed"] * 4


def test_diverged_members_have_records_and_no_place(problem, dataset, tmp_path):
    wild = TRAINING.replace(learning_rate=1e30, schedule="constant")
    with pytest.raises(InputError, match="no usable members"):
        train(problem, dataset, tmp_path / "zoo", 3, training=wild)
    lines = (tmp_path / "zoo" / "members.jsonl").read_text().splitlines()
    assert [json.loads(line)["status"] for line in lines] == ["diverged"] * 3


def test_an_analysis_of_a_zoo(problem, dataset, tmp_path):
    zoo = train(problem, dataset, tmp_path / "zoo", 24)
    found = analyse(zoo, dataset.test.x, 5 * dataset.test.x, permutations=99)
    summary = found.summary()
    assert summary["members"] == 24
    assert found.halves.members == (12, 12)
    assert found.halves.interval.low < 0.05
    prediction = zoo.population([2, 9]).predict(dataset.test.x)
    pair = found.information.square()[2, 9]
    assert pair == pytest.approx(float(np.mean(prediction.epistemic)), abs=1e-5)
    assert set(summary["units_p_values"]) == {"0_dense/kernel"}
    json.dumps(summary)


def test_the_commands(tmp_path, capsys):
    folder = str(tmp_path / "zoo")
    flags = ["--data", "toy/two-moons", "--network-options", "hidden=(5,)", "--epochs", "3"]
    command = ["zoo", "train", *flags, "--count", "6", "--at-once", "4", "--out", folder, "--quiet"]
    assert main(command) == 0
    assert "6 usable of 6 networks" in capsys.readouterr().out
    assert main(command) == 0, "a finished zoo is only read"
    assert main(["zoo", "info", folder, "--json"]) == 0
    shown = capsys.readouterr().out
    assert '"members": 6' in shown
    assert main(["zoo", "verify", folder]) == 0
    assert main(["zoo", "table", folder]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("ok" in line for line in lines) == 6
    assert main(["zoo", "analyse", folder, "--json", "--permutations", "9"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["members"] == 6
    assert main(["zoo", "fly"]) == 2
    assert main(["zoo", "--help"]) == 0


def test_units_of_independent_digit_networks_are_exchangeable(tmp_path):
    """300 networks: the row test and the index test pass at 1 % (one layer, one seed)."""
    data = cx.data.load("digits")
    problem = cx.Problem(cx.networks.MLP((16,), outputs=10), cx.Categorical(), weight_decay=5e-4)
    training = cx.Training(epochs=10, batch_size=128, strategy="vmap")
    zoo = train(problem, data, tmp_path / "zoo", 300, training=training, network=NETWORK)
    found = compare_units(zoo, permutations=199)
    assert found.rows["0_dense/kernel"].p_value > 0.01
    assert found.index["0_dense/kernel"].p_value > 0.01
    assert jax.config.jax_enable_x64 is False


def test_a_kill_while_a_batch_is_stored_changes_no_byte(problem, dataset, tmp_path, monkeypatch):
    """The first shard, of three, is full inside the first batch of four; then the process dies."""
    options = {"at_once": 4, "shard_members": 3}
    train(problem, dataset, tmp_path / "whole", 6, **options)

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("credax.zoo.writer.ZooWriter._close_shard", dies)
        with pytest.raises(KeyboardInterrupt):
            train(problem, dataset, tmp_path / "broken", 6, **options)
    train(problem, dataset, tmp_path / "broken", 6, **options)
    for path in (tmp_path / "whole").glob("*.*"):
        assert path.read_bytes() == (tmp_path / "broken" / path.name).read_bytes(), path.name
