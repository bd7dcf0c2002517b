"""A progress bar on a terminal; silence elsewhere."""

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
    """Told after every chunk how far training is."""

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
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[text]}"),
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


def reporter_for(progress: "bool | Reporter | None", unit: str = "epochs") -> Reporter:
    """``True`` a bar, ``False`` silence, ``None`` a bar only on a terminal; or one's own."""
    if isinstance(progress, bool) or progress is None:
        console = Console(stderr=True)
        wanted = console.is_terminal if progress is None else progress
        return Bar(console, unit) if wanted else Silent()
    return progress
