"""Expected information and deep adaptive design against PyTorch and Pyro, on location finding.

Each way runs in a process of its own, so that peak memory is its own too, and twice: what is said
is the second time, which compiles nothing. PyTorch has the same estimators with the same draws per
block, written plainly; Pyro is its own `nmc_eig`, whose outcomes all share their inner draws.

    python -m venv /tmp/reference
    /tmp/reference/bin/pip install torch==2.13.0 pyro-ppl
    python benchmarks/design.py --reference /tmp/reference/bin/python

Memory of ours does not grow with the contrastive draws: `--inner 100000 --only bounds`.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

OURS, TORCH, PYRO = "credax", "PyTorch", "Pyro"
SIZES = {"hidden": 128, "encoding": 16, "batch": 256, "contrastive": 256, "rounds": 10}
BLOCK, NOISE = 256, 0.5


def resident() -> float:
    """The largest size that the process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def twice(function: Any) -> dict[str, Any]:
    """Seconds of the first and the second call, the result of the second, and the memory added."""
    before, seconds, value = resident(), [], None
    for _ in range(2):
        began = time.perf_counter()
        value = function()
        seconds.append(time.perf_counter() - began)
    return {"first": seconds[0], "seconds": seconds[1], "value": value, "mb": resident() - before}


def ours(task: str, outer: int, inner: int, steps: int) -> dict[str, Any]:
    import jax

    from credax import design
    from credax.design.deep_adaptive import PolicyTraining, train_policy
    from credax.design.policies import adaptive_policy

    model = design.models.get("location-finding")
    if task == "bounds":

        def bounds():
            found = design.nested(model, [[0.5, -0.3]], outer=outer, inner=inner)
            return [float(found.lower[0]), float(found.upper[0])]

        return twice(bounds)
    policy = adaptive_policy(
        model, jax.random.key(0), hidden=SIZES["hidden"], encoding=SIZES["encoding"]
    )
    training = PolicyTraining(steps, SIZES["batch"], SIZES["contrastive"])

    def train():
        values = train_policy(model, policy, SIZES["rounds"], training)[1]
        return [float(values[-50:].mean())]

    return twice(train)


