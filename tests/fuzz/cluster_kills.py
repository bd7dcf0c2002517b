"""A comparison on Dask workers that are killed at random, and their scheduler once: is all there?

``python tests/fuzz/cluster_kills.py --kills 6 --seed 0``. Three methods and four seeds on two
workers; workers get SIGKILL at random moments and are started again, the scheduler is killed in the
middle and started again at the same address. All runs must end with the bytes of a sequential
comparison.
"""

import argparse
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FLAGS = ["compare", "--data", "toy/two-moons", "--methods", "single,swag,deep-ensemble"]
FLAGS += ["--members", "3", "--batch-size", "64", "--network-options", "hidden=(16,)"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def scheduler(port, log):
    words = ["-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", str(port)]
    return subprocess.Popen([sys.executable, *words, "--no-dashboard"], stdout=log, stderr=log)


def worker(port, log):
    words = ["-m", "dask", "worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny"]
    words += ["--no-dashboard", "--death-timeout", "60"]
    return subprocess.Popen([sys.executable, *words], stdout=log, stderr=log)


def compare(folder, seeds, epochs, *more):
    flags = [*FLAGS, "--seeds", str(seeds), "--epochs", str(epochs), "--out", str(folder), *more]
    return [sys.executable, "-m", "credax", *flags]


def results(folder):
    """What must not depend on where it was trained."""
    paths = [*sorted(folder.glob("*/members.safetensors")), folder / "results.csv"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--apart", type=float, default=8.0, help="mean seconds between kills")
    options = parser.parse_args()
    rng, port = random.Random(options.seed), free_port()
    with tempfile.TemporaryDirectory() as place, open(Path(place) / "log", "w") as log:
        alone, spread = Path(place) / "alone", Path(place) / "spread"
        size = (options.seeds, options.epochs)
        subprocess.run(compare(alone, *size), check=True, stdout=log, stderr=log)
        print("sequential run done", flush=True)
        head, hands = scheduler(port, log), [worker(port, log) for _ in range(2)]
        words = compare(spread, *size, "--cluster", f"tcp://127.0.0.1:{port}")
        process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=log, text=True)
        kills = 0
        try:
            while process.poll() is None and kills < options.kills:
                time.sleep(rng.expovariate(1 / options.apart))
                if process.poll() is not None:
                    break
                kills += 1
                if kills == options.kills // 2:
                    head.kill()
                    head.wait()
                    time.sleep(2)
                    head = scheduler(port, log)
                    for hand in hands:
                        hand.kill()
                    hands = [worker(port, log) for _ in range(2)]
                    print("killed the scheduler", flush=True)
                else:
                    chosen = rng.randrange(2)
                    hands[chosen].kill()
                    hands[chosen] = worker(port, log)
                    print("killed a worker", flush=True)
            _, err = process.communicate(timeout=900)
        finally:
            for each in (process, head, *hands):
                each.kill()
                each.wait()
        print(err)
        same = process.returncode == 0 and results(alone) == results(spread)
        print(f"{kills} kills; exit code {process.returncode}; byte-identical: {same}")
    return not same


if __name__ == "__main__":
    sys.exit(main())
