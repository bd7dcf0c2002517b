"""One step of FoRDE over one step of a deep ensemble, in the engine that `credax.fit` runs.

Rows take turns in every round of one run, so that ratios survive a busy machine: times are medians
over rounds, a ratio is the median of each round's ratio to the deep ensemble with shared batches.
``direct`` is the plain formulation: automatic differentiation of the loss and of the repulsion over
explicit differences of all pairs, ``[members, members, batch, components]``, with the components of
ours or, as in the released program, with all. Memory is what the compiled program needs beside its
code: arguments and temporaries.

    python benchmarks/forde_step.py --cases cnn mlp --rounds 7
"""

import argparse
import re
import statistics
import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import credax as cx
from credax.data import Split
from credax.methods.repulsive.repulsive import Repulsive
from credax.network import Network, Variables
from credax.networks.convolution import using_implementation
from credax.training.dynamics import CoupledDynamics, Replicas
from credax.training.engine import build_program
from credax.training.program import Rows, advance, initialise


@dataclass(frozen=True)
class Case:
    """A network, the shape of its inputs, and what the step may cost at most."""

    network: Network
    shape: tuple[int, ...]
    target: float
    steps: int


CASES = {
    "cnn": Case(cx.networks.CNN(10), (28, 28, 1), 2.2, 2),
    "mlp": Case(cx.networks.MLP((256, 256), 10), (28, 28, 1), 3.0, 10),
}
WAYS: dict[str, dict[str, Any]] = {
    "forde": {},
    "vjp": {"pullback": "vjp"},
    "difference": {"pullback": "difference"},
    "fraction 0.25": {"fraction": 0.25},
    "identity": {"lengthscale": "identity", "rank": None},
    "frozen": {"statistics": "frozen"},
}


class Direct(CoupledDynamics):
    """The same step by differentiating through the kernel and the pairs' differences."""

    inner: Repulsive

    @property
    def replicas(self) -> Replicas:
        """How many members there are."""
        return self.inner.replicas

    def init(self, keys, variables, strategy):
        """The same first states."""
        return self.inner.init(keys, variables, strategy)

    def members(self, state):
        """One member, with an axis of length one."""
        return self.inner.members(state)

    def step(self, keys, state, batch, strategy, alive):
        """The gradient of all members' losses and of the repulsion, by one call of `jax.grad`."""
        problem, num_data = self.inner.descent.problem, self.inner.descent.num_data
        carried = state.descent.variables.state
        metric: Any = self.inner.repulsion.metric  # pyright: ignore[reportAttributeAccessIssue]

        def member(own, x):
            params, key = own
            outputs, _ = problem.outputs(Variables(params, carried), x, key=key, train=True)
            return outputs

        def gradients(params):
            def logits(x):
                outputs = strategy(member, (params, keys), x)
                return jnp.take_along_axis(outputs, batch.y[None, :, None], -1)[..., 0].sum(1)

            return jax.jacrev(logits)(batch.x)

        def objective(params):
            outputs = strategy(member, (params, keys), batch.x)
            losses = jax.vmap(lambda out: problem.negative_log_likelihood(out, batch))(outputs)
            penalty = jax.vmap(lambda p: problem.prior.penalty(p, num_data=num_data))(params)
            return jnp.sum(losses + penalty) + repulsion(each_gradient(params)), losses

        def each_gradient(params):
            def one(own, x):
                def logit(x):
                    outputs = member(own, x)
                    return jnp.take_along_axis(outputs, batch.y[:, None], -1).sum()

                return jax.grad(logit)(x).reshape(len(x), -1)

            return strategy(one, (params, keys), batch.x)

        def repulsion(g):
            s = g / jnp.sqrt(jnp.square(g).sum(-1, keepdims=True) + 1e-24)
            left, right = metric.project(s)
            other = [jax.lax.stop_gradient(q)[None] for q in (left, right)]
            d2 = ((left[:, None] - other[0]) * (right[:, None] - other[1])).sum(-1)
            h = jax.lax.stop_gradient(jnp.median(d2, 0) / jnp.log(len(g)) + 1e-12)
            a = jnp.exp(-d2 / h)
            return jnp.log(a.sum((1, 2)) / a.shape[-1]).sum() / a.shape[-1]

        gradient, losses = jax.grad(objective, has_aux=True)(state.descent.variables.params)
        descent = self.inner._update(state.descent, gradient, carried, strategy)
        return state._replace(descent=descent, step=state.step + 1), {"loss": losses}


