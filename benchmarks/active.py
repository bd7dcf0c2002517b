"""BatchBALD against batchbald_redux (PyTorch), and scores of a pool of a million rows.

Batches: both ways choose from the same predictions in one run, each in a process of its own, so
that peak memory is its own too; ours also says the time of a second call, which compiles nothing.
What both sets are worth is measured by one and the same estimate of their joint information, from
ten times as many configurations. The reference is the package itself, from the interpreter given:

    python -m venv /tmp/reference
    /tmp/reference/bin/pip install torch numpy tqdm toma
    /tmp/reference/bin/pip install --no-deps batchbald_redux==2.0.5
    python benchmarks/active.py batch --reference /tmp/reference/bin/python

It computes in double precision as its own examples do (`--dtype float` for single), and takes about
as many seconds as there are rows divided by eight: try `--pool 500` first.

Scores: ten members, ten classes, a memory map of a million rows, in chunks; the growth of the
process beyond its size after a first small pool must stay below the bound that is printed.

    python benchmarks/active.py scores --rows 1000000

All of it in one command: both ways where the reference ends in minutes (``--shared`` rows), ours
on the whole pool, and the scores:

    python benchmarks/active.py all --reference /tmp/reference/bin/python
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MEGABYTE = 2**20
CHEAP = (
    *("random", "entropy", "bald", "variation-ratio", "variation-ratio-soft", "variance"),
    *("mean-std", "margin", "vote-entropy", "power-bald"),
)
FEATURES = 16
OURS, REFERENCE = "credax", "batchbald_redux"


def peak_from_here() -> float:
    """Megabytes that the process has now, from which its peak is counted anew (Linux)."""
    # The peak that getrusage says is that of the parent too, and of what was done before.
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def resident(what: str = "VmHWM") -> float:
    """Megabytes: the largest size since `peak_from_here`, or the size now (VmRSS)."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if what in line) / 1024


def log_probs(members: int, pool: int, classes: int, spread: float) -> Any:
    """Predictions ``[members, pool, classes]``: logits around a shared value, rows alike or not."""
    import numpy as np

    rng = np.random.default_rng(0)
    own = rng.standard_normal((members, pool, classes), dtype=np.float32)
    if spread:
        own *= rng.gamma(1 / spread, spread, (pool, 1)).astype(np.float32)
        own += 2 * rng.standard_normal((pool, classes), dtype=np.float32)
    own -= own.max(-1, keepdims=True)
    return own - np.log(np.exp(own).sum(-1, keepdims=True))


def ours(file: str, picks: int, configurations: int) -> dict[str, Any]:
    """Our choice, twice: with what is compiled, and without."""
    import jax
    import numpy as np

    from credax.active import BatchBALD, Candidates
    from credax.prediction import ClassPrediction

    values = np.load(file)
    before = peak_from_here()

    class Given:
        """A posterior that looks rows up."""

        def predict(self, x, *, key=None, batch_size=None):
            """The stored predictions of some rows."""
            return ClassPrediction(jax.numpy.asarray(values[:, np.asarray(x)[:, 0]]))

    posterior: Any = Given()
    pool = Candidates(posterior, np.arange(values.shape[1])[:, None])
    times, choice = [], None
    for _ in range(2):
        start = time.perf_counter()
        choice = BatchBALD(configurations).choose(pool, picks, key=jax.random.key(0))
        times.append(time.perf_counter() - start)
    assert choice is not None
    return {
        "seconds": times[0],
        "again": times[1],
        "memory": resident() - before,
        "indices": choice.indices.tolist(),
        "scores": choice.scores.tolist(),
    }


def reference(file: str, picks: int, configurations: int, dtype: str) -> dict[str, Any]:
    """The choice of batchbald_redux; only that package and PyTorch are imported."""
    import numpy as np
    import torch
    from batchbald_redux import batchbald

    values = torch.from_numpy(np.swapaxes(np.load(file), 0, 1).copy())
    before = peak_from_here()
    start = time.perf_counter()
    kind = {"double": torch.double, "float": torch.float}[dtype]
    batch = batchbald.get_batchbald_batch(values, picks, configurations, dtype=kind, device="cpu")
    return {
        "seconds": time.perf_counter() - start,
        "memory": resident() - before,
        "indices": [int(i) for i in batch.indices],
        "scores": [float(s) for s in batch.scores],
    }


