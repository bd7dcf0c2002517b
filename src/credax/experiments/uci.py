"""UCI regression on the standard splits: one hidden layer of 50, RMSE and NLL in raw units."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from credax.data import Dataset, load
from credax.experiments.bench import Bench, Trial
from credax.experiments.experiment import Arm, Data, Experiment, Outcome, Scale
from credax.experiments.published import Measure, Published
from credax.likelihood import DeviationGaussian, Gaussian, HeteroscedasticGaussian
from credax.methods.dropout.mc_dropout import MCDropout
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.methods.ensembles.single import Single
from credax.methods.laplace.laplace import Laplace
from credax.methods.sampling.hmc import HMC
from credax.methods.sampling.mile import MILE
from credax.methods.trajectory.swag import SWAG
from credax.methods.variational.mean_field_vi import MeanFieldVI
from credax.metrics import evaluate
from credax.networks import MLP
from credax.prior import GaussianPrior
from credax.report import Result
from credax.training import Training

SCORES = ("nll", "moment_matched_nll", "rmse", "coverage_90", "crps")
SMALL_SETS = ("boston", "concrete", "energy", "wine", "yacht")
_NAMES = {
    "boston": "uci/boston-housing",
    "concrete": "uci/concrete",
    "energy": "uci/energy",
    "kin8nm": "uci/kin8nm",
    "naval": "uci/naval-propulsion-plant",
    "power": "uci/power-plant",
    "protein": "uci/protein-tertiary-structure",
    "wine": "uci/wine-quality-red",
    "yacht": "uci/yacht",
}
ALL_SETS = tuple(_NAMES)
NLL_TABLE = {
    # set: PBP, MC dropout 2016, MC dropout 2018, deep ensemble, BBB, SWAG
    "boston": (2.57, 2.46, 2.40, 2.41, 2.638, 2.761),
    "concrete": (3.16, 3.04, 2.93, 3.06, 3.260, 3.013),
    "energy": (2.04, 1.99, 1.21, 1.38, 1.555, 1.679),
    "kin8nm": (-0.90, -0.95, -1.14, -1.20, -0.979, None),
    "naval": (None, None, None, None, -4.297, None),
    "power": (2.84, 2.80, 2.80, 2.79, 2.935, None),
    "protein": (None, None, None, None, 2.965, None),
    "wine": (0.97, 0.93, 0.93, 0.94, 0.968, None),
    "yacht": (1.63, 1.55, 1.25, 1.18, 1.449, 0.404),
}
RMSE_TABLE = {
    "boston": (3.01, 2.97, 2.90, 3.28, 3.31, 3.52),
    "concrete": (5.67, 5.23, 4.82, 6.03, 5.79, 5.23),
    "energy": (1.80, 1.66, 0.54, 2.09, 1.00, 1.59),
    "kin8nm": (0.10, 0.10, 0.08, 0.09, 0.086, None),
    "naval": (None, None, None, None, 0.003, None),
    "power": (4.12, 4.02, 4.01, 4.11, 4.22, None),
    "protein": (None, None, None, None, 4.684, None),
    "wine": (0.64, 0.62, 0.62, 0.64, 0.64, None),
    "yacht": (1.02, 1.11, 0.67, 1.58, 0.97, 0.97),
}
ROWS = ("PBP", "MC dropout", "MC dropout, tuned", "Deep ensemble", "Mean-field VI", "SWAG")
SOURCE = (
    "PBP, MC dropout, deep ensemble: Lakshminarayanan et al. 2017; MC dropout, tuned: README of "
    "yaringal/DropoutUncertaintyExps (2018); mean-field VI: README of Alaya-in-Matrix/BNN; SWAG: "
    "wjmaddox/drbayes. Published NLL of ensembles and SWAG is of the moment-matched Gaussian, of "
    "MC dropout of the mixture; ours is the mixture's. Over splits"
)


@dataclass(frozen=True)
class Sets:
    """Which data sets; the number of splits is the number of seeds."""

    sets: tuple[str, ...] = SMALL_SETS


def published(sets: tuple[str, ...]) -> tuple[Published, ...]:
    """The tables of the literature for some sets: NLL, and RMSE."""
    return in_print(sets, ROWS, {"nll": NLL_TABLE, "rmse": RMSE_TABLE}, SOURCE)


def in_print(
    sets: tuple[str, ...],
    rows: tuple[str, ...],
    tables: dict[str, dict[str, tuple[float | None, ...]]],
    source: str,
) -> tuple[Published, ...]:
    """One table per metric: a column for each set, a row for each published method."""
    found = []
    for metric, values in tables.items() if sets else ():
        measures = tuple(Measure(f"{name}:{metric}", name, decimals=2) for name in sets)
        lines = [
            " | ".join([row, *(_cell(values[name][number]) for name in sets)])
            for number, row in enumerate(rows)
        ]
        found.append(Published(f"{metric.upper()} in print", source, measures, "\n".join(lines)))
    return tuple(found)


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def arms(members: int, draws: int, **chains: Any) -> tuple[Arm, ...]:
    """The methods; ensembles learn a variance for every input, the others one noise level."""
    varying = HeteroscedasticGaussian()
    return (
        Arm("single", "Single network", Single(), likelihood=varying),
        Arm("deep-ensemble", "Deep ensemble", DeepEnsemble(members), likelihood=varying),
        Arm("mc-dropout", "MC dropout", MCDropout(rate=0.05, samples=draws)),
        Arm("swag", "SWAG", SWAG(samples=min(draws, 30)), likelihood=varying),
        Arm("laplace", "Laplace", Laplace(subset="all", structure="full", noise="evidence")),
        Arm("mean-field-vi", "Mean-field VI", MeanFieldVI(samples=draws)),
        Arm("hmc", "HMC", HMC(**chains)),
        *from_ensembles(chains),
    )


def from_ensembles(chains: dict[str, Any]) -> tuple[Arm, ...]:
    """Chains from trained networks of two hidden layers, with a standard normal prior.

    They are as long as chains of HMC with 20 gradients per transition.
    """
    settings = {
        "network": partial(MLP, (16, 16)),
        "prior": lambda rows, network, decay: GaussianPrior(precision=1.0),
        "likelihood": DeviationGaussian(),
    }
    kept, transitions = chains["samples"], chains["samples"] * chains.get("thinning", 1)
    modes, warmup = 4 * chains["modes"], 20 * chains["warmup"]
    mile = MILE(modes, samples=kept, warmup=warmup, thinning=10 * transitions // kept)
    hmc = HMC(pretrain=True, **{**chains, "modes": modes})
    return (
        Arm("mile", "MILE", mile, **settings),
        Arm("hmc-ensemble", "HMC from an ensemble", hmc, **settings),
    )


def runner(
    tables: Callable[[tuple[str, ...]], tuple[Published, ...]],
    findings: Callable[[list[Result], tuple[str, ...]], tuple[str, ...]] = lambda results, sets: (),
) -> Callable[[Bench], Outcome]:
    """The experiment's function, with published tables and sentences for the sets that are run."""

    def run(bench: Bench) -> Outcome:
        results, sets = measured(bench)
        known = tuple(name for name in sets if name in ALL_SETS)
        return Outcome(
            results, tables(known), data=", ".join(sets), findings=findings(results, known)
        )

    return run


