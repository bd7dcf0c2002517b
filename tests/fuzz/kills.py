"""Runs stopped at random by SIGKILL, SIGTERM and SIGINT: do they end with the same bytes?

``python tests/fuzz/kills.py --count 100 --seed 0``, or ``make kills``. Every run is stopped one to
three times, at random moments from its start on, then left to end; its members must equal those of
an undisturbed run byte for byte, SIGTERM must end it with 143 and SIGINT with 130, and nothing may
be left behind.
"""

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

COMMON = ["--data", "toy/two-moons", "--network-options", "hidden=(16,)", "--quiet"]
METHODS = {
    "single": ["--epochs", "20000"],
    "deep-ensemble": ["--members", "3", "--epochs", "8000"],
    "forde": ["--members", "3", "--epochs", "1500"],
    "swag": ["--epochs", "8000", "--modes", "2"],
    "sghmc": ["--epochs", "8000"],
    "hmc": ["--samples", "1500", "--warmup", "1500", "--leapfrog-steps", "10"],
    "mean-field-vi": ["--epochs", "4000"],
    "laplace": ["--epochs", "12000"],
}
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}


def command(method, folder):
    flags = [*COMMON, *METHODS[method], "--checkpoint-every", "2", "--out", str(folder)]
    return [sys.executable, "-m", "credax", "fit", method, *flags]


def stopped(method, folder, number, delay):
    """Start, send a signal after a delay, wait; the exit code and what was said."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(command(method, folder), stdout=pipe, stderr=pipe, text=True)
    time.sleep(delay)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    return process.returncode, err


def left_behind(folder):
    """Files that a finished run does not need."""
    wanted = {".lock", "config.json", "members.safetensors", "metrics.jsonl", "rows.safetensors"}
    return sorted({path.name for path in folder.rglob("*")} - wanted - {"test.json"})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="signals in all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, faults, sent = random.Random(options.seed), [], Counter()
    with tempfile.TemporaryDirectory() as place:
        whole, lengths = {}, {}
        for method in METHODS:
            began = time.monotonic()
            subprocess.run(command(method, Path(place) / method), check=True, capture_output=True)
            lengths[method] = time.monotonic() - began
            whole[method] = (Path(place) / method / "members.safetensors").read_bytes()
            print(f"{method}: undisturbed in {lengths[method]:.0f} s", flush=True)
        runs = 0
        while sum(sent.values()) < options.count:
            method = rng.choice(list(METHODS))
            folder = Path(place) / f"{method}-{runs}"
            runs += 1
            for _ in range(rng.randint(1, 3)):
                number = rng.choice(list(CODES))
                code, err = stopped(method, folder, number, rng.uniform(0.2, lengths[method]))
                if code == 0:
                    break
                sent[signal.Signals(number).name] += 1
                said = number == signal.SIGKILL or "credax: stopped; " in err
                # Before Python has begun the program, a signal has its ordinary effect.
                early = code in (-signal.SIGTERM, -signal.SIGINT, 1) and not folder.exists()
                if (code != CODES[number] or not said) and not early:
                    faults.append(f"{method}: {number!r} gave {code}: {err[-300:]}")
            done = subprocess.run(command(method, folder), capture_output=True, text=True)
            same = done.returncode == 0 and (
                (folder / "members.safetensors").read_bytes() == whole[method]
            )
            lines = (folder / "metrics.jsonl").read_text()
            if not same or '"finished"' not in lines or left_behind(folder):
                faults.append(f"{method}: {folder.name} {same} {left_behind(folder)} {done.stderr}")
            print(f"{runs} runs, {sum(sent.values())} signals, {len(faults)} faults", flush=True)
    print(f"{dict(sent)} in {runs} runs of {len(METHODS)} methods: {len(faults)} faults")
    print("\n".join(faults))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
