"""How many digits can a person remember? The example that every tool of design shows."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from credax import design
from credax.design.beliefs.belief import NONE
from credax.design.deep_adaptive import PolicyTraining, train_policy
from credax.design.guides import GuideTraining
from credax.design.policies import adaptive_policy
from credax.design.policy_files import load_policy, save_policy
from credax.experiments.experiment import Experiment, Outcome
from credax.experiments.published import Measure, Published
from credax.experiments.study import StudyArm, StudyBench, StudyScale, StudyTrial
from credax.report import Result
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Band, Line, Points
from credax.report.svg import Axis, Frame

SEEN = design.Experiments(np.array([5.0, 7.0, 9.0]), np.array([1, 1, 0]))
PYRO = Published(
    "Pyro's tutorial: the posterior after five, seven and nine digits",
    "the tutorial on working memory of Pyro's contrib.oed, whose posterior is a normal guide "
    "trained by stochastic variational inference",
    (Measure("posterior_mean", "mean"), Measure("posterior_sd", "standard deviation")),
    "Normal guide | 7.749 | 1.282",
)
ROUNDS = (2, 3, 10)


@dataclass(frozen=True)
class Memory:
    """Settings; plain data."""

    outer: int
    inner: int
    steps: int
    """Of guides."""
    policy_steps: int
    hidden: int
    rounds: tuple[int, ...] = ROUNDS


def remembers(length: Any) -> int:
    """The person of the tutorial."""
    return int(length < 6)


def measured(settings: Memory, trial: StudyTrial) -> dict[str, Any]:
    """One row: an estimate of the curve, a posterior, or a plan."""
    model, name = design.working_memory(), trial.arm.name
    if name in ("exact", "marginal", "nested"):
        found = _curve(model, settings, name, trial.seed)
        kept = {"lower": found.lower, "upper": found.upper, "value": found.value}
        extra = {}
        if name == "exact":
            belief = design.believe(model, SEEN)
            extra = {"posterior_mean": float(belief.mean), "posterior_sd": float(belief.std)}
        at = {"information": float(found.value[6]), "best_length": int(found.best()) + 1}
        curve = {n: [v if np.isfinite(v) else None for v in c.tolist()] for n, c in kept.items()}
        return {"metrics": at | extra, "curve": curve}
    if name == "normal":
        belief = design.believe(model, SEEN, belief="variational", key=trial.seed)
        moments = {"posterior_mean": float(belief.mean), "posterior_sd": float(belief.std)}
        return {"metrics": moments}
    if name in ("adaptive", "fixed"):
        return _person(model, name)
    return {"metrics": _plans(model, settings, trial)}


def _curve(model, settings: Memory, name: str, seed: int):
    if name == "exact":
        return design.exact(model, model.designs)
    if name == "nested":
        return design.nested(
            model, model.designs, outer=settings.outer, inner=settings.inner, key=seed
        )
    # The tutorial's guide: one logit per design, Adam from 0.1 to 0.001 with batches of 100.
    training = GuideTraining(settings.steps, 100, learning_rate=0.1, final_rate=0.001)
    return design.marginal(model, model.designs, training=training, outer=settings.outer, key=seed)


def _person(model, name: str) -> dict[str, Any]:
    """Ten rounds with the tutorial's person: lengths, and the posterior after each."""
    if name == "adaptive":
        found = design.adapt(model, remembers, 10)
        lengths = [float(each.design) for each in found]
        beliefs = [each.belief for each in found]
    else:
        lengths, seen, beliefs = np.arange(1.0, 11).tolist(), NONE, []
        for length in lengths:
            seen = seen.and_then(length, remembers(length))
            beliefs.append(design.believe(model, seen))
    stds = [float(belief.std) for belief in beliefs]
    path = {"lengths": lengths, "mean": [float(b.mean) for b in beliefs], "sd": stds}
    fixed = design.static_plan(model, np.arange(1.0, 11)) if name == "fixed" else None
    metrics = {"sd_after_ten": stds[-1]}
    metrics |= {} if fixed is None else {"information_10": fixed}
    return {"metrics": metrics, "path": path}


def _plans(model, settings: Memory, trial: StudyTrial) -> dict[str, float]:
    """Total information of a plan for every number of rounds."""
    found = {}
    for rounds in settings.rounds:
        if trial.arm.name == "static":
            value = design.best_static_plan(model, rounds)[1]
        elif trial.arm.name == "greedy":
            value = design.greedy_plan(model, rounds)
        else:
            policy = _trained(model, settings, trial, rounds)
            value = design.exact_policy_information(model, policy, rounds)
            listed = design.listed_policy(model, policy)
            whole = design.exact_policy_information(model, listed, rounds)
            found[f"information_{rounds}_whole"] = whole
        found[f"information_{rounds}"] = value
    return found


