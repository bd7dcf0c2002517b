"""What efficient ensembles cost: a step, a prediction and memory, over one network's and over four.

Batches of 128, four members (MIMO three), one draw per member; members split a batch. All rows take
turns in every round of one run, so that ratios survive a busy machine; times are medians over
rounds and ratios medians of each round's ratio. Memory is what the compiler states for the compiled
step (arguments, outputs, temporary buffers); numbers are the learned ones that a posterior stores.

With ``--torch`` the small network in PyTorch takes turns too, plain and with the layers of
torch-uncertainty (pip install torch==2.13.0 torch-uncertainty==0.13.0).

    python benchmarks/efficient_ensembles.py --cases cnn resnet20 --rounds 7 --torch
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import credax as cx
from credax.methods.ensembles.batch_ensemble import BatchEnsemble
from credax.methods.ensembles.lp_bnn import LPBNN
from credax.methods.ensembles.masksembles import Masksembles
from credax.methods.ensembles.mimo import MIMO
from credax.methods.ensembles.modulated_posterior import ModulatedPosterior
from credax.methods.ensembles.node_bnn import NodeBNN
from credax.methods.ensembles.packed_ensemble import PackedEnsemble
from credax.methods.ensembles.rank_one_bnn import Rank1BNN
from credax.methods.variational.mnf import MNF
from credax.training.engine import build_program
from credax.training.hooks import problem_of
from credax.training.memory import program_bytes
from credax.training.program import Rows, advance, current_members, initialise

MEMBERS, INPUTS, BATCH, CLASSES = 4, 3, 128, 10
SINGLE, ENSEMBLE = "single network", "deep ensemble"
METHODS = {
    SINGLE: cx.Single(),
    ENSEMBLE: cx.DeepEnsemble(MEMBERS),
    "BatchEnsemble": BatchEnsemble(members=MEMBERS),
    "BatchEnsemble, tile": BatchEnsemble(members=MEMBERS, batch="tile"),
    "Rank-1 BNN": Rank1BNN(members=MEMBERS),
    "node-BNN": NodeBNN(members=MEMBERS, samples=1),
    "LP-BNN": LPBNN(members=MEMBERS),
    "Masksembles": Masksembles(members=MEMBERS),
    "Packed-Ensemble": PackedEnsemble(members=MEMBERS),
    "MIMO": MIMO(members=INPUTS, batch_repetitions=1),
    "MNF": MNF(samples=MEMBERS),
}
# Most that a step may take over one network's.
TARGETS = {"BatchEnsemble": 1.3, "Rank-1 BNN": 1.3, "Masksembles": 1.3, "MIMO": 1.15}


@dataclass(frozen=True)
class Case:
    """A network, the shape of its inputs, and steps per turn."""

    network: Callable[[int], Any]
    shape: tuple[int, ...]
    steps: int


CASES = {
    "cnn": Case(cx.networks.CNN, (28, 28, 1), 4),
    "resnet20": Case(partial(cx.networks.build, "resnet20"), (32, 32, 3), 1),
}


class Ours:
    """A method's compiled step and its compiled prediction."""

    def __init__(self, name: str, case: Case, x, y):
        self.name, self.x, self.steps = name, x[:BATCH], case.steps
        method, data = METHODS[name], cx.Split(x, y)
        given = cx.Problem(case.network(CLASSES), cx.Categorical(), weight_decay=1e-4)
        problem = problem_of(method, given).traced()
        training = cx.Training(epochs=100, batch_size=BATCH, learning_rate=0.01)
        dynamics = method.dynamics(problem, data, training)
        self.program = build_program(problem, dynamics, training, data, jax.random.key(0))
        self.rows = jax.device_put(Rows(x, y))
        self.carry = initialise(self.program, Rows(x[:1], y[:1]))
        began = time.perf_counter()
        self.step()
        self.compile_seconds = time.perf_counter() - began
        self.bytes = program_bytes(advance, self._inputs(), self.carry)
        self.posterior = self._posterior(method, given, dynamics, data)
        self.function = jax.jit(self.posterior.predict_fn())

    def _inputs(self):
        return self.program, self.rows, jnp.int32(0), jnp.int32(self.steps), None

    def step(self) -> None:
        self.carry = jax.block_until_ready(advance(self._inputs(), self.carry))

    def predict(self) -> np.ndarray:
        return np.asarray(self.function(self.x).log_probs)

    def _posterior(self, method, given, dynamics, data) -> Any:
        # Copies: the next step gives the carry's own arrays up.
        states = jax.tree.map(jnp.array, self.carry.states)
        variables = current_members(self.program, states)
        alive = np.ones_like(np.asarray(self.carry.alive))
        return method.posterior(given, dynamics, states, variables, alive, data)

    @property
    def numbers(self) -> int:
        return stored_numbers(self.posterior)


def stored_numbers(posterior: Any) -> int:
    """Learned numbers that a population, or members around one network, keep."""
    if isinstance(posterior, ModulatedPosterior):
        tree: Any = posterior.shared._replace(carried={})
    else:
        tree = posterior.variables.params
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


