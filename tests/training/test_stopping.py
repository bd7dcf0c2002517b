"""Signals, kills and members that stop: nothing is lost, nothing goes on that should not."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import credax as cx
from credax.data import Split
from credax.errors import InputError
from credax.training import RunFolder
from credax.training.interrupts import Interrupted, Signals, Terminated

PROBLEM = cx.Problem(cx.networks.MLP((8,), outputs=3), cx.Categorical())


def leaves(posterior):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(posterior.variables)]


class SignalAt:
    """A reporter that sends a signal to its own process after an epoch."""

    def __init__(self, epoch, number):
        self.epoch, self.number = epoch, number

    def start(self, *_):
        pass

    def update(self, done, text):
        if done >= self.epoch and self.number is not None:
            number, self.number = self.number, None
            os.kill(os.getpid(), number)

    def stop(self):
        pass


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, Interrupted), (signal.SIGTERM, Terminated)]
)
def test_a_signal_writes_a_checkpoint_and_the_run_ends_the_same(
    blobs, tmp_path, capsys, caplog, number, error
):
    data, method, training = Split(*blobs), cx.DeepEnsemble(2), cx.Training(8, 20)
    before = signal.getsignal(number)
    with pytest.raises(error) as caught:
        cx.fit(
            PROBLEM, method, data, training=training, folder=tmp_path / "a",
            progress=SignalAt(3, number),
        )  # fmt: skip
    assert signal.getsignal(number) is before
    assert "goes on with Deep ensemble" in capsys.readouterr().err
    assert "epoch 3 of 8" in str(caught.value) or caught.value.code == 143
    assert RunFolder(tmp_path / "a").progress()["epoch"] == 3
    with jax.log_compiles():
        for folder in (tmp_path / "a", tmp_path / "b"):
            cx.fit(PROBLEM, method, data, training=training, folder=folder, progress=False)
    compiled = [line for line in caplog.messages if line.startswith("Compiling jit(")]
    assert not any("advance" in line for line in compiled)  # the steps' program is there already
    a, b = (RunFolder(tmp_path / name).members.read_bytes() for name in "ab")
    assert a == b


def test_a_second_signal_does_not_wait():
    def twice():
        with Signals() as signals:
            signals.unsaved = True
            os.kill(os.getpid(), signal.SIGINT)
            assert signals.received == signal.SIGINT
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_threads_cannot_watch_signals_and_do_not_try(blobs):
    found = []
    training = cx.Training(1, 20)
    work = lambda: found.append(  # noqa: E731
        cx.fit(PROBLEM, "single", blobs, training=training, progress=False)
    )
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found


def _catches(process):
    """Whether a process has installed its handlers by now."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    mask = next(line.split()[1] for line in lines if line.startswith("SigCgt"))
    # Python catches SIGINT from its start on.
    return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("early", [True, False])
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_the_command_ends_with_a_sentence_and_its_code(tmp_path, number, code, early):
    """Early (imports, compiling) and in the training; never a traceback or a crash."""
    command = [sys.executable, "-m", "credax", "fit", "single", "--data", "digits", "--epochs"]
    command += ["100000", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    records, end = tmp_path / "run" / "metrics.jsonl", time.monotonic() + 60
    ready = lambda: _catches(process.pid)  # noqa: E731
    if not early:
        ready = lambda: records.exists() and records.read_text()  # noqa: E731
    while not ready() and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert "credax: stopped; " in err
    if not early:
        assert "the same command goes on" in err
        assert (tmp_path / "run" / "state.safetensors").exists()


def test_a_run_killed_before_its_last_line_is_finished_by_the_next_call(blobs, tmp_path):
    data, training = Split(*blobs), cx.Training(3, 20, checkpoint_every=1)
    fit = lambda: cx.fit(  # noqa: E731
        PROBLEM, cx.Single(), data, training=training, folder=tmp_path, progress=False
    )
    fit()
    folder, members = RunFolder(tmp_path), (tmp_path / "members.safetensors").read_bytes()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "metrics.jsonl").write_text("".join(lines[:-1]))  # killed here
    for name in (".members.safetensors.abcd1234", ".config.json.zzzz_999", ".mine"):
        (tmp_path / name).write_text("left behind")
    (tmp_path / "state.safetensors").write_bytes(b"old")
    assert folder.ending is None
    fit()
    assert folder.ending["step"] == 9
    assert folder.members.read_bytes() == members
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {".lock", ".mine", "config.json", "members.safetensors", "metrics.jsonl",
                     "rows.safetensors"}  # fmt: skip


