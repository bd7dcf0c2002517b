"""Kernels of infinite width: ours against the plain formula, reduced against full, blocks.

    nice python benchmarks/ntk.py            # minutes on two cores
    nice python benchmarks/ntk.py --small    # seconds

Every pair of numbers is measured in one run on the same inputs; the results agree (asserted).
"""

import argparse
import time
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np

from credax import groups, infinite
from credax.network import Variables


def best(function, repeats=3):
    """Shortest of some runs, after one that compiles."""
    function()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        found = function()
        times.append(time.perf_counter() - start)
    return min(times), found


def peak(function):
    """Most memory NumPy held during a call, in MB."""
    tracemalloc.start()
    function()
    size = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return size


def net(depth=2, width=512):
    layer = [infinite.Dense(width, 2**0.5, 0.1), infinite.ReLU()]
    return infinite.serial(*layer * depth, infinite.Dense(1, 2**0.5, 0.1))


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
    rng = np.random.default_rng(0)
    x = rng.standard_normal((points, 64))
    ours, found = best(lambda: net().kernels(x).ntk)
    theirs, plain = best(lambda: plain_dense(x))
    off = ~np.eye(points, dtype=bool)
    np.testing.assert_allclose(found[off], plain[off], rtol=1e-6)
    print(
        f"dense NTK, {points} x {points}, 3 layers: ours {ours:.3f} s, plain NumPy {theirs:.3f} s"
    )
    images = rng.standard_normal((pictures, 12, 12, 3))
    conv = infinite.serial(
        infinite.Conv(8, padding="circular", weight_std=2**0.5, bias_std=0.1),
        infinite.ReLU(),
        infinite.Flatten(),
        infinite.Dense(1, 2**0.5, 0.1),
    )
    ours, found = best(lambda: conv.kernels(images).ntk)
    theirs, plain = best(lambda: plain_conv(images))
    off = ~np.eye(pictures, dtype=bool)
    np.testing.assert_allclose(found[off], plain[off], rtol=1e-6)
    print(
        f"convolutional NTK, {pictures} pictures 12 x 12: ours {ours:.3f} s, plain {theirs:.3f} s"
    )


def reduction(base):
    rng = np.random.default_rng(0)
    for name, turns in (
        ("C4", groups.quarter_turns(4)),
        ("D4 x translations", groups.turns_and_shifts(5)),
    ):
        size = turns.shape[0]
        x, y = rng.standard_normal((base, size, size)), rng.standard_normal(base)
        kernel = _Flat(net())
        points = rng.standard_normal((8, size, size))

        def full(x=x, y=y, turns=turns, kernel=kernel, points=points):
            whole = groups.augment(x, y, turns)
            return infinite.EnsembleDynamics(kernel, whole.x, whole.y).mean(points, 0.1)

        def reduced(x=x, y=y, turns=turns, kernel=kernel, points=points):
            averaged = groups.GroupAveraged(kernel, turns)
            return infinite.EnsembleDynamics(averaged, x, y).mean(points, 0.1)

        slow, wanted = best(full, 1)
        fast, found = best(reduced, 1)
        np.testing.assert_allclose(found, wanted, atol=1e-9)
        memory = peak(full) / peak(reduced)
        print(
            f"orbit reduction, {name} ({turns.group.order}), {base} rows: {slow:.3f} s full, "
            f"{fast:.3f} s reduced: {slow / fast:.1f} times faster, {memory:.1f} times less memory"
        )


class _Flat:
    def __init__(self, net):
        self.net = net

    def kernels(self, x1, x2=None):
        flat = lambda x: x.reshape(len(x), -1)  # noqa: E731
        return self.net.kernels(flat(x1), None if x2 is None else flat(x2))


def empirical(rows, width):
    small = net(2, width)
    x = np.random.default_rng(0).standard_normal((rows, 16))
    variables = small.init(jax.random.key(0), jnp.ones((1, 16)))
    blocks, found = best(
        lambda: infinite.empirical_ntk(small, variables, x, outputs="trace", memory_limit=2**26), 2
    )

    def whole():
        with jax.enable_x64(True):
            params = jax.tree.map(lambda p: jnp.asarray(p, jnp.float64), variables.params)
            jacobian = jax.jacrev(lambda p: small.apply(Variables(p, {}), jnp.asarray(x))[0][:, 0])
            flat = [j.reshape(rows, -1) for j in jax.tree.leaves(jacobian(params))]
            return np.asarray(sum(j @ j.T for j in flat))

    full, wanted = best(whole, 2)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    params = sum(leaf.size for leaf in jax.tree.leaves(variables.params))
    print(
        f"empirical NTK, {rows} rows, width {width}: blocks within 64 MB {blocks:.3f} s, one full "
        f"Jacobian of {8e-6 * rows * params:.0f} MB {full:.3f} s"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    kernels(*((200, 10) if small else (1000, 100)))
    reduction(4 if small else 16)
    empirical(*((20, 32) if small else (200, 256)))


if __name__ == "__main__":
    main()
