"""Estimators of expected information at equal budget: bias, error and time against exact values."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from credax import design
from credax.design.guides import GuideTraining
from credax.design.information import Information
from credax.design.model import DesignModel
from credax.experiments.experiment import Experiment, Outcome
from credax.experiments.intervals import intervals_panel, panel_size
from credax.experiments.study import StudyArm, StudyBench, StudyScale, StudyTrial
from credax.report import Result
from credax.report.figure import Figure, Sheet

ERRORS = 3
"""Standard errors within which a bound must be on its side."""


@dataclass(frozen=True)
class Budget:
    """Settings of the comparison; plain data."""

    draws: int
    """Outcomes drawn or densities evaluated per design, training of guides included."""


@cache
def _models() -> dict[str, tuple[DesignModel, float, float]]:
    """Every model with a design and its exact information."""
    memory, death = design.working_memory(), design.models.get("death-process")
    line = design.models.get("linear-regression")
    known = lambda model, xi: float(design.exact(model, [xi]).value[0])  # noqa: E731
    return {
        "memory": (memory, 7.0, known(memory, 7.0)),
        "regression": (line, 3.0, design.linear_gaussian([[1.0, 3.0]], np.eye(2), 1.0)),
        "death": (death, 1.3, known(death, 1.3)),
    }


def _nested(model: DesignModel, xi: float, draws: int, key: int) -> Information:
    inner = max(8, round(draws**0.5 / 8))
    return design.nested(model, [xi], outer=draws // inner, inner=inner, key=key)


def _guided(estimator: Callable) -> Callable:
    """Half of the budget trains the guide, half estimates."""

    def run(model: DesignModel, xi: float, draws: int, key: int) -> Information:
        training = GuideTraining(steps=_steps(draws // 2), batch=256)
        return estimator(model, [xi], training=training, outer=draws // 2, key=key)

    return run


def _importance(estimator: Callable) -> Callable:
    """A quarter trains the guide; each outcome of the rest has 15 contrastive draws."""

    def run(model: DesignModel, xi: float, draws: int, key: int) -> Information:
        training = GuideTraining(steps=_steps(draws // 4), batch=256)
        outer = max(2, 3 * draws // 4 // 16)
        return estimator(model, [xi], training=training, outer=outer, inner=15, key=key)

    return run


def _critic(estimator: Callable) -> Callable:
    """Half of the outcomes train the critic; parameters beside outcomes are not counted."""

    def run(model: DesignModel, xi: float, draws: int, key: int) -> Information:
        training = GuideTraining(_steps(draws // 2), 256, learning_rate=0.01, final_rate=1e-4)
        outer = max(2, min(20_000, draws // 2) // 250 * 250)
        return estimator(model, [xi], training=training, outer=outer, inner=1000, key=key)

    return run


def _ratios(model: DesignModel, xi: float, draws: int, key: int) -> Information:
    samples = max(20, round((draws / 2) ** 0.5))
    return design.lfire(model, [xi], outer=max(2, draws // (2 * samples)), samples=samples, key=key)


@cache
def _log_rate(model: DesignModel) -> DesignModel:
    """The same with the logarithm of its parameter; one object, so that it is compiled once."""
    return design.change_of_variables(model, jnp.exp, jnp.log)


def _laplace(model: DesignModel, xi: float, draws: int, key: int) -> Information:
    # About 64 densities and gradients for a mode and its curvature.
    changed = _log_rate(model) if model.name == "death-process" else model
    return design.laplace(changed, [xi], outer=max(2, draws // 64), key=key)


def _steps(draws: int) -> int:
    return max(2, draws // 256)


ESTIMATORS: dict[str, tuple[str, str, Callable]] = {
    "pce": ("Prior contrastive", "lower", _nested),
    "nmc": ("Nested Monte Carlo", "upper", _nested),
    "posterior": ("Posterior bound", "lower", _guided(design.posterior_bound)),
    "marginal": ("Marginal bound", "upper", _guided(design.marginal)),
    "free": ("Likelihood-free", "none", _guided(design.marginal_likelihood_free)),
    "vnmc": ("Variational NMC", "upper", _importance(design.vnmc)),
    "ace": ("Adaptive contrastive", "lower", _importance(design.ace)),
    "info-nce": ("InfoNCE", "lower", _critic(design.info_nce)),
    "donsker-varadhan": ("Donsker-Varadhan", "lower", _critic(design.donsker_varadhan)),
    "lfire": ("LFIRE", "none", _ratios),
    "laplace": ("Laplace", "none", _laplace),
}


def measured(settings: Budget, trial: StudyTrial) -> dict[str, Any]:
    """Of every model: estimate minus exact value, its error, and seconds without compiling."""
    _, side, estimate = ESTIMATORS[trial.arm.name]
    found: dict[str, Any] = {"side": side}
    for name, (model, xi, exact) in _models().items():
        estimate(model, xi, settings.draws, trial.seed + 1000)
        began = time.monotonic()
        result = estimate(model, xi, settings.draws, trial.seed)
        seconds = time.monotonic() - began
        value = {"lower": result.lower, "upper": result.upper, "none": result.value}[side]
        found[name] = {
            "bias": float(value[0]) - exact,
            "error": float(result.standard_error[0]),
            "seconds": seconds,
        }
    return found


def run(bench: StudyBench) -> Outcome:
    """Every estimator on every model, and how often a bound was on the wrong side."""
    found = bench.measured(lambda trial: measured(bench.scale.settings, trial))
    results = []
    for trial, values in found:
        metrics = {
            f"{kind}_{name}": values[name][kind]
            for name in _NAMES
            for kind in ("bias", "error", "seconds")
        }
        results.append(Result(trial.arm.label, trial.seed, metrics))
    return Outcome(results, figures=(figure(found),), findings=verdicts(found))


_NAMES = {"memory": "Working memory", "regression": "Regression", "death": "Death process"}


def verdicts(found: list[tuple[StudyTrial, dict[str, Any]]]) -> tuple[str, ...]:
    """Bounds that are on the wrong side of the exact value by more than three standard errors."""
    wrong, bounds = [], 0
    for trial, values in found:
        if values["side"] == "none":
            continue
        sign = 1 if values["side"] == "lower" else -1
        for name in _NAMES:
            bounds += 1
            # What is no number is on no side.
            if not sign * values[name]["bias"] <= ERRORS * values[name]["error"]:
                wrong.append(f"{trial.arm.label} on {_NAMES[name]}, seed {trial.seed}")
    said = f"On the wrong side by more than {ERRORS} standard errors: {len(wrong)} of {bounds}"
    return (f"{said} bounds{': ' + '; '.join(wrong) if wrong else ''}.",)


def figure(found: list[tuple[StudyTrial, dict[str, Any]]]) -> Figure:
    """The mean over seeds of estimate minus exact, with three standard errors of one run."""
    by_arm: dict[str, list[dict[str, Any]]] = {}
    for trial, values in found:
        by_arm.setdefault(trial.arm.label, []).append(values)
    panels, labels = [], list(by_arm)
    for name, title in _NAMES.items():
        bias = np.array([np.mean([v[name]["bias"] for v in own]) for own in by_arm.values()])
        error = np.array([np.mean([v[name]["error"] for v in own]) for own in by_arm.values()])
        low, high = bias - ERRORS * error, bias + ERRORS * error
        label = "estimate minus exact (nats)"
        panels.append(intervals_panel(title, labels, bias, low, high, label, zero=True))
    caption = (
        "Mean over seeds of the estimate minus the exact value; dashed: three standard errors of "
        "one run to either side, and zero."
    )
    return Sheet("estimators", caption, panels, 2, panel_size(len(labels)))


ARMS = tuple(StudyArm(name, label) for name, (label, *_) in ESTIMATORS.items())
ABOUT = "working memory (7 digits), a line (at 3), death process (at 1.3)"
EXPERIMENT = Experiment(
    name="design-estimators",
    title="Estimators of expected information",
    description=(
        "Eleven estimators at the same number of outcomes, the training of guides included, on "
        "three models whose information is known. Lower bounds must be below it and upper bounds "
        "above."
    ),
    scales={
        "test": StudyScale(
            ARMS, 1, Budget(2**10), ABOUT, "about a thousand outcomes: shows that the program runs"
        ),
        "cpu": StudyScale(
            ARMS, 5, Budget(2**19), ABOUT,
            "half a million outcomes or densities per design and estimator, five seeds; seconds "
            "are those of a second run, without compiling",
        ),
        "paper": StudyScale(
            ARMS, 10, Budget(2**23), ABOUT,
            "no such table has been published; 8 million outcomes or densities, ten seeds",
        ),
    },
    run=run,
)  # fmt: skip