def test_work_is_saved_every_thirty_seconds_whatever_the_chunks(blobs, tmp_path, monkeypatch):
    """With a checkpoint every 1000 chunks, the clock still asks for one."""
    import credax.training.loop as loop

    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    saved = []
    monkeypatch.setattr(RunFolder, "save_state", lambda *_: saved.append(1))
    training = cx.Training(4, 20, checkpoint_every=1000)
    cx.fit(PROBLEM, "single", blobs, training=training, folder=tmp_path, progress=False)
    assert len(saved) >= 4


@pytest.fixture(scope="module")
def overfitting():
    """Few noisy rows and a high rate: every member is at its best early, at its own time."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((120, 2)).astype(np.float32)
    y = ((x[:, 0] + rng.standard_normal(120)) > 0).astype(np.int32)
    problem = cx.Problem(cx.networks.MLP((32, 32), outputs=2), cx.Categorical())

    def fit(members, **settings):
        training = cx.Training(
            60, 20, optimiser="adam", learning_rate=0.02, schedule="constant", **settings
        )
        held = Split(x[60:], y[60:])
        return cx.fit(
            problem, cx.DeepEnsemble(members), Split(x[:60], y[:60]), training=training,
            validation=held, progress=False,
        )  # fmt: skip

    nll = lambda posterior: cx.evaluate(posterior.predict(x[60:]), y[60:])["nll"]  # noqa: E731
    return fit, nll


def test_a_member_that_settled_stops(overfitting):
    """Member i of 2 is member i of 5, however long the slowest takes; none overfits after it."""
    fit, nll = overfitting
    two, five = fit(2, patience=3), fit(5, patience=3)
    for a, b in zip(leaves(two), leaves(five), strict=True):
        np.testing.assert_allclose(a, b[:2], rtol=1e-5, atol=1e-6)
    assert nll(five) < nll(fit(5)) - 0.1
    assert nll(fit(5, patience=3, keep_best=True)) < nll(five) + 1e-6


def test_members_that_push_each_other_settle_too(overfitting, blobs):
    x, y = blobs
    training = cx.Training(30, 20, patience=1, learning_rate=1e-12)
    held = Split(x, y)
    posterior = cx.fit(
        PROBLEM, cx.WeightWGD(members=2), held, training=training, validation=held, progress=False
    )
    assert posterior.num_members == 2


def test_peak_memory_is_that_of_the_fit(blobs, tmp_path):
    """A wide network before a narrow one leaves no trace in what the narrow one is said to take."""
    x, y = blobs
    wide = cx.Problem(cx.networks.MLP((2000, 2000), outputs=3), cx.Categorical())

    def memory(problem, name):
        training = cx.Training(1, 20)
        cx.fit(problem, "single", (x, y), training=training, folder=tmp_path / name, progress=False)
        return RunFolder(tmp_path / name).ending["peak_memory_bytes"]

    alone = memory(PROBLEM, "narrow")
    much = memory(wide, "wide")
    after = memory(PROBLEM, "narrow again")
    assert after == pytest.approx(alone, abs=2e6)
    # Parameters, momentum and gradient of 2000 x 2000 numbers at the least.
    assert much > 3 * 4 * 2000**2
    assert alone < 5e6


def test_logs_get_plain_lines(blobs, capsys, monkeypatch):
    from credax.training.progress import Lines

    monkeypatch.setattr(Lines, "EVERY", 0.0)
    cx.fit(PROBLEM, "single", blobs, training=cx.Training(4, 20))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Single network: 4 epochs"
    assert any("of 4 epochs, loss" in line and "left" in line for line in lines)
    assert lines[-1].startswith("Single network: 4 of 4 epochs")


def test_dispatch_and_loop_are_the_only_steppings():
    with pytest.raises(InputError, match="stepping"):
        cx.Training(stepping="auto")
