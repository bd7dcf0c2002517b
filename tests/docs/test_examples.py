"""The examples run as a person runs them."""

import subprocess
import sys

import pytest
from docs_text import ROOT

# These take an exported program; tests/core/test_export.py and tests/cli/test_own_tables.py do it.
WITH_PROGRAM = ("serve.py", "encode_row.py")
EXAMPLES = sorted(
    path for path in (ROOT / "examples").glob("*.py") if path.name not in WITH_PROGRAM
)


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path, tmp_path):
    answer = subprocess.run(
        [sys.executable, path], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip()
