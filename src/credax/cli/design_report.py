"""The page of a run of experiments: posterior and prior, information, the curve over designs."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from credax.cli.design_models import short_numbers
from credax.design.adaptive import believe, recommend_next
from credax.design.beliefs.belief import Belief, log_likelihood
from credax.design.beliefs.grid import grid_posterior
from credax.design.deep_adaptive import PolicyTraining, policy_information, train_policy
from credax.design.information import entropy_reduction, kl_gain, prior_on_nodes
from credax.design.model import DesignModel
from credax.design.plans import best_static_plan, greedy_plan, static_plan
from credax.design.policies import random_policy, static_policy
from credax.design.records import DesignRun
from credax.errors import InputError
from credax.files import write_atomic
from credax.report.figure import Figure, Panel, Sheet
from credax.report.layers import Band, Line, Reference, Steps
from credax.report.markup import Markup, element
from credax.report.page import document
from credax.report.parts import plain_table, section
from credax.report.svg import Axis, Frame

DRAWS = 4000
PANELS = 6
BINS = 40
BEST = 10
"""Designs of the table, where there is no curve."""


def write_report(folder: Path, run: DesignRun, model: DesignModel) -> Path:
    """Write ``report.html`` into the folder of a run."""
    now = believe(model, run.seen, belief=run.belief, key=run.seed)  # pyright: ignore[reportArgumentType]
    count = len(run.rounds)
    title = f"{model.title}: {count} experiment{'' if count == 1 else 's'}"
    body = element(
        "main",
        element("header", element("h1", title), element("p", _lead(model))),
        _experiments(run),
        _drawing("posterior", "What is believed now", _beliefs(model, now, run.seed)),
        _gained(model, run, now),
        _next(run, now),
        element("footer", "Written by credax. This file is complete: no network, no scripts."),
    )
    path = folder / "report.html"
    write_atomic(path, document(title, body))
    return path


def _lead(model: DesignModel) -> str:
    outcomes = f"{len(model.outcomes)} outcomes" if model.finite else "continuous outcomes"
    return (
        f"Bayesian experimental design with the model {model.name}, {outcomes}. Information is in "
        "nats."
    )


def _experiments(run: DesignRun) -> Markup:
    rows = [
        (
            str(number),
            short_numbers(each["design"]),
            short_numbers(each["outcome"]),
            "–" if each["expected"] is None else f"{each['expected']:.4f}",
        )
        for number, each in enumerate(run.rounds, 1)
    ]
    table = plain_table(("experiment", "design", "outcome", "expected information"), rows)
    reading = "Every design with its outcome, and the information that was expected of it."
    return section("experiments", "What was done", reading, table if rows else None)


def _beliefs(model: DesignModel, now: Belief, seed: int) -> Figure:
    """Marginal densities of up to six entries of θ, before and after."""
    keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), 2**20), DRAWS)
    before, after = (
        np.asarray(jax.vmap(lambda key, m=m: ravel_pytree(m.prior_sample(key))[0])(keys))
        for m in (model, now.model)
    )
    panels = []
    for entry in range(min(PANELS, before.shape[1])):
        both = np.concatenate([before[:, entry], after[:, entry]])
        low, high = np.quantile(both, [0.002, 0.998])
        edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
        heights = [
            np.histogram(values[:, entry], edges, density=True)[0] for values in (before, after)
        ]
        x, y = Axis(edges[0], edges[-1], f"θ{entry}"), Axis.around(heights, "density", zero=True)
        layers = [Steps(edges, h, number) for number, h in enumerate(heights)]
        panels.append(Panel(f"Parameter {entry}", Frame(x, y), layers))
    caption = f"Densities of {DRAWS} draws from the prior and from the posterior."
    return Sheet("posterior", caption, panels, min(3, len(panels)), series=("prior", "posterior"))


def _gained(model: DesignModel, run: DesignRun, now: Belief) -> Markup | None:
    """Information so far against other plans of the same length: exact, or by draws and bounds."""
    if not run.rounds:
        return None
    if model.nodes is not None and model.finite:
        rows = [*_exact_gains(model, run), *_plans(model, len(run.rounds))]
    else:
        rows = [*_drawn_gain(model, run, now), *_bounded_plans(model, len(run.rounds), run.seed)]
    return section(
        "information",
        "What was learned",
        "What this run learned is of the outcomes that came; the plans are expectations over all "
        "outcomes.",
        plain_table(("plan", "information"), rows),
    )


def _exact_gains(model: DesignModel, run: DesignRun) -> list[tuple[str, str]]:
    with jax.enable_x64(True):
        prior = prior_on_nodes(model)
        found = grid_posterior(model, run.seen)
        gains = float(entropy_reduction(prior, found)), float(kl_gain(prior, found))
    return [
        ("this run: fall of entropy", f"{gains[0]:.4f}"),
        ("this run: divergence of the posterior from the prior", f"{gains[1]:.4f}"),
    ]


def _drawn_gain(model: DesignModel, run: DesignRun, now: Belief) -> list[tuple[str, str]]:
    """``KL = E_posterior log p(outcomes | θ) - log p(outcomes)``, by draws from the posterior."""
    if now.log_evidence is None:
        return []
    keys = jax.random.split(jax.random.fold_in(jax.random.key(run.seed), 2**21), DRAWS)
    theta = jax.vmap(now.model.prior_sample)(keys)
    each = np.asarray(jax.vmap(lambda t: log_likelihood(model, t, run.seen))(theta))
    error = float(each.std(ddof=1) / np.sqrt(len(each)))
    gain = float(each.mean()) - now.log_evidence
    label = "this run: divergence of the posterior from the prior"
    return [(label, f"{gain:.2f} ± {error:.2f}")]


def _bounded_plans(model: DesignModel, rounds: int, seed: int) -> list[tuple[str, str]]:
    """Bounds of a random and of a fixed plan, from few draws."""
    first, second = jax.random.split(jax.random.fold_in(jax.random.key(seed), 2**22))
    training = PolicyTraining(300, 64, 256, learning_rate=0.05, final_rate=0.005)
    start = static_policy(model, rounds, first)
    try:
        static, _ = train_policy(model, start, rounds, training, key=second)
    except InputError:
        return []
    plans = {"expected of a fixed plan": static, "expected of random designs": random_policy(model)}
    found = {
        label: policy_information(model, policy, rounds, outer=512, inner=2000, key=second)
        for label, policy in plans.items()
    }
    return [
        (
            label,
            f"{each.lower[0]:.2f} to {each.upper[0]:.2f} (standard error "
            f"{each.standard_error[0]:.2f})",
        )
        for label, each in found.items()
    ]


def _plans(model: DesignModel, rounds: int) -> list[tuple[str, str]]:
    designs = np.asarray(model.designs)
    rng = np.random.default_rng(0)
    try:
        drawn = [designs[rng.integers(len(designs), size=rounds)] for _ in range(8)]
        values = [static_plan(model, plan) for plan in drawn]
        greedy, (plan, fixed) = greedy_plan(model, rounds), best_static_plan(model, rounds)
    except InputError:
        return []
    return [
        ("expected of adaptive design", f"{greedy:.4f}"),
        (f"expected of the fixed plan {json.dumps(plan.tolist())}", f"{fixed:.4f}"),
        ("expected of a random plan", f"{np.mean(values):.4f}"),
    ]


def _next(run: DesignRun, now: Belief) -> Markup:
    """Expected information over designs: a curve where a design is one number, else the best."""
    designs = np.asarray(now.model.designs)
    key = jax.random.fold_in(jax.random.key(run.seed), len(run.rounds))
    found = recommend_next(now.model, key, outer=run.outer, inner=run.inner).information
    if designs.reshape(len(designs), -1).shape[1] == 1:
        return _drawing("designs", "Which experiment next", _curve(designs.reshape(-1), found))
    best = np.argsort(-found.value)[:BEST]
    rows = [
        (short_numbers(designs[i]), f"{found.value[i]:.4f}", f"{found.lower[i]:.4f}",
         f"{found.upper[i]:.4f}", f"{found.standard_error[i]:.4f}")
        for i in best
    ]  # fmt: skip
    table = plain_table(
        ("design", "expected information", "lower", "upper", "standard error"), rows
    )
    reading = f"The best of {len(designs)} designs."
    return section("designs", "Which experiment next", reading, table)


def _curve(x: np.ndarray, found: Any) -> Figure:
    layers: list[Any] = [Line(x, found.value)]
    if found.exact is None:
        layers.insert(0, Band(x, found.lower, found.upper))
    best = x[found.best()]
    top = Axis.around([0.0, *found.upper], "expected information (nats)", zero=True)
    layers.append(Reference([best, best], [0.0, float(found.value.max())]))
    panel = Panel("Next experiment", Frame(Axis.around(x, "design"), top), layers)
    return Sheet("designs", "Expected information of the next experiment.", [panel], 1)


def _drawing(name: str, heading: str, figure: Figure) -> Markup:
    drawing = figure.drawn()
    width = f"max-width:min(62rem,{drawing.width:g}px)"
    return section(
        name, heading, figure.caption, element("div", drawing.markup, class_="sheet", style=width)
    )
