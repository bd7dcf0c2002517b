"""Kernels of infinite width: ours against the plain formula, reduced against full, blocks.

    nice python benchmarks/ntk.py            # minutes on two cores
    nice python benchmarks/ntk.py --small    # seconds

Both sides of every ratio are measured in one run on the same inputs, and their results agree
(asserted). Time is the shortest of some runs after one that compiles. Memory is how far the peak of
a process of its own rises above what it holds after a tiny run of the same kind (Linux).
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from credax import groups, infinite
from credax.network import Variables

TIME = 0.1


def best(function, repeats=3):
    """Shortest of some runs, after one that compiles, and what came out."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        found = function()
        times.append(time.perf_counter() - start)
    return min(times), found


def peak_of(part, *sizes):
    """Megabytes that a part needs, in a process of its own."""
    command = [sys.executable, __file__, "--memory", part, *map(str, sizes)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(answer.stdout)


def memory(part, sizes):
    """Peak of one run above the peak of a tiny one, in MB."""
    make = {"full": full_solve, "reduced": reduced_solve, "blocks": in_blocks, "jacobian": at_once}
    tiny = (*sizes[:-1], 2) if part in ("full", "reduced") else (2, 8)
    make[part](*tiny)()
    run = make[part](*sizes)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from what is held now
    before = resident("VmHWM")
    run()
    return resident("VmHWM") - before


def resident(name):
    """A line of what Linux knows of this process's memory, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def net(depth=2, width=512):
    layer = [infinite.InfiniteDense(width, 2**0.5, 0.1), infinite.ReLU()]
    return infinite.serial(*layer * depth, infinite.InfiniteDense(1, 2**0.5, 0.1))


def plain_dense(x, depth=2):
    """The textbook recursion in NumPy, all pairs at once."""
    k = 2 * x @ x.T / x.shape[1] + 0.01
    t = k
    for _ in range(depth):
        q = np.sqrt(np.outer(np.diag(k), np.diag(k)))
        rho = np.clip(k / q, -1, 1)
        angle = np.arccos(rho)
        slope = (np.pi - angle) / (2 * np.pi)
        new = q * (np.sin(angle) + (np.pi - angle) * rho) / (2 * np.pi)
        k, t = 2 * new + 0.01, 2 * new + 0.01 + 2 * slope * t
    return t


def plain_conv(x):
    """One 3x3 circular convolution, ReLU, Flatten and a dense layer, in NumPy."""
    n, size = len(x), x.shape[1]
    k = np.einsum("ahwc,bhwc->abhw", x, x) / x.shape[-1]

    def window(a):
        return sum(np.roll(a, (i, j), (2, 3)) for i in (-1, 0, 1) for j in (-1, 0, 1)) / 9

    k = 2 * window(k) + 0.01
    q = np.einsum("aahw->ahw", k)
    size_of = np.sqrt(q[:, None] * q[None])
    rho = np.clip(k / size_of, -1, 1)
    angle = np.arccos(rho)
    slope = (np.pi - angle) / (2 * np.pi)
    new = size_of * (np.sin(angle) + (np.pi - angle) * rho) / (2 * np.pi)
    assert new.shape == (n, n, size, size)
    return 2 * new.mean((2, 3)) + 0.01 + 2 * (slope * k).mean((2, 3))


def kernels(points, pictures):
    """A dense and a convolutional kernel beside the textbook's formula."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((points, 64))
    images = rng.standard_normal((pictures, 12, 12, 3))
    conv = infinite.serial(
        infinite.InfiniteConv(8, padding="circular", weight_std=2**0.5, bias_std=0.1),
        infinite.ReLU(),
        infinite.Flatten(),
        infinite.InfiniteDense(1, 2**0.5, 0.1),
    )
    for name, ours, theirs in (
        (f"dense NTK, {points} x {points}, 3 layers", lambda: net().kernels(x).ntk, plain_dense),
        (
            f"convolutional NTK, {pictures} pictures of 12 x 12",
            lambda: conv.kernels(images).ntk,
            plain_conv,
        ),
    ):
        inputs = x if theirs is plain_dense else images
        fast, found = best(ours)
        slow, plain = best(lambda theirs=theirs, inputs=inputs: theirs(inputs))
        # On the diagonal the textbook's arc cosine keeps half the digits only.
        off = ~np.eye(len(inputs), dtype=bool)
        np.testing.assert_allclose(found[off], plain[off], rtol=1e-10, atol=1e-12)
        print(
            f"{name} (both kernels, ours): {fast:.3f} s, plain NumPy {slow:.3f} s: "
            f"{slow / fast:.2f} times as fast",
            flush=True,
        )


def symmetry(name):
    """A representation by name, and the shape of its inputs."""
    if name == "C4":
        return groups.quarter_turns(8)
    if name == "D4xshifts":
        return groups.turns_and_shifts(5)
    return groups.plane_rotations(int(name.removeprefix("C")))


class Flat:
    """A kernel of flattened inputs."""

    def __init__(self, net):
        self.net = net

    def kernels(self, x1, x2=None):
        flat = lambda x: x.reshape(len(x), -1)  # noqa: E731
        return self.net.kernels(flat(x1), None if x2 is None else flat(x2))


def rows(name, base):
    turns, rng = symmetry(name), np.random.default_rng(0)
    points = rng.standard_normal((8, *turns.shape))
    return turns, rng.standard_normal((base, *turns.shape)), rng.standard_normal(base), points


def full_solve(name, base):
    """The mean after training on all rows of all orbits."""
    turns, x, y, points = rows(name, int(base))

    def run():
        whole = groups.augment(x, y, turns)
        return infinite.EnsembleDynamics(Flat(net()), whole.x, whole.y).mean(points, TIME)

    return run


def reduced_solve(name, base):
    """The same from the original rows."""
    turns, x, y, points = rows(name, int(base))

    def run():
        kernel = groups.GroupAveraged(Flat(net()), turns)
        return infinite.EnsembleDynamics(kernel, x, y).mean(points, TIME)

    return run


def reduction(sizes):
    """Full augmentation against the averaged kernel."""
    for name, base in sizes:
        order = symmetry(name).group.order
        slow, wanted = best(full_solve(name, base), 1)
        fast, found = best(reduced_solve(name, base), 2)
        np.testing.assert_allclose(found, wanted, atol=1e-9)
        large, little = peak_of("full", name, base), peak_of("reduced", name, base)
        print(
            f"orbit reduction, {name} of order {order}, {base} rows: {slow:.3f} s and {large:.0f} "
            f"MB full, {fast:.3f} s and {little:.1f} MB reduced: {slow / fast:.0f} times as fast",
            flush=True,
        )


def finite(rows, width):
    small = net(2, int(width))
    x = np.random.default_rng(0).standard_normal((int(rows), 16))
    return small, small.init(jax.random.key(0), jnp.ones((1, 16))), x


def in_blocks(rows, width):
    """The empirical kernel by blocks of at most 64 MB."""
    small, variables, x = finite(rows, width)
    return lambda: infinite.empirical_ntk(small, variables, x, outputs="trace", memory_limit=2**26)


def at_once(rows, width):
    """The empirical kernel by one Jacobian of everything."""
    small, variables, x = finite(rows, width)

    @jax.jit
    def product(params, x):
        jacobian = jax.jacrev(lambda p: small.apply(Variables(p, {}), x)[0][:, 0])(params)
        flat = [j.reshape(len(x), -1) for j in jax.tree.leaves(jacobian)]
        return sum(j @ j.T for j in flat)

    def run():
        with jax.enable_x64(True):
            params = jax.tree.map(lambda p: jnp.asarray(p, jnp.float64), variables.params)
            return np.asarray(product(params, jnp.asarray(x)))

    return run


def empirical(rows, width):
    """Blocks against one Jacobian."""
    blocks, found = best(in_blocks(rows, width), 2)
    full, wanted = best(at_once(rows, width), 2)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    less, more = peak_of("blocks", rows, width), peak_of("jacobian", rows, width)
    print(
        f"empirical NTK, {rows} rows, width {width}: {blocks:.3f} s and {less:.0f} MB in blocks, "
        f"{full:.3f} s and {more:.0f} MB by one Jacobian",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--memory", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        part, *sizes = options.memory
        print(memory(part, sizes))
        return
    small = options.small
    kernels(*((200, 10) if small else (1000, 100)))
    base = 8 if small else 100
    turns = ("C2", "C4", "C8", "C16")
    reduction([*((name, base) for name in turns), ("D4xshifts", 2 if small else 8)])
    empirical(*((20, 32) if small else (200, 256)))


if __name__ == "__main__":
    main()
