"""Runners that take turns in one run, and their ratios."""

import statistics
import time
from collections.abc import Callable


def take_turns(runners: dict[str, Callable[[], object]], rounds: int) -> dict[str, list]:
    """Wall and processor seconds of each runner in each round, after one that compiles."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runners}
    for number in range(rounds + 1):
        for name, run in runners.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if number:
                times[name].append((wall, cpu))
    return times


def show(title: str, times: dict[str, list], reference: str) -> None:
    """One row a runner: seconds, processor seconds, ratios to the reference."""
    print(f"\n{title}")
    print(f"{'':32}{'seconds':>10}{'cpu s':>10}{'ratio':>10}{'cpu ratio':>11}")
    for name, each in times.items():
        row = f"{name:32}" + "".join(
            f"{statistics.median(t[i] for t in each):10.3f}" for i in (0, 1)
        )
        pairs = list(zip(each, times[reference], strict=True))
        ratios = [statistics.median(a[i] / b[i] for a, b in pairs) for i in (0, 1)]
        print(row + f"{ratios[0]:10.2f}{ratios[1]:11.2f}", flush=True)