def _trained(model, settings: Memory, trial: StudyTrial, rounds: int):
    path = trial.folder / f"policy_{rounds}.safetensors"
    if path.exists():
        return load_policy(path, model).policy
    key = jax.random.key(trial.seed)
    start = adaptive_policy(model, key, hidden=settings.hidden)
    training = PolicyTraining(settings.policy_steps, learning_rate=3e-3, final_rate=3e-5)
    policy, _ = train_policy(model, start, rounds, training, key=trial.seed)
    save_policy(path, policy, model, rounds)
    return policy


def run(bench: StudyBench) -> Outcome:
    """Every row, and the five figures of the example."""
    found = bench.measured(lambda trial: measured(bench.scale.settings, trial))
    results = [Result(trial.arm.label, trial.seed, v["metrics"]) for trial, v in found]
    values = {trial.arm.name: v for trial, v in found if trial.seed == 0}
    figures = [_prior(), *_figures(values, bench.scale.settings)]
    return Outcome(results, (PYRO,), tuple(figures), tuple(_findings(values)))


def _findings(values: dict[str, Any]) -> list[str]:
    said = []
    if {"adaptive", "fixed"} <= set(values):
        ours, theirs = (values[n]["metrics"]["sd_after_ten"] for n in ("adaptive", "fixed"))
        said.append(
            f"After ten rounds the standard deviation is {ours:.4f} with adaptive lengths and "
            f"{theirs:.4f} with 1 to 10: {1 - ours / theirs:.0%} smaller."
        )
    if {"exact", "normal"} <= set(values):
        exact, guide = (values[n]["metrics"]["posterior_sd"] for n in ("exact", "normal"))
        said.append(
            f"After (5, 7, 9) digits the exact posterior has standard deviation {exact:.5f}, the "
            f"normal guide {guide:.5f}, Pyro's 1.282."
        )
    if {"dad", "static", "greedy"} <= set(values):
        for name in [n for n in values["greedy"]["metrics"] if n in values["dad"]["metrics"]]:
            static, greedy, dad = (values[n]["metrics"][name] for n in ("static", "greedy", "dad"))
            whole = values["dad"]["metrics"][f"{name}_whole"]
            said.append(
                f"{name.rpartition('_')[2]} rounds: static {static:.6f}, greedy {greedy:.6f}, DAD "
                f"{dad:.6f} with any length and {whole:.6f} with the nearest whole one."
            )
    return said


def _prior() -> Figure:
    """(1) The prior, and the response curves of three lengths."""
    theta = np.linspace(0, 15, 151)
    density = np.asarray(norm.pdf(theta, 7, 2))
    left = Panel(
        "Prior",
        Frame(Axis(0, 15, "digits that a person can remember"), Axis(0, 0.22, "density")),
        [Line(theta, density, 0, markers=False)],
    )
    curves = [
        Line(theta, np.asarray(jax.nn.sigmoid(theta - length)), number, markers=False)
        for number, length in enumerate((3, 7, 11))
    ]
    frame = Frame(Axis(0, 15, "digits that a person can remember"), Axis(0, 1, "remembered"))
    right = Panel("Probability to remember", frame, curves)
    caption = "The prior, and the probability that 3, 7 and 11 digits are remembered."
    return Sheet("model", caption, [left, right], 2, series=("3 digits", "7 digits", "11 digits"))


def _figures(values: dict[str, Any], settings: Memory) -> list[Figure]:
    figures = []
    if {"exact", "marginal", "nested"} <= set(values):
        figures.append(_curves(values))
    figures.append(_posterior())
    if {"adaptive", "fixed"} <= set(values):
        figures.append(_rounds(values))
    if {"static", "greedy", "dad"} <= set(values):
        figures.append(_totals(values, settings))
    return figures


def _curves(values: dict[str, Any]) -> Figure:
    """(2) Information against length: exact, the marginal guide, and the bounds."""
    lengths = np.arange(1, 16)
    curve = {n: values[n]["curve"] for n in ("exact", "marginal", "nested")}
    layers = [
        Band(lengths, curve["nested"]["lower"], curve["nested"]["upper"], 2),
        Line(lengths, curve["exact"]["value"], 0),
        Line(lengths, curve["marginal"]["upper"], 1),
        Line(lengths, curve["nested"]["value"], 2),
    ]
    frame = Frame(
        Axis(0, 16, "digits shown"), Axis(0, 0.26, "expected information (nats)"),
        right=560, bottom=330,
    )  # fmt: skip
    caption = "Expected information against the number of digits; band: between both bounds."
    names = ("exact", "marginal guide (upper bound)", "contrastive and nested bounds")
    return Sheet("information", caption, [Panel("", frame, layers)], 1, (570, 376), names)


