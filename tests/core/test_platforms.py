"""What a Linux machine can show of others: modules that only Unix has are not needed to import."""

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["fcntl"] = sys.modules["resource"] = None
import credax
names = [name for name in credax.__all__ if getattr(credax, name) is not None]
import credax.training.run, credax.zoo.writer, credax.cli.main
print(len(names))
"""


def test_everything_imports_without_the_modules_of_unix():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 50