def cnn_numbers(name: str) -> int | None:
    """What the methods' papers say is stored for the small network, by hand.

    A kernel of ``a`` inputs, ``b`` outputs and a window of ``w`` has ``a b w`` numbers and ``b``
    biases.
    """
    kernels = [(1, 32, 9), (32, 64, 9), (3136, 128, 1), (128, CLASSES, 1)]
    one = sum(a * b * w + b for a, b, w in kernels)
    weights = sum(a * b * w for a, b, w in kernels)
    factors = sum(a + b for a, b, _ in kernels)
    biases = sum(b for _, b, _ in kernels)
    narrow = [(1, 16, 9), (16, 32, 9), (1568, 64, 1), (64, CLASSES, 1)]
    # Of MIMO the first kernel reads all inputs, and each has a head.
    wide = [(INPUTS, 32, 9), *kernels[1:3], *[kernels[3]] * INPUTS]
    known = {
        SINGLE: one,
        ENSEMBLE: MEMBERS * one,
        "BatchEnsemble": weights + MEMBERS * (factors + biases),
        "BatchEnsemble, tile": weights + MEMBERS * (factors + biases),
        "Rank-1 BNN": one + 2 * MEMBERS * factors,
        "node-BNN": one + 2 * MEMBERS * sum(b for _, b, _ in kernels),
        "Masksembles": one + MEMBERS * (32 + 64 + 128),
        "Packed-Ensemble": MEMBERS * sum(a * b * w + b for a, b, w in narrow),
        "MIMO": sum(a * b * w + b for a, b, w in wide),
    }
    return known.get(name)


def take_turns(runners: list[Any], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Milliseconds of each runner's step and prediction in each round, after one that compiles."""
    times = {r.name: {"step": [], "predict": []} for r in runners}
    for number in range(rounds + 1):
        for runner in runners:
            for what, run, count in (
                ("step", runner.step, runner.steps),
                ("predict", runner.predict, 1),
            ):
                began = time.perf_counter()
                run()
                took = 1e3 * (time.perf_counter() - began) / count
                if number:
                    times[runner.name][what].append(took)
    return times


def ratio(times: dict, name: str, over: str, what: str) -> float:
    """Median over rounds of each round's ratio."""
    pairs = zip(times[name][what], times[over][what], strict=True)
    return statistics.median(a / b for a, b in pairs)


def measure(name: str, methods: list[str], rounds: int, with_torch: bool) -> None:
    """Run one case and print its table."""
    case, rng = CASES[name], np.random.default_rng(0)
    x = rng.normal(size=(4 * BATCH, *case.shape)).astype(np.float32)
    y = rng.integers(0, CLASSES, 4 * BATCH)
    ours = []
    for method in dict.fromkeys(methods):
        ours.append(Ours(method, case, x, y))
        print(f"compiled {method} in {ours[-1].compile_seconds:.1f} s", flush=True)
    rivals = torch_rows(x, y, case.steps) if with_torch and name == "cnn" else []
    times = take_turns([*ours, *rivals], rounds)
    show(name, ours, times)
    known = [row for row in rivals if row.ours in times]
    if known:
        show_torch(known, times)


def show(name: str, ours: list[Ours], times: dict) -> None:
    """One row per method: step, prediction, memory and numbers, each over one and over four."""
    print(f"\n{name}: batches of {BATCH}; x1 is over one network, x{MEMBERS} over a deep ensemble")
    heads = ["step ms", "x1", "x4", "predict ms", "x1", "x4", "MB", "x1", "x4", "numbers", "x1"]
    print(f"{'':22}" + "".join(f"{head:>11}" for head in heads))
    by_name = {row.name: row for row in ours}
    for row in ours:
        cells = []
        for what in ("step", "predict"):
            own = statistics.median(times[row.name][what])
            cells += [f"{own:.1f}"]
            cells += [f"{ratio(times, row.name, o, what):.2f}" for o in (SINGLE, ENSEMBLE)]
        cells += [f"{row.bytes / 1e6:.1f}"]
        cells += [f"{row.bytes / by_name[o].bytes:.2f}" for o in (SINGLE, ENSEMBLE)]
        cells += [str(row.numbers), f"{row.numbers / by_name[SINGLE].numbers:.3f}"]
        print(f"{row.name:22}" + "".join(f"{cell:>11}" for cell in cells) + _verdict(row, times))
        expected = cnn_numbers(row.name) if name == "cnn" else None
        if expected not in (None, row.numbers):
            print(f"  stored numbers differ from the papers' count of {expected}")


def _verdict(row: Ours, times: dict) -> str:
    found = []
    if row.name in TARGETS:
        met = ratio(times, row.name, SINGLE, "step") <= TARGETS[row.name]
        found.append(f"step at most {TARGETS[row.name]}: {'yes' if met else 'NO'}")
    if row.name == "BatchEnsemble":
        met = ratio(times, row.name, ENSEMBLE, "predict") <= 1
        found.append(f"prediction at most the deep ensemble's: {'yes' if met else 'NO'}")
    return f"   {'; '.join(found)}" if found else ""


def show_torch(rivals: list[Any], times: dict) -> None:
    """Our rows over theirs."""
    print(f"\n{'':22}{'step ms':>11}{'ours over':>11}{'predict ms':>12}{'ours over':>11}")
    for row in rivals:
        cells = []
        for what, width in (("step", 11), ("predict", 12)):
            own = statistics.median(times[row.name][what])
            cells += [f"{own:{width}.1f}", f"{ratio(times, row.ours, row.name, what):11.2f}"]
        print(f"{row.name:22}" + "".join(cells))


def torch_rows(x, y, steps: int) -> list[Any]:
    """The small network in PyTorch and with torch-uncertainty's layers."""
    from torch_uncertainty_rows import rows

    return rows(x, y, steps)


def main() -> None:
    """Parse the command line and run the cases."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--torch", action="store_true", help="also torch-uncertainty (cnn)")
    chosen = parser.parse_args()
    print(f"jax {jax.__version__} on {jax.default_backend()}")
    for name in chosen.cases:
        measure(name, [SINGLE, ENSEMBLE, *chosen.methods], chosen.rounds, chosen.torch)


if __name__ == "__main__":
    main()
