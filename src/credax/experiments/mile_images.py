"""Microcanonical ensembles of small convolutional networks on Fashion-MNIST."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from credax.data import load
from credax.experiments.bench import Bench
from credax.experiments.experiment import Arm, Data, Experiment, Outcome, Scale
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.methods.laplace.laplace import Laplace
from credax.methods.sampling.mile import MILE
from credax.methods.sampling.sghmc import SGHMC
from credax.metrics import evaluate
from credax.networks import CNN, AvgPool, Sequential
from credax.posterior import Posterior
from credax.prior import GaussianPrior
from credax.training import Training

SCORES = ("accuracy", "nll", "ece")


@dataclass(frozen=True)
class Unlike:
    """A data set of the same shape that is not in distribution, and how many rows of it."""

    name: str
    rows: int


def prior(*_: Any) -> GaussianPrior:
    """A standard normal prior on every weight."""
    return GaussianPrior(precision=1.0)


def network(outputs: int) -> Sequential:
    """Pixels averaged two by two, convolutions of 4 and 8 channels, 16 hidden units."""
    return Sequential((AvgPool(2), CNN(outputs, (4, 8), dense=16)))


def arms(members: int, epochs: int, **chains: Any) -> tuple[Arm, ...]:
    """An ensemble, chains from one, SGHMC for as long, Laplace around each network."""
    rows = (
        Arm("deep-ensemble", "Deep ensemble", DeepEnsemble(members)),
        Arm("mile", "MILE", MILE(members, **chains)),
        Arm(
            "sghmc",
            "SGHMC",
            SGHMC(samples=chains["samples"], modes=members),
            training={"optimiser": "sgd", "learning_rate": 0.02, "epochs": epochs},
        ),
        Arm("laplace", "Laplace", Laplace(subset="all", modes=members)),
    )
    return tuple(replace(arm, prior=prior) for arm in rows)


def run(bench: Bench) -> Outcome:
    """Scores on test rows, and detection of rows of another set."""
    ood = _ood(bench)
    results = []
    for trial, posterior in bench.trained():
        found = bench.remembered(trial, lambda p=posterior: _scores(bench, p, ood))
        results.append(bench.result(trial, found))
    return Outcome(results)


def _ood(bench: Bench) -> np.ndarray:
    other: Unlike = bench.scale.evaluation
    if bench.scale.data.synthetic:
        shape = (other.rows, *bench.scale.data.input_shape)
        return np.random.default_rng(5).integers(0, 256, shape).astype(np.uint8)
    return np.asarray(load(other.name, bench.data_dir).test.x[: other.rows])


def _scores(bench: Bench, posterior: Posterior, ood: np.ndarray) -> dict[str, float]:
    test, key = bench.dataset.test, jax.random.key(1)
    prediction = posterior.predict(test.x, key=key)
    other = {"other": posterior.predict(ood, key=key)}
    found = evaluate(prediction, np.asarray(test.y), [*SCORES, "auroc"], ood=other)
    scores = {name: float(found[name]) for name in SCORES}
    return {**scores, "auroc": float(found["ood/other/auroc/max_probability"])}


SHAPE = (28, 28, 1)
CPU = Scale(
    data=Data("fashion-mnist", 500, 5000, SHAPE, 10),
    network=network,
    training=Training(
        epochs=100, batch_size=50, optimiser="adamw", learning_rate=0.003, schedule="cosine"
    ),
    arms=arms(4, 1000, warmup=2000, samples=50, thinning=20),
    seeds=3,
    evaluation=Unlike("kmnist", 2000),
    note=(
        "500 rows, so that every step takes all of them; a network of about 2500 parameters, 4 "
        "networks or chains, 3000 steps of MILE and 10 000 of SGHMC in batches of 50"
    ),
)

EXPERIMENT = Experiment(
    name="mile-images",
    title="Microcanonical ensembles on clothes",
    description=(
        "Fashion-MNIST with few rows, so that chains can use all of them in every step: a deep "
        "ensemble, MILE, SGHMC and Laplace with the same network and a standard normal prior. OOD "
        "rows are Kuzushiji-MNIST, scored by the largest probability."
    ),
    scales={
        "test": replace(
            CPU,
            data=Data("fashion-mnist", 40, 30, SHAPE, 10, synthetic=True),
            arms=arms(2, 8, warmup=10, samples=4, thinning=2),
            training=CPU.training.replace(epochs=2, batch_size=20),
            seeds=1,
            evaluation=Unlike("kmnist", 20),
            note="made-up pictures, few steps: shows that the program runs",
        ),
        "cpu": CPU,
        "paper": replace(
            CPU,
            data=Data("fashion-mnist", 60_000, 10_000, SHAPE, 10),
            arms=arms(8, 100, warmup=50_000, samples=1000, thinning=10),
            evaluation=Unlike("kmnist", 10_000),
            note="all rows, 50 000 steps of warm-up; hours on an accelerator",
        ),
    },
    run=run,
)
