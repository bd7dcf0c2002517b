"""The command of ``make fuzz``: a case of every format, counted; a reader that fails is found."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FUZZ = Path(__file__).parent / "fuzz.py"


@pytest.mark.slow
def test_a_few_cases_of_every_format_do_no_harm():
    command = [sys.executable, str(FUZZ), "--count", "130", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = {line.split("  ")[0]: line.split()[-6:] for line in done.stdout.splitlines()[1:]}
    assert lines["all"][2:] == ["0"] * 4
    assert sum(map(int, lines["all"])) == 130


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    ("read", "column"),
    [
        (lambda folder: [np.ones(3)], "valid"),
        (lambda folder: [np.array([1.0, np.nan])], "non-finite"),
        (lambda folder: {}["missing"], "traceback"),
        (lambda folder: [np.ones(2**26)[:1]], "memory"),
    ],
)
def test_each_kind_of_harm_is_seen(monkeypatch, tmp_path, read, column):
    monkeypatch.syspath_prepend(FUZZ.parent)
    from formats import Format

    from fuzz import outcome

    form = Format("one", lambda folder: None, "*", read)
    assert outcome(form, tmp_path)[0] == column
