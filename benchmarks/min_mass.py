"""The least mass of many small networks: credax against cvxpy, ratio in one run.

Both get the same weights, ReLU networks of the widths given, all biases left out. credax solves all
networks in one call (host, float64), its certificate included; its time contains everything after
the trace. cvxpy solves them one after another as a geometric program in log space, one exponential
a weight (Clarabel), with the problem built once and the weights as a parameter, so that only
solving is timed; and once more with the problem built for every network, as the released code of
the paper does. The answers are compared. Times are those of the processor, which other programs on
the machine disturb less than the clock; both solvers use one core.

    python benchmarks/min_mass.py --networks 1000 --cvxpy-networks 1000
"""

import argparse
import itertools
import time

import jax
import numpy as np

from credax import FunctionNetwork, Variables
from credax.structure import minimum_mass, trace


def weights(widths, count, seed=0):
    rng = np.random.default_rng(seed)
    pairs = itertools.pairwise(widths)
    return {f"w{k}": rng.standard_normal((count, b, a)) for k, (a, b) in enumerate(pairs)}


def forward(params, x):
    for k in range(len(params)):
        x = x @ params[f"w{k}"].T
        x = jax.nn.relu(x) if k + 1 < len(params) else x
    return x


def ours(many):
    """Values of all networks, and seconds of the processor: the best of five, after the trace."""
    one = Variables({name: array[0] for name, array in many.items()}, {})
    network = FunctionNetwork(lambda key, x: {}, forward)
    start = time.perf_counter()
    structure = trace(network, one, np.zeros((4, many["w0"].shape[2])))
    traced = time.perf_counter() - start
    times = []
    for _ in range(5):
        start = time.process_time()
        least = minimum_mass(structure, Variables(many, {}))
        times.append(time.process_time() - start)
    gap = float(np.max((least.value - least.lower_bound) / least.value))
    return least.value, min(times), traced, least.sweeps, gap


class Convex:
    """The problem in cvxpy: log Σ exp(log w² + 2 (ℓ_i - ℓ_j))."""

    def __init__(self, shapes):
        import cvxpy

        layers = list(shapes.values())
        logs = [cvxpy.Variable(shape[0]) for shape in layers[:-1]]
        total = sum(rows * columns for rows, columns in layers)
        self.squares = cvxpy.Parameter(total)
        powers = []
        for k, (rows, columns) in enumerate(layers):
            for i, j in itertools.product(range(rows), range(columns)):
                power = 0
                if k < len(logs):
                    power = power + 2 * logs[k][i]
                if k:
                    power = power - 2 * logs[k - 1][j]
                powers.append(power)
        goal = cvxpy.log_sum_exp(self.squares + cvxpy.hstack(powers))
        self.problem = cvxpy.Problem(cvxpy.Minimize(goal))

    def solve(self, arrays):
        flat = np.concatenate([array.reshape(-1) for array in arrays])
        self.squares.value = 2 * np.log(np.abs(flat))
        self.problem.solve(solver="CLARABEL")
        return float(np.exp(self.problem.value))


def theirs(many, count, rebuild):
    shapes = {name: array.shape[1:] for name, array in many.items()}
    problem = Convex(shapes)
    problem.solve([array[0] for array in many.values()])  # the first solve compiles the problem
    values, start = [], time.process_time()
    for index in range(count):
        problem = Convex(shapes) if rebuild else problem
        values.append(problem.solve([array[index] for array in many.values()]))
    return np.array(values), (time.process_time() - start) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=int, default=1000)
    parser.add_argument("--cvxpy-networks", type=int, default=1000)
    parser.add_argument("--rebuilt-networks", type=int, default=20)
    widths = lambda text: tuple(map(int, text.split(",")))  # noqa: E731
    parser.add_argument("--widths", type=widths, default=(1, 2, 10, 3, 10))
    options = parser.parse_args()
    many = weights(options.widths, options.networks)
    values, seconds, traced, sweeps, gap = ours(many)
    each = seconds / options.networks
    print(f"widths {options.widths}, {options.networks} networks")
    print(f"credax            {1e6 * each:10.1f} us a network ({seconds:.3f} s; {sweeps} sweeps, "
          f"greatest certified gap {gap:.1e}; trace {traced:.2f} s once)")  # fmt: skip
    for count, rebuild, name in (
        (options.cvxpy_networks, False, "cvxpy, built once"),
        (options.rebuilt_networks, True, "cvxpy, built anew"),
    ):
        count = min(count, options.networks)
        found, slow = theirs(many, count, rebuild)
        difference = float(np.max(np.abs(found / values[:count] - 1)))
        print(f"{name:<18}{1e6 * slow:10.1f} us a network ({count} networks): "
              f"{slow / each:.0f} times credax, values differ by {difference:.1e}")  # fmt: skip


if __name__ == "__main__":
    main()
