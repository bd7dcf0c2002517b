"""MILE beside sklearn-contrib-bde on UCI sets: NLL, RMSE and processor seconds on the same splits.

bde at the settings of its README: 8 networks 16-16 with a mean and a standard deviation, prior
N(0, 1), 5000 warm-up steps, 2000 steps of sampling; credax with the same network and prior, its own
default of 8000 warm-up steps, and the noise of rounding as the least noise. Each fit runs in a
process of its own, so that compilation and bde's eight virtual devices are part of its cost; the
two take turns.

bde asks for an older blackjax than credax, so it has an environment of its own, with credax for
the data:

    python -m venv bde && bde/bin/pip install credax sklearn-contrib-bde
    python benchmarks/mile.py --bde bde/bin/python --splits 5
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys

OURS, THEIRS = "credax", "bde"


def of_mass(upper, lower, step: float) -> float:
    """NLL of targets rounded to ``step``: of the probability within half a step, over the step.

    A density at a whole number has no bound, and its NLL rewards spikes there; a mass cannot.
    """
    import numpy as np

    mass = np.maximum(np.asarray(upper, np.float64) - np.asarray(lower, np.float64), 1e-12)
    return float(-np.mean(np.log(mass / step)))


def ours(data, step: float) -> dict[str, float]:
    """NLL and RMSE of credax."""
    import numpy as np

    import credax as cx
    from credax.likelihoods.deviation import rounding_noise

    network = cx.networks.MLP((16, 16), outputs=2)
    prior = cx.GaussianPrior(precision=1.0)
    scale = float(np.ravel(data.train.targets.scale)[0])
    # As the command line does for a table: rounded targets have the noise of their rounding.
    likelihood = cx.DeviationGaussian().with_least_noise(rounding_noise(data.train.y) / scale)
    problem = cx.Problem(network, likelihood, prior=prior)
    posterior = cx.fit(problem, cx.MILE(), data.train, progress=False)
    prediction = posterior.predict(data.test.x)
    scores = cx.evaluate(prediction, data.test.y, ["nll", "rmse"])
    found = {"nll": float(scores["nll"]), "rmse": float(scores["rmse"])}
    if step:
        y = np.asarray(data.test.y)
        mass = of_mass(prediction.cdf(y + step / 2), prediction.cdf(y - step / 2), step)
        found["nll_of_mass"] = mass
    return found


def theirs(data, step: float) -> dict[str, float]:
    """NLL of the mixture of all draws, and RMSE of its mean, of bde."""
    import numpy as np
    from bde import BdeRegressor
    from bde.loss import GaussianNLL
    from scipy.special import logsumexp, ndtr

    inputs, targets = data.train.inputs, data.train.targets
    rows = {s: (getattr(data, s).x - inputs.mean) / inputs.scale for s in ("train", "test")}
    center, scale = float(np.ravel(targets.mean)[0]), float(np.ravel(targets.scale)[0])
    y = (np.asarray(data.train.y).reshape(-1, 1) - center) / scale
    model = BdeRegressor(
        hidden_layers=[16, 16], n_members=8, seed=0, loss=GaussianNLL(), epochs=200,
        validation_split=0.15, lr=1e-3, weight_decay=1e-4, warmup_steps=5000, n_samples=2000,
        n_thinning=2, patience=10,
    )  # fmt: skip
    model.fit(x=rows["train"], y=y)
    raw = np.asarray(model.predict(rows["test"], raw=True), np.float64)
    raw = raw.reshape(-1, *raw.shape[-2:])
    mean = raw[..., 0] * scale + center
    # The second output goes through a softplus, as in bde's own likelihood.
    deviation = (np.logaddexp(0, raw[..., 1]) + 1e-6) * scale
    truth = np.asarray(data.test.y).ravel()
    log_prob = -0.5 * ((truth - mean) / deviation) ** 2 - np.log(deviation * np.sqrt(2 * np.pi))
    nll = -np.mean(logsumexp(log_prob, axis=0) - np.log(len(mean)))
    found = {"nll": float(nll), "rmse": float(np.sqrt(np.mean((mean.mean(0) - truth) ** 2)))}
    if step:
        cdf = [ndtr((truth + side - mean) / deviation).mean(0) for side in (step / 2, -step / 2)]
        found["nll_of_mass"] = of_mass(*cdf, step)
    return found


def measure(who: str, name: str, split: int, python: str) -> dict[str, float]:
    """One fit in a process of its own."""
    command = [python, __file__, "--one", who, name, str(split)]
    environment = dict(os.environ)
    if who == THEIRS:  # as its README says
        environment["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    answer = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(answer.stdout.splitlines()[-1])


def one(who: str, name: str, split: int) -> None:
    """The fit itself: prints its numbers as JSON."""
    import credax as cx
    from credax.likelihoods.deviation import rounding_noise

    data = cx.data.load(f"uci/{name}", split=split)
    step = rounding_noise(data.train.y) * 12**0.5
    found = ours(data, step) if who == OURS else theirs(data, step)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = usage.ru_utime + usage.ru_stime
    print(json.dumps({**found, "processor_seconds": seconds}))


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    sets = ["boston", "concrete", "energy", "wine-quality-red", "yacht"]
    parser.add_argument("--sets", nargs="+", default=sets)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--bde", default=sys.executable, help="Python of bde's environment")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        who, name, split = arguments.one
        return one(who, name, int(split))
    for name in arguments.sets:
        found = {who: [] for who in (OURS, THEIRS)}
        for split in range(arguments.splits):
            for who, rows in found.items():
                python = sys.executable if who == OURS else arguments.bde
                rows.append(measure(who, name, split, python))
                print(f"{name:18}{who:8}split {split}  {rows[-1]}", flush=True)
        gaps = [a["nll"] - b["nll"] for a, b in zip(*found.values(), strict=True)]
        if len(gaps) > 1:
            error = statistics.stdev(gaps) / len(gaps) ** 0.5
            print(f"{name:18}NLL of credax minus bde {statistics.fmean(gaps):.3f} ± {error:.3f}")
        for who, rows in found.items():
            parts = []
            for key in rows[0]:
                values = [row[key] for row in rows]
                error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
                parts.append(f"{key} {statistics.fmean(values):8.3f} ± {error:.3f}")
            print(f"{name:18}{who:8}" + "  ".join(parts), flush=True)
    return None


if __name__ == "__main__":
    main()
