"""One training step of every member: credax against plain PyTorch, member after member.

Each row is a way to run the same step (forward, backward, SGD with momentum): how members are
spread, whether steps sit in one `lax.scan` or are dispatched one by one, and how convolutions are
computed. All rows and PyTorch take turns in every round of one run, so that ratios survive a busy
machine; times are medians over rounds, the ratio is the median of each round's ratio, and cpu is
the processor time of all threads. PyTorch is optional (pip install 'credax[bench]').

    python benchmarks/ensemble_step.py --cases mlp cnn resnet20 --rounds 7
"""

import argparse
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

import jax
import jax.numpy as jnp
import numpy as np
import optax

from credax import networks
from credax.network import Network, Variables

try:
    import torch
except ImportError:
    torch = None


@dataclass(frozen=True)
class Case:
    """A network, the shape of its inputs, and how much of it to train."""

    network: Callable[..., Network]
    shape: tuple[int, ...]
    members: int
    batch: int
    classes: int
    steps: int
    ways: tuple[tuple[str, str, str], ...]
    target: str
    pixels: bool = False
    """Whether every pixel has a label."""


EVERY = ("native", "mixed", "gemm")
CONVOLUTIONAL = (
    *(("map", "scan", how) for how in EVERY[1:]),
    *(("unrolled", "dispatch", how) for how in EVERY[:3]),
    *(("vmap", "scan", how) for how in EVERY[2:]),
    *(("pairs", "scan", how) for how in EVERY[1:3]),
    *(("pairs", "dispatch", how) for how in EVERY[1:3]),
    ("unrolled", "scan", "mixed"),
)
DENSE = tuple(
    (members, steps, "-")
    for members in ("vmap", "unrolled", "map")
    for steps in ("scan", "dispatch")
)


def _mlp(classes, implementation):
    return networks.MLP((50,), classes)


def _cnn(classes, implementation):
    return networks.CNN(classes, implementation=implementation)


def _resnet20(classes, implementation):
    return networks.ResNet20(classes, implementation=implementation)


def _unet(classes, implementation):
    return networks.UNet(classes, implementation=implementation)


CASES = {
    "mlp": Case(_mlp, (8,), 20, 32, 2, 200, DENSE, "50 times faster than PyTorch"),
    "cnn": Case(_cnn, (28, 28, 1), 10, 128, 10, 2, CONVOLUTIONAL, "at most 1.2 times PyTorch"),
    "resnet20": Case(
        _resnet20, (32, 32, 3), 4, 128, 10, 2, CONVOLUTIONAL, "at most 1.5 times PyTorch"
    ),
    "unet": Case(
        _unet, (64, 64, 3), 4, 8, 3, 2, CONVOLUTIONAL, "at most 1.2 times PyTorch", pixels=True
    ),
}


def member_step(network: Network, optimiser, carry, batch):
    """One step of one member: new variables and optimiser state."""
    variables, memory = carry
    x, y = batch

    def loss(params):
        logits, state = network.apply(Variables(params, variables.state), x, train=True)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), state

    gradient, state = jax.grad(loss, has_aux=True)(variables.params)
    updates, memory = optimiser.update(gradient, memory)
    return Variables(optax.apply_updates(variables.params, updates), state), memory


