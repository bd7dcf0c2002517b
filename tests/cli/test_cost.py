"""``credax fit --dry-run --devices``: the projection is its formula."""

import json

import pytest

import credax as cx
from credax.cli import cost, main
from credax.cli.cost import check_devices, projected
from credax.data import Split

FLAGS = ["fit", "deep-ensemble", "--data", "toy/two-moons", "--dry-run", "--json"]


def project(monkeypatch, blobs, members, devices, speed, epochs=6):
    monkeypatch.setattr(cost, "_seconds_of_a_step", lambda *_: 0.5)
    problem = cx.Problem(cx.networks.MLP((4,), outputs=3), cx.Categorical())
    training, split = cx.Training(epochs=epochs, batch_size=20), Split(*blobs)
    dynamics = cx.DeepEnsemble(members).dynamics(problem, split, training)
    return projected(problem, dynamics, training, split, 1_000_000, devices, speed)


def test_hours_are_steps_times_replicas_of_a_device(monkeypatch, blobs):
    """18 steps; 10 members on 4 devices are 3 each (4 devices hold 3, 3, 3, 1)."""
    found = project(monkeypatch, blobs, members=10, devices=4, speed=2.0)
    assert (found["used"], found["replicas per device"]) == (4, 3)
    assert found["hours"] == pytest.approx(18 * 3 * 0.5 / 2.0 / 3600, rel=5e-3)
    assert found["device hours"] == pytest.approx(4 * 18 * 3 * 0.5 / 2.0 / 3600, rel=5e-3)


def test_a_data_axis_pays_for_its_gradients(monkeypatch, blobs):
    """One member on 2 devices, 10 rows each: half the time, and 8 bytes a parameter and step."""
    found = project(monkeypatch, blobs, members=1, devices=2, speed=1.0)
    assert (found["along data"], found["rows per device and step"]) == (2, 10)
    assert found["hours"] == pytest.approx(18 * (0.25 + 8e6 / 1e10) / 3600, rel=5e-3)


def test_it_is_printed_after_a_step_here(capsys):
    assert (
        main([*FLAGS, "--members", "3", "--epochs", "2", "--batch-size", "64", "--devices", "64"])
        == 0
    )
    found = json.loads(capsys.readouterr().out)["devices"]
    assert found["used"] == 24  # three members, eight shares of 64 rows
    assert 0 < found["seconds per step of a replica here"] < 5
    assert "projection" in found["kind"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((8, None, False), "devices is 8 without --dry-run"),
        ((0, None, True), "devices is 0; give a positive number"),
        ((None, 2.0, True), "device_speed is 2.0 without --devices"),
        ((8, -1.0, True), "device_speed is -1.0"),
    ],
)
def test_numbers_that_cannot_be_used(given, words, refused):
    refused(lambda: check_devices(*given), words)
