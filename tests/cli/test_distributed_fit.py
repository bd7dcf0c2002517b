"""``credax fit --distributed``: processes are compared first, end together, and resume."""

import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from credax.cli.distributed import Processes
from credax.files import load_arrays

sys.path.insert(0, str(Path(__file__).parent.parent / "fuzz"))
from process_kills import ended, faults_of, start


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"coordinator": "a:1"}, "without --distributed"),
        ({"distributed": True, "coordinator": "a:1"}, "process_id None; give all three"),
        (
            {"distributed": True, "coordinator": "a", "processes": 2, "process_id": 0},
            "coordinator is 'a'; give HOST:PORT",
        ),
        (
            {"distributed": True, "coordinator": "a:1", "processes": 2, "process_id": 2},
            "process_id is 2 and there are 2 processes",
        ),
    ],
)
def test_flags_that_do_not_fit(given, words, refused):
    refused(lambda: Processes(**given), words)


@pytest.mark.slow
def test_processes_with_other_settings_are_refused_before_training(tmp_path):
    for code, err in ended(start(tmp_path / "run", 2, 4, own=["--seed", "1"]), 120):
        assert code == 2
        assert err.count("\n") == 1
        assert "differ in the seed (process 1 from process 0)" in err
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_one_killed_process_ends_the_other_and_the_run_resumes_on_one(tmp_path, victim):
    """The first process holds jax's service, so its end is another case than a later one's."""
    folder, epochs = tmp_path / "run", 300
    processes = start(folder, 2, epochs)
    until = time.monotonic() + 100
    while not (folder / "state.json").exists() and time.monotonic() < until:
        time.sleep(0.05)
    processes[victim].send_signal(signal.SIGKILL)
    began = time.monotonic()
    found = ended(processes, 20)
    assert time.monotonic() - began < 20
    assert faults_of(found, victim) == []
    code, err = found[1 - victim]
    assert code == 75
    assert "the same command goes on with Deep ensemble" in err
    if victim == 0:
        return
    [(code, err)] = ended(start(folder, 1, epochs, devices=2), 200)
    assert code == 0, err
    [(code, err)] = ended(start(tmp_path / "whole", 1, epochs, devices=2), 200)
    assert code == 0, err
    one, other = (load_arrays(p / "members.safetensors")[0] for p in (folder, tmp_path / "whole"))
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-3, atol=1e-4)
