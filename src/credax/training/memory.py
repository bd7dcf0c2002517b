"""How much memory one fit takes, whatever the process took before it."""

from pathlib import Path
from typing import Any

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def program_bytes(jitted: Any, *arguments: Any) -> int | None:
    """Arguments, outputs and temporary buffers of a compiled program, as the compiler states them.

    The program has been called with such arguments before, so nothing is compiled here.
    """
    analysis = jitted.lower(*arguments).compile().compiled.memory_analysis()
    if analysis is None:
        return None
    names = ("argument_size_in_bytes", "output_size_in_bytes", "temp_size_in_bytes")
    return sum(getattr(analysis, name) for name in names) - analysis.alias_size_in_bytes


class Growth:
    """The most by which the process grew while it was entered; 0 where Linux does not tell."""

    def __init__(self):
        self.bytes = 0
        self._before: int | None = None

    def __enter__(self) -> "Growth":
        try:
            _CLEAR.write_text("5")  # the high-water mark starts again from here
            self._before = _high_water()
        except OSError:
            self._before = None
        return self

    def __exit__(self, *_: Any) -> None:
        after = _high_water() if self._before is not None else None
        if after is not None and self._before is not None:
            self.bytes = max(0, after - self._before)


def _high_water() -> int | None:
    for line in _STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    return None
