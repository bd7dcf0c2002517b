"""``make fuzz``: thousands of damaged files through every reader, in processes with bounds.

Each case copies valid files, damages one of them (`mutations`), reads it by the public reader and
is counted: refused in one sentence, read as valid, a traceback, numbers that are not finite without
a word, more memory than the bound, no end. The last four must be zero; the exit code says so.
A case is its format, number and seed: ``--only FORMAT --first N --count 1`` repeats it.
"""

import argparse
import contextlib
import io
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

COLUMNS = ("refused", "valid", "traceback", "non-finite", "memory", "timeout")
BAD = COLUMNS[2:]
MOST_MEMORY = 256 * 2**20
"""Bytes that reading a file of some kilobytes may take."""
MOST_SECONDS = 20
BATCH = 50


def outcome(form, folder):
    """The column of one damaged folder, and a text about it."""
    import numpy as np

    from credax.errors import InputError

    before = _memory("VmRSS", reset=True)
    try:
        quiet, errors = contextlib.ExitStack(), io.StringIO()
        quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
        quiet.enter_context(contextlib.redirect_stderr(errors))
        with warnings.catch_warnings(record=True, action="always") as said, quiet:
            found = form.read(folder)
        column, text = "valid", ""
        if found is None and (said or errors.getvalue()):
            column, text = "refused", errors.getvalue() or str(said[0].message)
        odd = any(not np.isfinite(np.asarray(a, np.float64)).all() for a in found or ())
        if odd and not said:
            column, text = "non-finite", str(found)[:300]
    except InputError as error:
        column, text = "refused", str(error)
        if "\n" in text or not text:
            column = "traceback"
        if any(isinstance(cause, MemoryError) for cause in _causes(error)):
            column = "memory"
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        column, text = "traceback", traceback.format_exc()
    grown = _memory("VmHWM") - before
    if grown > MOST_MEMORY:
        column, text = "memory", f"{grown >> 20} MB: {text}"
    return column, text


def _causes(error):
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _memory(name, reset=False):
    """This process's memory (VmRSS) or its peak since the last reset (VmHWM), in bytes."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


def work(base, seed):
    """Read the numbers of cases from standard input, one per line, and answer each in a line."""
    import numpy as np
    from formats import FORMATS
    from mutations import mutate

    os.environ["CREDAX_DATA"] = "/nowhere"
    known = set()
    for line in sys.stdin:
        number, case = map(int, line.split())
        form = FORMATS[number]
        rng = np.random.default_rng([seed, number, case])
        if number not in known:
            _read_whole(form, Path(base) / str(number))
            known.add(number)
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "case"
            shutil.copytree(Path(base) / str(number), folder)
            targets = [p for p in sorted(folder.glob(form.targets)) if p.is_file()]
            target = targets[rng.integers(len(targets))]
            done = mutate(target, rng)
            column, text = outcome(form, folder)
        text = f"{target.relative_to(folder)}, {done}: {text}"
        print(json.dumps([number, case, column, text]), flush=True)


class Worker:
    """A process that reads cases one after another; a case without end ends the process."""

    def __init__(self, base, seed):
        self.arguments = [sys.executable, __file__, "--work", str(base), "--seed", str(seed)]
        self.process = None

    def run(self, number, case):
        """``column, text`` of one case."""
        if self.process is None:
            self._start()
        process = self.process
        process.stdin.write(f"{number} {case}\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], MOST_SECONDS)
        answer = process.stdout.readline() if ready else ""
        if not answer:
            self.close()
            ended = "timeout" if not ready else "traceback"
            return ended, "the process was ended" if not ready else "the process died"
        return tuple(json.loads(answer)[2:])

    def _start(self):
        self.process = subprocess.Popen(
            self.arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def prepare(base, chosen):
    """Valid files of every format; each must be read as valid."""
    from formats import FORMATS

    for number in chosen:
        folder = base / str(number)
        folder.mkdir()
        FORMATS[number].make(folder)
        _read_whole(FORMATS[number], folder)
        column, text = _read_whole(FORMATS[number], folder)
        if column != "valid":
            raise SystemExit(f"{FORMATS[number].name}: the undamaged file is {column}: {text}")


def _read_whole(form, folder):
    """The outcome of the undamaged files; at first programs are compiled, which takes memory."""
    with tempfile.TemporaryDirectory() as place:
        return outcome(form, Path(shutil.copytree(folder, Path(place) / "whole")))


def main():
    """Make, damage, read, count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="damaged files in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of each format's first case")
    parser.add_argument("--only", default="", help="formats whose name holds this")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--show", type=int, default=3, help="bad cases of each format to print")
    parser.add_argument("--log", help="write every case there, one JSON line each")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.seed)
        return
    from formats import FORMATS

    chosen = [i for i, form in enumerate(FORMATS) if options.only in form.name]
    cases = [
        (chosen[i % len(chosen)], options.first + i // len(chosen)) for i in range(options.count)
    ]
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        base = Path(place)
        prepare(base, chosen)
        results = _run_all(base, options, cases)
    print_table(results, options, FORMATS, time.monotonic() - began)
    raise SystemExit(any(column in BAD for *_, column, _ in results))


def _run_all(base, options, cases):
    from concurrent.futures import ThreadPoolExecutor
    from queue import SimpleQueue

    free = SimpleQueue()
    workers = [Worker(base, options.seed) for _ in range(options.workers)]
    for worker in workers:
        free.put(worker)

    def one(batch):
        worker = free.get()
        try:
            return [(*case, *worker.run(*case)) for case in batch]
        finally:
            free.put(worker)

    batches = [cases[start : start + BATCH] for start in range(0, len(cases), BATCH)]
    results = []
    try:
        with ThreadPoolExecutor(len(workers)) as pool:
            for batch in pool.map(one, batches):
                results += batch
                print(f"\r{len(results)} of {len(cases)}", end="", file=sys.stderr)
    finally:
        for worker in workers:
            worker.close()
    print(file=sys.stderr)
    return results


def print_table(results, options, formats, seconds):
    """A line a format, then what went wrong."""
    print(f"{'format':<32}" + "".join(f"{column:>12}" for column in COLUMNS))
    totals = Counter()
    for number, form in enumerate(formats):
        counts = Counter(column for n, _, column, _ in results if n == number)
        totals += counts
        if counts:
            print(f"{form.name:<32}" + "".join(f"{counts[column]:>12}" for column in COLUMNS))
    print(f"{'all':<32}" + "".join(f"{totals[column]:>12}" for column in COLUMNS))
    print(f"{len(results)} damaged files, seed {options.seed}, {seconds:.0f} seconds")
    shown = Counter()
    for number, case, column, text in results:
        if column in BAD and shown[number] < options.show:
            shown[number] += 1
            print(f"\n{formats[number].name}, case {case}, {column}: {text}")
    if options.log:
        with open(options.log, "w") as file:
            for number, case, column, text in results:
                line = {"format": formats[number].name, "case": case, "column": column}
                file.write(json.dumps({**line, "text": text}) + "\n")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
