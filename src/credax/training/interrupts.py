"""SIGINT and SIGTERM during a training: a checkpoint first, then the end. No jax here."""

import signal
import sys
import threading
from typing import Any

CAUGHT = (signal.SIGINT, signal.SIGTERM)
BEGINNING = "nothing was trained yet; the same command begins again"
# State for signal handlers: set by the loop, read by the command line.
_position = [BEGINNING]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a training with a folder; a checkpoint was written."""


class Terminated(SystemExit):
    """SIGTERM during a training with a folder; a checkpoint was written. The exit code is 143."""


def position() -> str:
    """From where the same command goes on, in words."""
    return _position[0]


class Signals:
    """While it is entered, a first signal waits for the next checkpoint and a second one does not.

    Where nothing would be lost, as before the first step, a signal has its ordinary effect. Only
    the main thread of a process can watch signals; in others this does nothing.
    """

    def __init__(self):
        self.received: int | None = None
        self.unsaved = False
        """Whether there is work that a checkpoint would keep."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            for number in CAUGHT:
                before = signal.getsignal(number)
                # Signals that are ignored, or handled outside of Python, are left alone.
                if before is not None and before is not signal.SIG_IGN:
                    self._before[number] = before
                    signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before = {}

    def at(self, where: str) -> None:
        """Say from where the run would go on now."""
        _position[0] = where

    def stop(self) -> None:
        """End the training; its checkpoint is written."""
        print(f"credax: stopped; {position()}", file=sys.stderr, flush=True)
        if self.received == signal.SIGTERM:
            raise Terminated(128 + signal.SIGTERM)
        raise Interrupted(position())

    def _handle(self, number: int, frame: Any) -> None:
        if self.unsaved and self.received is None:
            self.received = number
            print("credax: stopping at the next checkpoint ...", file=sys.stderr, flush=True)
            return
        before = self._before[number]
        signal.signal(number, before)
        signal.raise_signal(number)
