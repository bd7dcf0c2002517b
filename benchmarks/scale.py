"""What sharding, streaming and a task graph cost: ``python benchmarks/scale.py``.

1. The same training by `vmap` on one device and sharded over one and two virtual devices. They
   share the machine's cores, so the point is what is lost, not what is gained.
2. Rows in memory against rows streamed from a mapped file.
3. Empty tasks on a local Dask cluster: the scheduler's time per task, and a projection of it.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")
os.environ.setdefault("CREDAX_DEVICES", "1")

import jax
import numpy as np

import credax as cx
from credax.data import Split
from turns import show, take_turns


def train(rows, mesh=None, **changes):
    problem = cx.Problem(cx.networks.MLP((128, 128), outputs=10), cx.Categorical())
    training = cx.Training(epochs=3, batch_size=128, **changes)
    record = cx.DeepEnsemble(members=8)
    return cx.fit(problem, record, rows, training=training, mesh=mesh, progress=False)


def sharding(rows, rounds):
    meshes = {
        f"shard {shape[0]} x {shape[1]}": jax.make_mesh(
            shape, ("members", "data"), devices=jax.devices()[: shape[0] * shape[1]]
        )
        for shape in ((1, 1), (2, 1), (1, 2))
    }
    runners = {"vmap": lambda: train(rows, strategy="vmap")}
    runners |= {name: lambda mesh=mesh: train(rows, mesh) for name, mesh in meshes.items()}
    show("8 members, MLP 128-128, compiling included", take_turns(runners, rounds), "vmap")


def streaming(rows, rounds):
    with tempfile.TemporaryDirectory() as folder:
        mapped = np.memmap(Path(folder) / "x", np.float32, "w+", shape=rows.x.shape)
        mapped[:] = rows.x
        runners = {
            "in memory": lambda: train(rows, placement="device"),
            "streamed from memory": lambda: train(rows, placement="stream"),
            "streamed from a mapped file": lambda: train(Split(mapped, rows.y)),
        }
        times = take_turns(runners, rounds)
    show(f"{len(rows)} rows of {rows.x.shape[1]} numbers, 3 epochs", times, "in memory")
    for name, each in times.items():
        best = min(wall for wall, _ in each)
        print(f"{name:32}{3 * len(rows) / best:12,.0f} rows/s")


def nothing(number):
    return number


def graph(tasks, workers):
    from distributed import Client, LocalCluster, wait

    options = {"processes": False, "dashboard_address": None, "protocol": "tcp"}
    options |= {"n_workers": 4, "threads_per_worker": workers // 4}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        wait(client.map(nothing, range(workers), pure=False))
        began = time.perf_counter()
        wait(client.map(nothing, range(tasks), pure=False))
        each = (time.perf_counter() - began) / tasks
    print(f"\n{tasks} empty tasks on {workers} simulated workers (threads of this process)")
    print(f"{1e3 * each:.2f} ms per task")
    seconds = 60 * 10_000 / 64
    print(
        f"projection, not a measurement: 10 000 networks of a minute on 64 real workers take "
        f"{seconds / 3600:.1f} h, and the scheduler {10_000 * each:.0f} s of them, which overlap"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("parts", nargs="*", help="sharding, streaming, graph; by default all")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((options.rows, 256)).astype(np.float32)
    rows = Split(x, rng.integers(0, 10, options.rows))
    parts = {
        "sharding": lambda: sharding(rows, options.rounds),
        "streaming": lambda: streaming(rows, options.rounds),
        "graph": lambda: graph(options.tasks, options.workers),
    }
    for name in options.parts or parts:
        parts[name]()


if __name__ == "__main__":
    main()
