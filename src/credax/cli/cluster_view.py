"""The progress of many trainings in one view: a bar for all, a line for each that runs."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from credax.reading import read_json_lines

MOST_LINES = 16


class View:
    """What runs, what is done; a live view on a terminal and plain lines elsewhere.

    Args:
        works: label and folder of every training, by number.
        quiet: show nothing.
    """

    def __init__(self, works: dict[int, tuple[str, Path]], quiet: bool):
        self.works, self.done, self.failed = works, 0, 0
        self.running: set[int] = set()
        self._said = ""
        self.console = Console(stderr=True, quiet=quiet)
        self._live = Live(console=self.console, transient=True, refresh_per_second=2)

    def __enter__(self) -> "View":
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._live.stop()

    def update(self, running: set[int]) -> None:
        """These run now."""
        self.running = running
        if self.console.is_terminal:
            self._live.update(Text("\n".join(self.lines())))

    def ended(self, number: int, well: bool) -> None:
        """One more has ended."""
        self.done += 1
        self.failed += not well
        self.running.discard(number)
        words = "" if well else " failed"
        self.note(f"{self.works[number][0]}{words}  ({self.done} of {len(self.works)})")

    def note(self, text: str) -> None:
        """A line that stays; the same one is said once."""
        if text != self._said:
            self._said = text
            self.console.print(text, markup=False, highlight=False)

    def lines(self) -> list[str]:
        """The view: how many are done, and how far those are that run."""
        failed = f", {self.failed} failed" if self.failed else ""
        first = f"{self.done} of {len(self.works)} trainings{failed}, {len(self.running)} running"
        shown = [f"  {self._line(n)}" for n in sorted(self.running)[:MOST_LINES]]
        more = len(self.running) - len(shown)
        return [first, *shown, *([f"  and {more} more"] if more else [])]

    def _line(self, number: int) -> str:
        label, folder = self.works[number]
        last = None
        for _, line in read_json_lines(folder / "metrics.jsonl", constants=False):
            last = line if isinstance(line, dict) and "epoch" in line else last
        if last is None:
            return f"{label}: begins"
        loss = last.get("loss")
        words = "" if loss is None else f", loss {loss:.4g}"
        return f"{label}: epoch {last['epoch']:.4g}{words}"
