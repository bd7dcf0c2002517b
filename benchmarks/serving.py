"""Serving a five-member ensemble: latency of one row and throughput of ten thousand.

Bare jitted network (all members, no mixture), `predict_fn`, the exported program, `predict`, and
the same ensemble in PyTorch, eager and compiled, take turns in every round, so that ratios
survive a busy machine. Times are medians over rounds, ratios medians of each round's ratio to the
bare network. PyTorch is optional (pip install 'credax[bench]').

    python benchmarks/serving.py --rounds 15
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

import credax as cx
from credax.posterior import population

MEMBERS, INPUTS, HIDDEN, CLASSES = 5, 64, (256, 256), 10


def posterior():
    problem = cx.Problem(cx.networks.MLP(HIDDEN, outputs=CLASSES), cx.Categorical())
    x = np.zeros((1, INPUTS), np.float32)
    keys = jax.random.split(jax.random.key(0), MEMBERS)
    return population(problem, jax.vmap(lambda key: problem.init(key, x))(keys), x)


def jax_ways(members) -> dict[str, Callable]:
    apply, variables = members.problem.network.apply, members.variables
    bare = jax.jit(lambda x: jax.vmap(lambda v: apply(v, x)[0])(variables))
    function = jax.jit(members.predict_fn())
    with tempfile.TemporaryDirectory() as place:
        path = members.export(Path(place) / "model.export", platforms=("cpu",))
        exported = jax.jit(jax.export.deserialize(path.read_bytes()).call)
    return {
        "bare network": lambda x: bare(x).block_until_ready(),
        "predict_fn": lambda x: function(x).log_probs.block_until_ready(),
        "predict_fn and probs": _probs(members),
        "exported program": lambda x: exported(x)["probs"].block_until_ready(),
        "predict": lambda x: members.predict(x).log_probs.block_until_ready(),
    }


def _probs(members) -> Callable:
    function = jax.jit(lambda x: members.predict_fn()(x).probs)
    return lambda x: function(x).block_until_ready()


def torch_ways(members) -> dict[str, Callable]:
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: only the ways of jax are measured")
        return {}
    layers = [members.variables.params[name] for name in sorted(members.variables.params)]
    stack = [
        (torch.tensor(np.asarray(layer["kernel"])), torch.tensor(np.asarray(layer["bias"])))
        for layer in layers
    ]

    def network(x):
        h = x.expand(MEMBERS, *x.shape)
        for i, (kernel, bias) in enumerate(stack):
            h = torch.baddbmm(bias[:, None], h, kernel)
            h = torch.relu(h) if i < len(stack) - 1 else h
        return torch.softmax(h, -1).mean(0)

    def eager(x):
        with torch.inference_mode():
            return network(torch.from_numpy(x)).numpy()

    ways = {"PyTorch, eager": eager}
    try:
        fast = torch.compile(network, dynamic=False)

        def compiled(x):
            with torch.inference_mode():
                return fast(torch.from_numpy(x)).numpy()

        compiled(np.zeros((1, INPUTS), np.float32))
        ways["PyTorch, compiled"] = compiled
    except Exception as error:  # no compiler on this machine
        print(f"torch.compile does not work here: {str(error).splitlines()[0]}")
    return ways


def seconds(way: Callable, x: np.ndarray, calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        way(x)
    return (time.perf_counter() - start) / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    members = posterior()
    ways = {**jax_ways(members), **torch_ways(members)}
    rng = np.random.default_rng(0)
    expected = np.asarray(members.predict(rng.normal(size=(3, INPUTS)).astype("f4")).probs)
    assert np.isfinite(expected).all()
    for rows, calls, unit in ((1, 200, "one row"), (10_000, 1, "10 000 rows")):
        x = rng.normal(size=(rows, INPUTS)).astype(np.float32)
        probs = np.asarray(members.predict(x).probs)
        for name in ("exported program", "PyTorch, eager", "PyTorch, compiled"):
            if name in ways:
                np.testing.assert_allclose(np.asarray(ways[name](x)), probs, atol=2e-6)
        for way in ways.values():
            way(x)
        times = [{n: seconds(way, x, calls) for n, way in ways.items()} for _ in range(rounds)]
        print(f"\n{unit}: {'way':<24}{'ms':>10}{'over bare':>12}")
        for name in ways:
            own = [t[name] for t in times]
            ratio = statistics.median(t[name] / t["bare network"] for t in times)
            middle, left = 1e3 * statistics.median(own), " " * (len(unit) + 2)
            print(f"{left}{name:<24}{middle:>10.3f}{ratio:>12.2f}")


if __name__ == "__main__":
    main()
