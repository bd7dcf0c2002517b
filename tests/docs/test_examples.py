"""The examples run as a person runs them."""

import subprocess
import sys

import pytest
from docs_text import ROOT

# The server takes a program and answers until it is stopped: tests/core/test_export.py runs it.
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name != "serve.py")


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path, tmp_path):
    answer = subprocess.run(
        [sys.executable, path], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip()