def over_members(step, members: int, how: str):
    """The step of all members, their variables stacked; every member sees the same batch."""
    if how == "vmap":
        return jax.vmap(step, in_axes=(0, None))
    if how == "map":
        return lambda carry, batch: jax.lax.map(lambda member: step(member, batch), carry)

    def unrolled(carry, batch):
        count = jax.tree.leaves(carry)[0].shape[0]
        new = [step(jax.tree.map(itemgetter(i), carry), batch) for i in range(count)]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *new)

    if how == "unrolled":
        return unrolled

    def in_pairs(carry, batch):
        pairs = jax.tree.map(lambda a: a.reshape(members // 2, 2, *a.shape[1:]), carry)
        new = jax.lax.map(lambda pair: unrolled(pair, batch), pairs)
        return jax.tree.map(lambda a: a.reshape(members, *a.shape[2:]), new)

    return in_pairs


class Ours:
    """A compiled way to run ``case.steps`` steps of all members."""

    def __init__(self, case: Case, members: int, way: tuple[str, str, str], x, y):
        how, steps, implementation = way
        self.name = " ".join(way)
        network = case.network(case.classes, implementation=implementation)
        optimiser = optax.sgd(0.01, momentum=0.9)
        keys = jax.random.split(jax.random.key(0), members)
        variables = jax.vmap(lambda key: network.init(key, x[0]))(keys)
        self.carry = variables, jax.vmap(optimiser.init)(variables.params)
        step = over_members(partial(member_step, network, optimiser), members, how)
        self.batches = [(x, y)] if steps == "scan" else list(zip(x, y, strict=True))

        def run(carry, batch):
            if steps == "dispatch":
                return step(carry, batch)
            return jax.lax.scan(lambda c, b: (step(c, b), None), carry, batch)[0]

        start = time.perf_counter()
        lowered = jax.jit(run, donate_argnums=0).lower(self.carry, self.batches[0])
        self.compiled = lowered.compile()
        self.compile_seconds = time.perf_counter() - start
        memory = self.compiled.memory_analysis()
        self.megabytes = (memory.temp_size_in_bytes + memory.argument_size_in_bytes) / 1e6

    def __call__(self):
        for batch in self.batches:
            self.carry = self.compiled(self.carry, batch)
        jax.block_until_ready(self.carry)


def torch_network(name: str, classes: int):
    """The same network in PyTorch."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.norms = nn.ModuleList([nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)])
            self.stride, self.missing = stride, outputs - inputs

        def forward(self, x):
            body = self.norms[1](self.second(torch.relu(self.norms[0](self.first(x)))))
            if self.missing:
                half = self.missing // 2
                x = nn.functional.pad(
                    x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, half)
                )
            return torch.relu(x + body)

    if name == "unet":
        return torch_unet(classes)
    if name == "mlp":
        return nn.Sequential(nn.Linear(8, 50), nn.ReLU(), nn.Linear(50, classes))
    if name == "cnn":
        features = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        features += [nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        head = [nn.Flatten(), nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, classes)]
        return nn.Sequential(*features, *head)
    layers, inputs = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for stage, width in enumerate((16, 32, 64)):
        for index in range(3):
            layers.append(Block(inputs, width, 2 if stage and not index else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes))


def torch_unet(classes: int):
    """The U-Net of 16, 32 and 64 channels in PyTorch."""
    nn = torch.nn

    def block(inputs, width):
        layers = []
        for size in (inputs, width):
            layers += [
                nn.Conv2d(size, width, 3, 1, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            ]
        return layers

    class Skip(nn.Module):
        def __init__(self, *body):
            super().__init__()
            self.body = nn.Sequential(nn.MaxPool2d(2), *body, nn.Upsample(scale_factor=2))

        def forward(self, x):
            return torch.cat([x, self.body(x)], 1)

    inner = Skip(*block(32, 64))
    middle = Skip(*block(16, 32), inner, *block(32 + 64, 32))
    return nn.Sequential(*block(3, 16), middle, *block(16 + 32, 16), nn.Conv2d(16, classes, 1))


class Torch:
    """PyTorch, one member after another, ``case.steps`` steps."""

    def __init__(self, name: str, case: Case, members: int, x, y, channels_last: bool):
        self.name = "PyTorch" + (" channels_last" if channels_last else "")
        layout = torch.channels_last if channels_last else torch.contiguous_format
        x = np.moveaxis(np.asarray(x), -1, 2) if len(case.shape) == 3 else np.asarray(x)
        self.x = [torch.tensor(a).contiguous(memory_format=layout) for a in x]
        self.y = [torch.tensor(np.asarray(a)).long() for a in y]
        self.members = [
            torch_network(name, case.classes).to(memory_format=layout) for _ in range(members)
        ]
        self.optimisers = [
            torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.9) for m in self.members
        ]

    def __call__(self):
        for x, y in zip(self.x, self.y, strict=True):
            for member, optimiser in zip(self.members, self.optimisers, strict=True):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(member(x), y).backward()
                optimiser.step()


def take_turns(runners, rounds: int, steps: int):
    """Wall and processor milliseconds a step, ``{name: [(wall, cpu), ...]}``."""
    times = {runner.name: [] for runner in runners}
    for runner in runners:
        runner()
    for _ in range(rounds):
        for runner in runners:
            wall, cpu = time.perf_counter(), time.process_time()
            runner()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            times[runner.name].append((wall * 1e3 / steps, cpu * 1e3 / steps))
    return times


def measure(name: str, case: Case, members: int, rounds: int, wanted: str):
    """Run one case and print its table."""
    keys = jax.random.split(jax.random.key(1), 2)
    x = jax.random.normal(keys[0], (case.steps, case.batch, *case.shape))
    grid = case.shape[:-1] if case.pixels else ()
    y = jax.random.randint(keys[1], (case.steps, case.batch, *grid), 0, case.classes)
    ways = [way for way in case.ways if re.search(wanted, " ".join(way))]
    ways = [way for way in ways if way[0] != "pairs" or members % 2 == 0]
    ours = [Ours(case, members, way, x, y) for way in ways]
    rivals = []
    if torch is not None:
        layouts = (False, True) if len(case.shape) == 3 else (False,)
        rivals = [Torch(name, case, members, x, y, last) for last in layouts]
    times = take_turns([*rivals, *ours], rounds, case.steps)

    def median(key, index):
        return statistics.median(t[index] for t in times[key])

    print(f"\n{name}: {members} members, batch {case.batch}; target: {case.target}")
    print(f"{'':32}{'ms/step':>10}{'cpu ms':>10}{'x PyTorch':>11}{'compile s':>11}{'MB':>8}")
    reference = min((r.name for r in rivals), key=lambda n: median(n, 0), default=None)
    best = min((way.name for way in ours), key=lambda n: median(n, 0), default=None)
    for runner in [*rivals, *ours]:
        ratio = ""
        if reference is not None:
            pairs = zip(times[runner.name], times[reference], strict=True)
            ratio = f"{statistics.median(a[0] / b[0] for a, b in pairs):.3f}"
        row = f"{runner.name:32}{median(runner.name, 0):10.3f}{median(runner.name, 1):10.3f}"
        row += f"{ratio:>11}"
        if isinstance(runner, Ours):
            row += f"{runner.compile_seconds:11.1f}{runner.megabytes:8.0f}"
        print(row + ("  <- best" if runner.name == best else ""), flush=True)


def main():
    """Parse the command line and run the cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--members", type=int, help="instead of the case's own number")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ways", default="", help="only rows whose name matches this pattern")
    chosen = parser.parse_args()
    print(f"jax {jax.__version__} on {jax.default_backend()}, {jax.local_device_count()} device(s)")
    if torch is None:
        print("PyTorch is not installed: our own times only")
    else:
        print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    for name in chosen.cases:
        case = CASES[name]
        measure(name, case, chosen.members or case.members, chosen.rounds, chosen.ways)


if __name__ == "__main__":
    main()
