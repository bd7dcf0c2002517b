"""Processor time and memory of the tests: a table per package at the end, checked against a budget.

`tests/budget.toml` gives every package its processor time for all tests, slow ones too, from a cold
cache. Processor time includes compilation, threads and child processes, so it depends little on
what else the machine does. `make test-all` sets CREDAX_TEST_BUDGET=1: then a package above its
budget, or a package without one, fails the run.
"""

import gc
import json
import os
import tomllib
from collections import defaultdict
from pathlib import Path

import jax
import pytest

TESTS = Path(__file__).parent
BUDGET = TESTS / "budget.toml"
_NAME = "processor_seconds"
# Compiled programs hold memory maps, of which Linux allows a process 65530 (then it crashes), and
# memory, which two workers share with the browser and child processes.
_MOST_MAPS = 30_000
_MOST_BYTES = 2 * 2**30
_EVERY = 8
_PROC = Path("/proc/self")


def package_of(nodeid: str) -> str:
    """The folder of a test below `tests`, or its file's name when it lies in `tests` itself."""
    parts = nodeid.split("::")[0].removeprefix("tests/").split("/")
    return parts[0].removesuffix(".py")


def _seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _resident_bytes() -> int:
    return int((_PROC / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _free_programs(most_bytes: int) -> None:
    """Drops compiled programs when this worker holds too many of them."""
    if not (_PROC / "maps").exists():
        return
    maps = (_PROC / "maps").read_bytes().count(b"\n")
    if maps > _MOST_MAPS or _resident_bytes() > most_bytes:
        jax.clear_caches()
        gc.collect()


class ProcessorTime:
    """Measures every test where it runs and adds the times up where the run is reported."""

    def __init__(self):
        """Nothing measured yet."""
        self.started = None
        self.tests = 0
        self.seconds = defaultdict(float)

    def pytest_collection_finish(self):
        """Collection and imports are not part of the first test."""
        self.started = _seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        """Attaches the time since the last report to the report of this phase."""
        now = _seconds()
        report = yield
        report.user_properties = [(_NAME, now - (self.started or now))]
        self.started = now
        return report

    def pytest_runtest_teardown(self, item, nextitem):
        """Between files, and now and then inside one, bounds the worker's memory."""
        self.tests += 1
        if nextitem is None or nextitem.path != item.path:
            _free_programs(_MOST_BYTES)
        elif self.tests % _EVERY == 0:
            _free_programs(2 * _MOST_BYTES)

    def pytest_runtest_logreport(self, report):
        """Adds a phase to its test."""
        self.seconds[report.nodeid] += dict(report.user_properties).get(_NAME, 0.0)

    def packages(self) -> dict[str, float]:
        """Processor seconds per package, largest first."""
        totals = defaultdict(float)
        for nodeid, seconds in self.seconds.items():
            totals[package_of(nodeid)] += seconds
        return dict(sorted(totals.items(), key=lambda item: -item[1]))

    def over_budget(self) -> list[str]:
        """One sentence per package that has no budget or is above it."""
        budget = tomllib.loads(BUDGET.read_text())
        return [
            f"{package}: {seconds:.0f} s of processor time, budget {budget.get(package, 'none')}"
            for package, seconds in self.packages().items()
            if seconds > budget.get(package, 0)
        ]

    def pytest_terminal_summary(self, terminalreporter):
        """Prints the table."""
        if not self.seconds:
            return
        budget = tomllib.loads(BUDGET.read_text()) if BUDGET.exists() else {}
        terminalreporter.section("processor time per package (seconds; budget for all tests)")
        for package, seconds in self.packages().items():
            terminalreporter.write_line(
                f"{package:<24}{seconds:>8.0f}{budget.get(package, '-'):>8}"
            )
        terminalreporter.write_line(f"{'all':<24}{sum(self.seconds.values()):>8.0f}")
        if path := os.environ.get("CREDAX_TEST_TIMES"):
            ordered = dict(sorted(self.seconds.items(), key=lambda item: -item[1]))
            Path(path).write_text(json.dumps(ordered, indent=1))
        if os.environ.get("CREDAX_TEST_BUDGET"):
            for line in self.over_budget():
                terminalreporter.write_line(f"over budget: {line}", red=True)

    def pytest_sessionfinish(self, session, exitstatus):
        """A package over its budget fails the run."""
        on_worker = hasattr(session.config, "workerinput")
        if os.environ.get("CREDAX_TEST_BUDGET") and not on_worker and self.over_budget():
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
