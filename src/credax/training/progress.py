"""A progress bar on a terminal; a plain line now and then elsewhere."""

import time
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Reporter(Protocol):
    """Called after every chunk with the progress of training."""

    def start(self, title: str, total: int | None, done: int) -> None:
        """Work begins, ``done`` of ``total`` epochs behind it; None where the total is unknown."""
        ...

    def update(self, done: float, text: str) -> None:
        """So many epochs are done; ``text`` has the last metrics."""
        ...

    def stop(self) -> None:
        """Training ended, well or not."""
        ...


class Silent:
    """Says nothing."""

    def start(self, title: str, total: int | None, done: int) -> None:
        """Nothing."""

    def update(self, done: float, text: str) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


class Bar:
    """A rich progress bar with time left and the last metrics."""

    def __init__(self, console: Console, unit: str = "epochs"):
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            console=console,
        )
        self._task = None

    def start(self, title: str, total: int | None, done: int) -> None:
        """Show the bar."""
        self._progress.start()
        self._task = self._progress.add_task(title, total=total, completed=done, text="compiling")

    def update(self, done: float, text: str) -> None:
        """Move the bar."""
        if self._task is not None:
            self._progress.update(self._task, completed=round(done, 1), text=text)

    def stop(self) -> None:
        """Leave the finished bar on the screen."""
        self._progress.stop()


class Lines:
    """Plain lines, for logs: at the beginning, every ten seconds, and at the end."""

    EVERY = 10.0

    def __init__(self, console: Console, unit: str = "epochs"):
        self._console, self._unit = console, unit
        self._title, self._total, self._first = "", None, 0.0
        self._done, self._text = 0.0, ""
        self._began = self._said = 0.0
        self._since: tuple[float, float] | None = None

    def start(self, title: str, total: int | None, done: int) -> None:
        """Say what begins, and from where."""
        self._title, self._total, self._first, self._done = title, total, float(done), float(done)
        self._began = self._said = time.monotonic()
        length = "" if total is None else f"{total} {self._unit}"
        resumed = f", {done} of them done before" if done else ""
        self._say(f"{title}: {length}{resumed}" if length else title)

    def update(self, done: float, text: str) -> None:
        """A line, if the last one is long ago."""
        self._done, self._text = done, text
        if self._since is None:  # what came before was the compiler's time
            self._since = (time.monotonic(), done)
        if time.monotonic() - self._said >= self.EVERY:
            self._line()

    def stop(self) -> None:
        """Where it ended, well or not."""
        if self._done > self._first:
            self._line()

    def _line(self) -> None:
        self._said = time.monotonic()
        elapsed, total = self._said - self._began, self._total
        parts = [f"{self._done:g} {self._unit}" if total is None else self._of(total), self._text]
        then, before = self._since or (self._said, self._done)
        if total is not None and before < self._done < total:
            rate = (self._said - then) / (self._done - before)
            parts.append(f"about {_duration(rate * (total - self._done))} left")
        else:
            parts.append(_duration(elapsed))
        self._say(f"{self._title}: " + ", ".join(part for part in parts if part))

    def _of(self, total: int) -> str:
        return f"{round(self._done, 1):g} of {total} {self._unit}"

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def reporter_for(progress: "bool | Reporter | None", unit: str = "epochs") -> Reporter:
    """``True`` and ``None`` a bar on a terminal, lines elsewhere; ``False`` silence; or one's own.

    >>> type(reporter_for(False)).__name__
    'Silent'
    """
    if progress is False:
        return Silent()
    if progress is True or progress is None:
        console = Console(stderr=True)
        return Bar(console, unit) if console.is_terminal else Lines(console, unit)
    return progress