def plain_torch(task: str, outer: int, inner: int, steps: int) -> dict[str, Any]:
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(2)
    log = torch.log

    def mean(theta, xi):
        return log(0.1 + (1 / (1e-4 + (theta - xi).square().sum(-1))).sum(-1))

    def log_prob(y, centre):
        return -0.5 * ((y - centre) / NOISE).square() - 0.5 * log(
            torch.tensor(6.2831853 * NOISE**2)
        )

    if task == "bounds":
        xi = torch.tensor([0.5, -0.3])

        @torch.no_grad()
        def bounds():
            lower, upper = [], []
            for _ in range(-(-outer // BLOCK)):
                centre = mean(torch.randn(BLOCK, 2, 2), xi)
                y = centre + NOISE * torch.randn(BLOCK)
                own = log_prob(y, centre)
                others = mean(torch.randn(inner, 2, 2), xi)
                each = log_prob(y[:, None], others[None]).logsumexp(1)
                count = torch.tensor(float(inner))
                lower.append((own - torch.logaddexp(own, each) + log(count + 1)).mean())
                upper.append((own - each + log(count)).mean())
            return [float(torch.stack(v).mean()) for v in (lower, upper)]

        return twice(bounds)
    hidden, encoding = SIZES["hidden"], SIZES["encoding"]
    layers = lambda i, o: torch.nn.Sequential(  # noqa: E731
        torch.nn.Linear(i, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, hidden),
        torch.nn.ReLU(), torch.nn.Linear(hidden, o),
    )  # fmt: skip

    def train():
        encoder, emitter = layers(3, encoding), layers(encoding, 2)
        empty = torch.nn.Parameter(torch.randn(encoding))
        parameters = [*encoder.parameters(), *emitter.parameters(), empty]
        optimiser = torch.optim.Adam(parameters, lr=1e-3)
        rate = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.01 ** (1 / steps))
        values, batch, contrastive = [], SIZES["batch"], SIZES["contrastive"]
        for _ in range(steps):
            theta, others = torch.randn(batch, 2, 2), torch.randn(contrastive, 2, 2)
            state, own, each = empty.expand(batch, -1), 0.0, 0.0
            total = torch.zeros(batch, encoding)
            for _ in range(SIZES["rounds"]):
                xi = -4 + 8 * torch.sigmoid(emitter(state))
                centre = mean(theta, xi[:, None])
                y = centre + NOISE * torch.randn(batch)
                own = own + log_prob(y, centre)
                each = each + log_prob(y[:, None], mean(others[None], xi[:, None, None]))
                total = total + encoder(torch.cat([xi / 2, y[:, None]], 1))
                state = total
            bound = (own - torch.logaddexp(own, each.logsumexp(1))).mean()
            optimiser.zero_grad()
            (-bound).backward()
            optimiser.step()
            rate.step()
            values.append(float(bound))
        last = torch.tensor(values[-50:]).mean() + log(torch.tensor(contrastive + 1.0))
        return [float(last)]

    return twice(train)


def pyro_nmc(task: str, outer: int, inner: int, steps: int) -> dict[str, Any]:
    import pyro
    import pyro.distributions as dist
    import torch
    from pyro.contrib.oed.eig import nmc_eig

    pyro.set_rng_seed(0)
    torch.set_num_threads(2)

    def model(design):
        with pyro.plate_stack("plate", design.shape[:-1]):
            theta = pyro.sample("theta", dist.Normal(torch.zeros(2, 2), 1.0).to_event(2))
            distance = (theta - design.unsqueeze(-2)).square().sum(-1)
            centre = torch.log(0.1 + (1 / (1e-4 + distance)).sum(-1))
            return pyro.sample("y", dist.Normal(centre, NOISE))

    xi = torch.tensor([[0.5, -0.3]])

    def bound():
        found = nmc_eig(model, xi, ["y"], ["theta"], N=outer, M=inner)
        return [None, float(found.detach()[0])]

    return twice(bound)


WAYS = {OURS: ours, TORCH: plain_torch, PYRO: pyro_nmc}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", default=sys.executable, help="a Python with torch and pyro")
    parser.add_argument("--outer", type=int, default=10_000)
    parser.add_argument("--inner", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--only", choices=("bounds", "training"))
    parser.add_argument("--way", choices=tuple(WAYS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sizes = (arguments.outer, arguments.inner, arguments.steps)
    if arguments.way:
        print(json.dumps(WAYS[arguments.way](arguments.only, *sizes)))
        return
    for task in ("bounds", "training") if arguments.only is None else (arguments.only,):
        found = {}
        for way in WAYS if task == "bounds" else (OURS, TORCH):
            python = sys.executable if way == OURS else arguments.reference
            flags = ["--way", way, "--only", task, "--outer", sizes[0], "--inner", sizes[1]]
            command = [python, __file__, *map(str, flags), "--steps", str(sizes[2])]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{way}: failed: {done.stderr.strip().splitlines()[-1]}")
                continue
            found[way] = json.loads(done.stdout)
        print(
            f"{task}: {sizes[0]} outer, {sizes[1]} inner draws"
            if task == "bounds"
            else f"training: {sizes[2]} steps, {SIZES}"
        )
        for way, each in found.items():
            ratio = each["seconds"] / found[OURS]["seconds"] if OURS in found else float("nan")
            print(
                f"  {way:<8} {each['seconds']:8.3f} s ({each['first']:.2f} the first time), "
                f"{ratio:6.2f} times ours, {each['mb']:6.0f} MB added, value {each['value']}"
            )


if __name__ == "__main__":
    main()
