"""Is every order of the units as likely? Independent networks against chains of HMC."""

from typing import Any

import numpy as np

from credax.experiments.bench import Bench, Trial, remembered
from credax.experiments.densities import bars_panel
from credax.experiments.experiment import Arm, Data, Experiment, Outcome, Scale
from credax.experiments.populations import SOURCE, Named, zoo_of, zoo_result
from credax.experiments.published import Measure, Published
from credax.methods.ensembles.deep_ensemble import DeepEnsemble
from credax.methods.sampling.hmc import HMC
from credax.quality import KendallTracker, index_test, row_test, unit_rows
from credax.report import Result
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Line
from credax.report.svg import Axis, Frame
from credax.training import Training, fit
from credax.training.schedule import learning_rate_at

LAYER = "0_dense/kernel"
UNITS = 16
WATCHED = 64
"""Networks whose orders are followed along training."""

PUBLISHED = Published(
    "how often each of 16 first-layer channels holds the largest weight",
    f"{SOURCE}; read off the figure: about 720 ResNet-20-FRN of a deep ensemble, as many public "
    "HMC samples of three chains, 45 expected per index",
    (
        Measure("fewest", "fewest", decimals=0),
        Measure("most", "most", decimals=0),
        Measure("expected", "expected", decimals=0),
    ),
    """
    Deep ensemble | 38 | 56 | 45
    HMC, 3 chains | 0 | 213 | 45
    """,
)


def _arms(members: int, hmc: HMC) -> tuple[Arm, ...]:
    return (
        Arm("deep-ensemble", "Deep ensemble", DeepEnsemble(members)),
        Arm("hmc", "HMC, 3 chains", hmc),
    )


def run(bench: Bench) -> Outcome:
    """Counts of the index of the largest first-layer weight, tests, and tau along training."""
    results, counts = [], {}
    for trial in bench.trials:
        result, rows, chains = _measured(bench, trial)
        index = index_test(rows, chains=chains)
        test = row_test(rows, chains=chains, permutations=199)
        found = {
            "fewest": float(index.counts.min()),
            "most": float(index.counts.max()),
            "expected": float(index.expected),
            "chi_square": index.statistic,
            "index_p_value": index.p_value,
            "independent_p_value": index_test(rows).p_value,
            "row_mmd": test.statistic,
            "row_p_value": test.p_value,
        }
        results.append(Result(**{**vars(result), "metrics": {**result.metrics, **found}}))
        if trial.seed == 0:
            counts[trial.arm.label] = (index.counts, index.expected)
    figures = [counts_figure(counts)] if counts else []
    findings = [sentence(result) for result in results if result.seed == 0]
    if any(isinstance(arm.method, DeepEnsemble) for arm in bench.scale.arms):
        along = orders_along_training(bench)
        figures.append(orders_figure(along))
        findings.append(order_sentence(along))
    return Outcome(results, (PUBLISHED,), tuple(figures), tuple(findings))


def _measured(bench: Bench, trial: Trial) -> tuple[Result, np.ndarray, list[int] | None]:
    """A row of the table, the first layer's units ``[networks, units, inputs]``, the chains."""
    if isinstance(trial.arm.method, DeepEnsemble):
        zoo = zoo_of(bench, trial)
        return zoo_result(bench, trial, zoo, {}), unit_rows(zoo, {LAYER: -1})[LAYER], None
    bench.say(f"{trial.arm.label}")
    posterior: Any = bench.posterior(trial)
    rows = unit_rows(posterior, {LAYER: -1})[LAYER]
    prediction = posterior.predict(bench.dataset.test.x)
    right = np.asarray(prediction.log_probs).argmax(-1) == np.asarray(bench.dataset.test.y)
    metrics = {"member_accuracy": float(right.mean())}
    numbers = {k: v for k, v in posterior.diagnostics.items() if isinstance(v, int | float)}
    result = bench.result(trial, {**metrics, **{k: float(v) for k, v in numbers.items()}})
    return (
        result,
        rows,
        np.repeat(np.arange(trial.arm.method.modes), trial.arm.method.samples).tolist(),
    )


def sentence(result: Result) -> str:
    """One method's counts in words."""
    m = result.metrics
    chains = result.method.startswith("HMC")
    null = "with whole chains relabelled" if chains else "chi-square"
    text = (
        f"{result.method}: {m['fewest']:.0f} to {m['most']:.0f} networks per index where "
        f"{m['expected']:.0f} are expected, p = {m['index_p_value']:.3g} {null}"
    )
    if chains:
        text += (
            f" (three chains have few orders: taken as independent draws p would be "
            f"{m['independent_p_value']:.1g}; a chain that stays in one order is not mixed over "
            "permutations, which is not a wrong target)"
        )
    return text + "."