def measured(bench: Bench) -> tuple[list[Result], tuple[str, ...]]:
    """Every set, split and method, and the sets' names; a split is a seed of the table."""
    sets = bench.scale.evaluation.sets

    def split_of(name: str, split: int) -> Dataset:
        known = name in ALL_SETS
        return load(_NAMES[name], bench.data_dir, split=split) if known else bench.dataset

    return over_sets(bench, sets, split_of, _measured), sets


def over_sets(
    bench: Bench,
    sets: Iterable[str],
    split_of: Callable[[str, int], Dataset],
    measure: Callable[[Bench, Trial], dict[str, Any]],
) -> list[Result]:
    """Every set, split and method by ``measure``, which gives ``scores`` and ``seconds``."""
    rows: dict[tuple[str, int], dict[str, float]] = {}
    seconds: dict[tuple[str, int], float] = {}
    for name in sets:
        for split in range(bench.seeds):
            own = replace(bench, dataset=split_of(name, split), root=bench.root / name)
            for arm in bench.scale.arms:
                trial = Trial(arm, split, own.root / f"{arm.name}_{split}")
                own.say(f"{name}, split {split}: {arm.label}")
                found = measure(own, trial)
                seconds[arm.label, split] = seconds.get((arm.label, split), 0) + found["seconds"]
                scores = {f"{name}:{key}": value for key, value in found["scores"].items()}
                rows.setdefault((arm.label, split), {}).update(scores)
    return [
        Result(label, split, scores, cost={"training_seconds": seconds[label, split]})
        for (label, split), scores in rows.items()
    ]


def _measured(bench: Bench, trial: Trial) -> dict[str, Any]:
    def measure() -> dict[str, Any]:
        posterior = bench.posterior(trial)
        test = bench.dataset.test
        prediction = posterior.predict(test.x, key=jax.random.key(1))
        scores = evaluate(prediction, np.asarray(test.y), SCORES)
        cost = bench.result(trial, {}).cost["training_seconds"] or 0.0
        return {"scores": dict(scores), "seconds": cost}

    return bench.remembered(trial, measure)


TRAINING = Training(epochs=100, batch_size=32, optimiser="adam", learning_rate=0.01)
CPU = Scale(
    data=Data("uci/boston-housing", 455, 51, (13,), options={"split": 0}),
    network=lambda outputs: MLP((50,), outputs),
    training=TRAINING,
    arms=arms(5, 100, modes=2, samples=100, warmup=200, thinning=2),
    seeds=5,
    likelihood=Gaussian("learned"),
    weight_decay=1e-4,
    evaluation=Sets(),
    note=(
        "the first 5 of 20 standard splits of the small sets, 100 epochs of Adam for every method, "
        "two chains of HMC; nothing is tuned by set, which the published rows mostly are"
    ),
)

EXPERIMENT = Experiment(
    name="uci",
    title="UCI regression",
    description=(
        "Regression on the small UCI sets with the splits that published tables use, networks "
        "with one hidden layer of 50. RMSE and NLL are in the targets' own units."
    ),
    scales={
        "test": replace(
            CPU,
            data=Data("toy/regression-1d", 60, 40, (1,)),
            arms=arms(2, 4, modes=1, samples=4, warmup=20, leapfrog_steps=5),
            training=TRAINING.replace(epochs=8),
            seeds=1,
            evaluation=Sets(("toy",)),
            note="points on a line, 8 epochs: shows that the program runs",
        ),
        "cpu": CPU,
        "paper": replace(
            CPU,
            arms=arms(5, 100, modes=4, samples=500, warmup=1000, thinning=10),
            training=TRAINING.replace(epochs=400),
            seeds=20,
            evaluation=Sets(ALL_SETS),
            note="20 standard splits of all nine sets (protein has 5 and is run on those)",
        ),
    },
    run=runner(published),
)