def child(python: str, way: str, options: list[str]) -> dict[str, Any]:
    """One way in a process of its own."""
    command = [python, __file__, way, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{way} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def batch(arguments: argparse.Namespace) -> None:
    """Both ways on one pool, and what their sets are worth."""
    import numpy as np

    values = log_probs(arguments.members, arguments.pool, arguments.classes, arguments.spread)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log_probs.npy"
        np.save(file, values)
        shared = [str(file), str(arguments.picks), str(arguments.configurations)]
        found = {OURS: child(sys.executable, "ours", shared)}
        if arguments.reference:
            options = [*shared, arguments.dtype]
            found[REFERENCE] = child(arguments.reference, "redux", options)
    print(
        f"{arguments.members} members, {arguments.classes} classes, {arguments.pool} rows, "
        f"{arguments.picks} picks, {arguments.configurations} configurations; ceiling "
        f"{np.log(arguments.members):.3f}"
    )
    for name, result in found.items():
        worth = _worth(values[:, result["indices"]], arguments.configurations)
        again = f" (again {result['again']:.2f})" if "again" in result else ""
        print(
            f"{name:16} {result['seconds']:9.2f} s{again}  {result['memory']:7.0f} MB more  own "
            f"estimate {result['scores'][-1]:.4f}  by one estimate {worth:.4f}"
        )
    if len(found) == 2:
        ours, other = found[OURS], found[REFERENCE]
        print(f"ratio of times {other['seconds'] / ours['seconds']:.1f} (with compiling)")
        same = len({*ours["indices"]} & {*other["indices"]})
        print(f"rows in both batches {same} of {arguments.picks}")


def _worth(values: Any, configurations: int) -> float:
    import jax

    from credax.active import joint_information
    from credax.prediction import ClassPrediction

    prediction = ClassPrediction(jax.numpy.asarray(values))
    many, key = 10 * configurations, jax.random.key(1)
    return float(joint_information(prediction, configurations=many, key=key)[-1])


def scores(arguments: argparse.Namespace) -> None:
    """Every cheap acquisition on a memory map, and how the process grew."""
    import jax
    import numpy as np

    import credax as cx
    from credax.posterior import population

    network = cx.networks.MLP((), outputs=arguments.classes)
    problem, rows, chunk = cx.Problem(network, cx.Categorical()), arguments.rows, arguments.chunk
    keys = jax.random.split(jax.random.key(0), arguments.members)
    example = np.zeros((1, FEATURES), np.float32)
    posterior = population(problem, jax.vmap(lambda k: problem.init(k, example))(keys), example)
    with tempfile.TemporaryDirectory() as folder:
        x = np.lib.format.open_memmap(
            Path(folder) / "pool.npy", mode="w+", dtype=np.float32, shape=(rows, FEATURES)
        )
        for start in range(0, rows, chunk):
            part = x[start : start + chunk]
            part[:] = np.random.default_rng(start).standard_normal(part.shape, dtype=np.float32)
        x.flush()
        # The pages of the map that are in memory belong to the process, so they are in the bound.
        numbers = arguments.members * chunk * arguments.classes
        bound = (x.nbytes + 8 * 8 * rows + 16 * 4 * numbers) / MEGABYTE + 100
        small = cx.active.Candidates(posterior, x[: 2 * chunk], chunk=chunk)
        for name in CHEAP:
            cx.active.get(name)().choose(small, 10, key=jax.random.key(0))
        # Written pages of the map leave the process, so that those that are read count.
        del x
        x = np.load(Path(folder) / "pool.npy", mmap_mode="r")
        before, pool = peak_from_here(), cx.active.Candidates(posterior, x, chunk=chunk)
        print(f"{rows} rows x {arguments.members} members x {arguments.classes} classes")
        for name in CHEAP:
            start = time.perf_counter()
            cx.active.get(name)().choose(pool, 100, key=jax.random.key(0))
            seconds = time.perf_counter() - start
            print(f"{name:22} {seconds:7.2f} s  {rows / seconds / 1e6:6.2f} million rows/s")
    grown = resident() - before
    print(f"the process grew by {grown:.0f} MB; bound {bound:.0f} MB")
    if grown > bound:
        raise SystemExit("the bound was passed")


def every(arguments: argparse.Namespace) -> None:
    """Both ways on a pool that the reference manages, ours on the whole one, and the scores."""
    whole, given = arguments.pool, arguments.reference
    arguments.pool = arguments.shared
    batch(arguments)
    arguments.pool, arguments.reference = whole, ""
    batch(arguments)
    arguments.members = arguments.score_members
    scores(arguments)
    if not given:
        print("no reference was given, so there are no ratios: --reference PYTHON")


def _batch_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--pool", type=int, default=10_000)
    parser.add_argument("--picks", type=int, default=10)
    parser.add_argument("--configurations", type=int, default=10_000)
    parser.add_argument("--spread", type=float, default=0.0, help="rows differ in disagreement")
    parser.add_argument("--reference", default="", help="a Python with batchbald_redux and PyTorch")
    parser.add_argument("--dtype", choices=("double", "float"), default="double")


def _score_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--chunk", type=int, default=16_384)


def main() -> None:
    """Read the options and run."""
    if len(sys.argv) > 2 and sys.argv[1] in ("ours", "redux"):
        way, file, *rest = sys.argv[1:]
        numbers = [int(n) for n in rest[:2]]
        found = ours(file, *numbers) if way == "ours" else reference(file, *numbers, rest[2])
        print(json.dumps(found))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ways = parser.add_subparsers(dest="way", required=True)
    _batch_options(ways.add_parser("batch"))
    second = ways.add_parser("scores")
    _score_options(second)
    second.add_argument("--members", type=int, default=10)
    second.add_argument("--classes", type=int, default=10)
    third = ways.add_parser("all")
    _batch_options(third)
    _score_options(third)
    third.add_argument("--shared", type=int, default=500, help="rows that both choose from")
    third.add_argument("--score-members", type=int, default=10)
    arguments = parser.parse_args()
    {"batch": batch, "scores": scores, "all": every}[arguments.way](arguments)


if __name__ == "__main__":
    main()
