"""The tables on which microcanonical ensembles were published: log predictive density and RMSE."""

import math
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from credax.data import Dataset, describe, load
from credax.data.arrays import assemble
from credax.experiments.bench import Bench, Trial
from credax.experiments.experiment import Arm, Data, Experiment, Outcome, Scale
from credax.experiments.uci import over_sets
from credax.likelihood import DeviationGaussian
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.methods.sampling.first import ensemble_training
from credax.methods.sampling.hmc import HMC
from credax.methods.sampling.mile import MILE
from credax.metrics import evaluate
from credax.networks import MLP
from credax.prior import GaussianPrior
from credax.training import Training

NAMES = {
    "airfoil": "uci/airfoil",
    "bike-sharing": "uci/bike-sharing",
    "concrete": "uci/concrete",
    "energy": "uci/energy",
    "protein": "uci/protein-tertiary-structure",
    "yacht": "uci/yacht",
}
SHARES = (0.7, 0.1)
"""Of the rows for training and for early stopping; the rest is for test."""


@dataclass(frozen=True)
class Tables:
    """Which data sets; a random split of each is a seed."""

    sets: tuple[str, ...]


def cut(dataset: Dataset, seed: int) -> Dataset:
    """All rows of a set, split at random; standardised by the rows for training."""
    parts = [part for part in (dataset.train, dataset.test, dataset.validation) if part is not None]
    x, y = (np.concatenate([np.asarray(getattr(p, name)) for p in parts]) for name in "xy")
    order = np.random.default_rng(seed).permutation(len(x))
    ends = [round(SHARES[0] * len(x)), round(sum(SHARES) * len(x))]
    rows = dict(zip(("train", "validation", "test"), np.split(order, ends), strict=True))
    return assemble(
        dataset.name, {part: (x[index], y[index]) for part, index in rows.items()}, "regression", ()
    )


def arms(members: int, **chains: Any) -> tuple[Arm, ...]:
    """The ensemble, and chains of MILE that begin at such an ensemble."""
    return (
        Arm("deep-ensemble", "Deep ensemble", DeepEnsemble(members), prior=standard_normal),
        Arm("mile", "MILE", MILE(members, **chains), prior=standard_normal),
    )


def hmc_arm(**chains: Any) -> Arm:
    """Chains of HMC that begin at an ensemble."""
    method = HMC(modes=10, pretrain=True, **chains)
    return Arm("hmc-ensemble", "HMC from the ensemble", method, prior=standard_normal)


def standard_normal(*_: Any) -> GaussianPrior:
    """The prior of the paper."""
    return GaussianPrior(precision=1.0)


def run(bench: Bench) -> Outcome:
    """Every set that is at hand, split and method."""
    sets, missing = [], []
    for name in bench.scale.evaluation.sets:
        there = name not in NAMES or describe(NAMES[name]).available(bench.data_dir)
        (sets if there else missing).append(name)

    def split_of(name: str, seed: int) -> Dataset:
        return cut(load(NAMES[name], bench.data_dir) if name in NAMES else bench.dataset, seed)

    results = over_sets(bench, sets, split_of, _measured)
    absent = tuple(
        f"{name} is not at hand: {describe(NAMES[name]).where(bench.data_dir)}" for name in missing
    )
    return Outcome(results, data=", ".join(sets), findings=absent)


def _measured(bench: Bench, trial: Trial) -> dict[str, Any]:
    def measure() -> dict[str, Any]:
        posterior = bench.posterior(trial)
        test, targets = bench.dataset.test, bench.dataset.train.targets
        prediction = posterior.predict(test.x, key=jax.random.key(1))
        found = evaluate(prediction, np.asarray(test.y), ("nll", "rmse"))
        scale = 1.0 if targets is None else float(np.ravel(targets.scale)[0])
        scores = {"lppd": math.log(scale) - found["nll"], "rmse": found["rmse"] / scale}
        cost = bench.result(trial, {}).cost["training_seconds"] or 0.0
        return {"scores": scores, "seconds": cost}

    return bench.remembered(trial, measure)


CPU = Scale(
    data=Data("uci/yacht", 277, 31, (6,), options={"split": 0}),
    network=lambda outputs: MLP((16, 16), outputs),
    training=ensemble_training(Training(), 200),
    arms=(*arms(10), hmc_arm(warmup=200)),
    seeds=3,
    likelihood=DeviationGaussian(),
    evaluation=Tables(("airfoil", "concrete", "energy", "yacht")),
    note=(
        "3 random splits (70 % training, 10 % early stopping, 20 % test), 10 networks of 16-16, "
        "without the two large sets; HMC with 300 transitions"
    ),
)

EXPERIMENT = Experiment(
    name="mile-tabular",
    title="Microcanonical ensembles on tables",
    description=(
        "A deep ensemble, and chains of MILE and HMC that begin at its networks. LPPD is the mean "
        "log predictive density of test rows, RMSE the root mean squared error, both of "
        "standardised targets, as in Sommer et al. (ICLR 2025). The published table is not part of "
        "this program: its numbers could not be looked up when it was written."
    ),
    scales={
        "test": replace(
            CPU,
            data=Data("toy/regression-1d", 60, 40, (1,)),
            arms=arms(2, warmup=20, samples=4, thinning=2),
            training=CPU.training.replace(epochs=4, batch_size=16),
            seeds=1,
            evaluation=Tables(("toy",)),
            note="points on a line, few steps: shows that the program runs",
        ),
        "cpu": CPU,
        "paper": replace(
            CPU,
            arms=(*arms(10, warmup=50_000, samples=1000, thinning=10), hmc_arm(samples=1000)),
            seeds=5,
            evaluation=Tables(tuple(NAMES)),
            note="5 random splits of all six sets, 50 000 steps of warm-up, 1000 draws per chain",
        ),
    },
    run=run,
)