def orders_along_training(bench: Bench) -> dict[str, list[float]]:
    """Kendall's tau between the orders of units of successive epochs, mean over networks."""
    training = bench.scale.training.replace(strategy="vmap")
    rows = len(bench.dataset.train)
    every = training.steps_per_epoch(rows)

    def measure() -> dict[str, list[float]]:
        bench.say("orders of units along training")
        tracker = KendallTracker(every, {LAYER: -1})
        (arm,) = [arm for arm in bench.scale.arms if isinstance(arm.method, DeepEnsemble)]
        fit(
            bench.scale.problem(arm),
            DeepEnsemble(min(WATCHED, arm.method.members)),
            bench.dataset.train,
            key=0,
            training=training,
            progress=False,
            observer=tracker,
        )
        steps, tau = tracker.mean(LAYER)
        rate = learning_rate_at(training, rows)
        return {
            "epoch": [step / every for step in steps],
            "tau": tau,
            "rate": [float(rate(max(step - 1, 0))) / training.learning_rate for step in steps],
        }

    settings = {"members": WATCHED, "epochs": training.epochs}
    return remembered(bench.root / "orders.json", settings, measure)


def order_sentence(along: dict[str, list[float]]) -> str:
    """Whether orders freeze late, in words."""
    tau = np.array(along["tau"])
    third = max(1, len(tau) // 3)
    first, last = tau[:third].mean(), tau[-third:].mean()
    return (
        f"Kendall's tau between the orders of units of successive epochs is {first:.4f} in the "
        f"first third of training and {last:.4f} in the last (published: orders change while the "
        "learning rate is high, then freeze)."
    )


def counts_figure(counts: dict[str, tuple[np.ndarray, float]]) -> Figure:
    """Networks by the index of the unit with the largest weight."""
    top = 1.08 * max(float(number.max()) for number, _ in counts.values())
    panels = [
        bars_panel(label, number.tolist(), expected, "index of the unit", top)
        for label, (number, expected) in counts.items()
    ]
    caption = (
        "How many networks have the largest first-layer weight in each unit; the broken line is "
        "what exchangeable units would have."
    )
    return Sheet("counts", caption, panels, 2)


def orders_figure(along: dict[str, list[float]]) -> Figure:
    """Tau epoch by epoch beside the learning rate."""
    frame = Frame(Axis(0, along["epoch"][-1], "epoch"), Axis(0, 1.02, "tau, and relative rate"))
    layers = [Line(along["epoch"], along["tau"], 0), Line(along["epoch"], along["rate"], 1)]
    caption = "Kendall's tau between the orders of units of successive epochs, and learning rate."
    series = ("tau", "learning rate over its highest")
    return Sheet("orders", caption, [Panel("First layer", frame, layers)], 1, series=series)


def _scale(members: int, hmc: HMC, rows: int, epochs: int, note: str) -> Scale:
    return Scale(
        data=Data("digits", rows, 597, (8, 8, 1), classes=10),
        network=Named("mlp", {"hidden": (UNITS,)}),
        training=Training(
            epochs=epochs,
            batch_size=64,
            learning_rate=0.1,
            schedule="piecewise-linear",
            final_ratio=0.01,
        ),
        arms=_arms(members, hmc),
        seeds=1,
        note=note,
    )


EXPERIMENT = Experiment(
    name="permutation-frequency",
    title="Order of the units",
    description=(
        "With independent, identically distributed initialisation every unit of a layer has the "
        "same marginal posterior, so the largest weight is in each with the same chance. The "
        "claims: deep ensembles respect this and HMC does not; orders change while the learning "
        "rate is high, then freeze."
    ),
    scales={
        "test": _scale(
            32,
            HMC(samples=8, warmup=8, leapfrog_steps=2, modes=3),
            256,
            3,
            "32 networks, three chains of 8 draws: shows that the program runs",
        ),
        "cpu": _scale(
            720,
            HMC(samples=240, warmup=300, leapfrog_steps=10, modes=3),
            1200,
            40,
            "720 networks 64-16-10 on digits, three chains of 240 draws on the same posterior",
        ),
        "paper": _scale(
            720,
            HMC(samples=240, warmup=2000, thinning=10, leapfrog_steps=50, modes=3),
            1200,
            200,
            "the published samples are of ResNet-20-FRN on CIFAR-10, made on 512 TPUs, and not "
            "part of this: longer chains and training of the network of the cpu scale",
        ),
    },
    run=run,
)
