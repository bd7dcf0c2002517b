"""The command line. Arguments are read before jax is imported."""

import os
import signal
import threading

# While the command line is imported nothing is at stake: Ctrl-C ends it without a traceback.
_main_thread = threading.current_thread() is threading.main_thread()
_before = _main_thread and signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))

from credax.cli.main import main as main  # noqa: E402

if _main_thread:
    signal.signal(signal.SIGINT, _before)