class Runner:
    """One way to train, compiled."""

    def __init__(self, name: str, dynamics: Any, problem, training, split):
        self.name = name
        program = build_program(problem, dynamics, training, split, jax.random.key(0))
        rows = Rows(jnp.asarray(split.x), jnp.asarray(split.y))
        self.carry = initialise(program, Rows(split.x[:1], split.y[:1]))
        self.program, self.step = program, 0
        self.inputs = lambda start, stop: (program, rows, jnp.int32(start), jnp.int32(stop))
        began = time.perf_counter()
        self.compiled = advance.lower(self.inputs(0, 1), self.carry).compile()
        self.compile_seconds = time.perf_counter() - began
        memory = self.compiled.compiled.memory_analysis()
        self.megabytes = (memory.temp_size_in_bytes + memory.argument_size_in_bytes) / 1e6

    def __call__(self, steps: int):
        size = 1 if self.program.dispatch else steps
        for start in range(self.step, self.step + steps, size):
            self.carry = self.compiled(self.inputs(start, start + size), self.carry)
        self.step += steps
        jax.block_until_ready(self.carry)


def runners(case: Case, members: int, batch: int, rank: int, wanted: str):
    """The deep ensemble and every way to run FoRDE."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40 * batch, *case.shape)).astype(np.float32)
    split = Split(x, rng.integers(0, 10, len(x)))
    problem = cx.Problem(case.network, cx.Categorical(), weight_decay=5e-4)
    training = cx.Training(epochs=1000, batch_size=batch, learning_rate=0.01, schedule="constant")
    plain = cx.DeepEnsemble(members, batches="shared").dynamics(problem, split, training)
    yield Runner("deep ensemble", plain, problem, training, split)
    for name, options in WAYS.items():
        if re.search(wanted, name):
            record = cx.FoRDE(**{"members": members, "rank": rank, **options})
            dynamics = record.dynamics(problem, split, training)
            yield Runner(name, dynamics, problem, training, split)
    for name, kept in (("direct", rank), ("direct, all", int(np.prod(case.shape)))):
        if re.search(wanted, name):
            dynamics = cx.FoRDE(members=members, rank=kept).dynamics(problem, split, training)
            yield Runner(name, Direct(dynamics), problem, training, split)


def measure(name: str, case: Case, chosen) -> None:
    """Run one case and print its table."""
    ways = list(runners(case, chosen.members, chosen.batch, chosen.rank, chosen.ways))
    times: dict[str, list[float]] = {way.name: [] for way in ways}
    for way in ways:
        way(case.steps)
    for _ in range(chosen.rounds):
        for way in ways:
            began = time.perf_counter()
            way(case.steps)
            times[way.name].append((time.perf_counter() - began) * 1e3 / case.steps)
    print(
        f"\n{name}: {chosen.members} members, batch {chosen.batch}, PCA rank {chosen.rank};", end=""
    )
    print(f" FoRDE at most {case.target} deep ensembles, memory at most 1.5")
    print(f"{'':16}{'ms/step':>10}{'ratio':>8}{'MB':>8}{'ratio':>8}{'compile s':>11}")
    first = ways[0]
    for way in ways:
        pairs = zip(times[way.name], times[first.name], strict=True)
        ratio = statistics.median(a / b for a, b in pairs)
        print(
            f"{way.name:16}{statistics.median(times[way.name]):10.2f}{ratio:8.2f}"
            f"{way.megabytes:8.0f}{way.megabytes / first.megabytes:8.2f}"
            f"{way.compile_seconds:11.1f}",
            flush=True,
        )
    for way in ("direct", "direct, all"):
        if way in times and "forde" in times:
            pairs = zip(times[way], times["forde"], strict=True)
            ratio = statistics.median(a / b for a, b in pairs)
            print(f"{way} over forde: {ratio:.2f} (at least 1.5)")


def main() -> None:
    """Parse the command line and run the cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rank", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ways", default="", help="only rows whose name matches this pattern")
    parser.add_argument("--implementation", default="auto", help="of convolutions")
    chosen = parser.parse_args()
    print(f"jax {jax.__version__} on {jax.default_backend()}, {jax.local_device_count()} device(s)")
    print(f"convolutions: {chosen.implementation}")
    with using_implementation(chosen.implementation):
        for name in chosen.cases:
            measure(name, CASES[name], chosen)


if __name__ == "__main__":
    main()
