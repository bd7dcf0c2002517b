"""Four processes train together, one is killed: do the others end, and does the run resume?

``python tests/fuzz/process_kills.py --count 20 --seed 0``. One process, any of them, gets SIGKILL
(sometimes SIGTERM) at a random moment. All others must end within `SECONDS` with one sentence and
no stack trace; the same command, started again, must end with the members of an undisturbed
training, byte for byte.
"""

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COMMAND = ["fit", "deep-ensemble", "--data", "toy/two-moons", "--network-options", "hidden=(16,)"]
COMMAND += ["--members", "5", "--batch-size", "64", "--checkpoint-every", "3", "--quiet"]
SECONDS = 20
"""A killed process is noticed at once; the others may be compiling, and end in turns."""
JOIN_SECONDS = 180
"""Before all have joined, the others wait for it two minutes."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(folder, count, epochs, own=(), devices=1):
    """All processes of one training; ``own`` are further flags of the last one."""
    port, pipe = free_port(), subprocess.PIPE
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices)}
    common = [*COMMAND, "--epochs", str(epochs), "--out", str(folder), "--distributed"]
    common += ["--coordinator", f"127.0.0.1:{port}", "--processes", str(count)]
    return [
        subprocess.Popen(
            [sys.executable, "-m", "credax", *common, "--process-id", str(index)]
            + (list(own) if index == count - 1 else []),
            stdout=pipe,
            stderr=pipe,
            text=True,
            env=environment,
        )
        for index in range(count)
    ]


def ended(processes, seconds):
    """Exit codes and last words; a process that is still there after so many seconds is killed."""
    until, found = time.monotonic() + seconds, []
    for process in processes:
        try:
            _, err = process.communicate(timeout=max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            _, err = process.communicate()
            found.append(("did not end", err))
            continue
        found.append((process.returncode, err))
    return found


def faults_of(found, victim):
    """What is wrong with how the others ended after one was killed."""
    faults = []
    for index, (code, err) in enumerate(found):
        said = [line for line in err.splitlines() if line.startswith("credax: stopped;")]
        if index != victim and code != 0 and (code not in (75, 143) or len(said) != 1):
            faults.append(f"process {index} ended with {code}: {err[-400:]}")
        if "Traceback" in err or "stack trace" in err:
            faults.append(f"process {index} showed a trace: {err[-400:]}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20, help="kills in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=400)
    options = parser.parse_args()
    rng, faults, kills, runs = random.Random(options.seed), [], 0, 0
    with tempfile.TemporaryDirectory() as place:
        whole, began = Path(place) / "whole", time.monotonic()
        found = ended(start(whole, options.processes, options.epochs), 600)
        assert [code for code, _ in found] == [0] * options.processes, found
        length = time.monotonic() - began
        print(f"undisturbed in {length:.0f} s", flush=True)
        while kills < options.count:
            folder, runs = Path(place) / f"run-{runs}", runs + 1
            for _ in range(rng.randint(1, 3)):
                processes = start(folder, options.processes, options.epochs)
                victim = rng.randrange(options.processes)
                number = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
                time.sleep(rng.uniform(1, length))
                alive = processes[victim].poll() is None
                processes[victim].send_signal(number)
                began = time.monotonic()
                found = ended(processes, JOIN_SECONDS)
                took, joined = time.monotonic() - began, "not all processes" not in str(found)
                print(f"{number.name} of {victim}: ended after {took:.1f} s, {joined=}", flush=True)
                if joined and took > SECONDS:
                    faults.append(f"{number!r} of {victim}: the others ended after {took:.0f} s")
                kills += alive
                wrong = [f"{number!r} of {victim}: {fault}" for fault in faults_of(found, victim)]
                faults += wrong
                print("\n".join(wrong), end="", flush=True)
            found = ended(start(folder, options.processes, options.epochs), 600)
            if any(code for code, _ in found):
                faults.append(f"{folder.name} did not resume: {found}")
            elif (folder / "members.safetensors").read_bytes() != (
                whole / "members.safetensors"
            ).read_bytes():
                faults.append(f"{folder.name} ended with other members")
            print(f"{runs} runs, {kills} kills, {len(faults)} faults", flush=True)
    print("\n".join(faults))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