def _posterior() -> Figure:
    """(3) The posterior after five, seven and nine digits: exact, and a normal guide."""
    model = design.working_memory()
    exact = design.believe(model, SEEN)
    guide = design.believe(model, SEEN, belief="variational")
    theta = np.linspace(2, 13, 221)
    density = np.exp(jax.vmap(exact.model.prior_log_prob)(jnp.asarray(theta, float)))
    normal = norm.pdf(theta, float(guide.mean), float(guide.std))
    lines = [
        Line(theta, density, 0, markers=False),
        Line(theta, np.asarray(normal), 1, markers=False),
        Line(theta, np.asarray(norm.pdf(theta, 7.749, 1.282)), 2, markers=False),
        Line(theta, np.asarray(norm.pdf(theta, 7, 2)), 3, markers=False),
    ]
    frame = Frame(Axis(2, 13, "digits"), Axis(0, 0.36, "density"), right=560, bottom=330)
    caption = "After 5 and 7 digits were remembered and 9 were not."
    names = ("exact", "normal guide", "Pyro's normal guide", "prior")
    return Sheet("posterior", caption, [Panel("", frame, lines)], 1, (570, 376), names)


def _rounds(values: dict[str, Any]) -> Figure:
    """(4) Ten adaptive rounds against the lengths 1 to 10."""
    panels = []
    for name, title in (("adaptive", "Adaptive"), ("fixed", "Lengths 1 to 10")):
        path = {n: np.asarray(v) for n, v in values[name]["path"].items()}
        number = np.arange(1, 11)
        layers = [
            Band(number, path["mean"] - path["sd"], path["mean"] + path["sd"]),
            Line(number, path["mean"], markers=False),
            Points(number, path["lengths"], 2.6),
        ]
        frame = Frame(Axis(0.5, 10.5, "round"), Axis(0, 12, "digits"))
        panels.append(Panel(title, frame, layers))
    caption = (
        "Lengths that were shown (points), posterior mean and standard deviation, for a person who "
        "remembers five digits."
    )
    return Sheet("rounds", caption, panels, 2)


def _totals(values: dict[str, Any], settings: Memory) -> Figure:
    """(5) Total information of plans against the number of rounds."""
    rounds = np.array(settings.rounds)
    lines = [
        Line(rounds, [values[n]["metrics"][f"information_{r}"] for r in rounds], number)
        for number, n in enumerate(("static", "greedy", "dad"))
    ]
    top = Axis.around([0.0, *lines[1].y, *lines[2].y], "total information (nats)", zero=True)
    frame = Frame(Axis(0, float(rounds[-1]) + 1, "rounds"), top, right=560, bottom=330)
    caption = "Total expected information: the best fixed plan, exact greedy, and a trained policy."
    names = ("static", "exact greedy", "deep adaptive design")
    return Sheet("totals", caption, [Panel("", frame, lines)], 1, (570, 376), names)


ARMS = (
    StudyArm("exact", "Exact"),
    StudyArm("marginal", "Marginal guide"),
    StudyArm("nested", "Contrastive and nested bounds"),
    StudyArm("normal", "Normal guide"),
    StudyArm("adaptive", "Adaptive lengths"),
    StudyArm("fixed", "Lengths 1 to 10"),
    StudyArm("static", "Static plan"),
    StudyArm("greedy", "Exact greedy"),
    StudyArm("dad", "DAD"),
)
ABOUT = "working memory, 1 to 15 digits"
EXPERIMENT = Experiment(
    name="working-memory",
    title="How many digits can a person remember?",
    description=(
        "Whether l digits are remembered has probability sigmoid(θ - l), and θ is normal around 7 "
        "with standard deviation 2. Which length says most, what is believed after some answers, "
        "and what is adapting worth?"
    ),
    scales={
        "test": StudyScale(
            ARMS, 1, Memory(200, 20, 5, 3, 8, (2,)), ABOUT,
            "few draws, three steps and two rounds: shows that the program runs",
        ),
        "cpu": StudyScale(
            ARMS, 1, Memory(10_000, 1000, 1000, 1500, 64), ABOUT,
            "the tutorial's settings of the guide: 1000 steps with 100 draws, 10 000 draws to "
            "evaluate; everything else is exact",
        ),
        "paper": StudyScale(
            ARMS, 5, Memory(10_000, 1000, 1000, 5000, 128), ABOUT,
            "the tutorial's settings, five seeds, 5000 steps of the policy",
        ),
    },
    run=run,
)  # fmt: skip
