"""Temperature scaling: one number that makes all probabilities softer or sharper."""

import math
import warnings
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Integer

from credax.calibration.inputs import (
    calibrated,
    chosen_logs,
    class_arrays,
    member_shares,
    require_classes,
)
from credax.calibration.mixture_nll import label_entries, log_softmax, mixture_nll, shares
from credax.calibration.protocol import ApplyTo, CalibrationWarning, as_apply_to, generator
from credax.errors import InputError
from credax.prediction import ClassPrediction

LOWEST, HIGHEST = 0.01, 100.0
_GRID = 33
_STEPS = 100


class Temperature(eqx.Module):
    """``p_m ∝ exp(log p_m / T)`` with the one ``T`` that minimises the mixture's NLL.

    For one member the NLL is convex in ``1/T``; for several a grid finds the bracket of the lowest
    minimum first. Then Newton's method in ``1/T``, kept inside the bracket, in float64 on the host.
    ``T`` stays in [0.01, 100]; reaching a bound is a `CalibrationWarning`. ``apply_to="members"``
    keeps the members (and what they disagree on); ``"mixture"`` acts on the mean probabilities and
    returns one member. Either way it is fitted on the NLL of what it returns. Accuracy is unchanged
    for one member and for the mixture. Fitting takes about 40 bytes per member, row and class.
    Reference: C. Guo et al., On calibration of modern neural networks, ICML 2017.

    >>> p = ClassPrediction.from_logits(np.array([[[2.0, 0.0]] * 4]))
    >>> round(Temperature().fit(p, np.array([0, 0, 0, 1])).temperature, 6)
    1.820478
    """

    apply_to: ApplyTo = eqx.field(default="members", converter=as_apply_to)

    def fit(self, prediction: ClassPrediction, y: Any, *, key: Any = None) -> "FittedTemperature":
        """The temperature of ``prediction`` on labels ``y`` ``[batch]``; ``key`` is not needed."""
        del key
        logs, y = class_arrays(prediction, y, self.apply_to, "'temperature'")
        shares = member_shares(prediction, self.apply_to)
        temperature, error, at_bound = solve(logs, y, shares)
        if at_bound:
            why = (
                "the labels' logits are on average not above their rows' means: the predictions "
                "say nothing about these labels"
                if temperature == HIGHEST
                else "every calibration row is classified correctly with a margin"
            )
            warnings.warn(
                f"the temperature reached its bound {temperature:g}, because {why}; "
                "give other or more calibration rows",
                CalibrationWarning,
                stacklevel=2,
            )
        return FittedTemperature(temperature, error, at_bound, len(logs), self.apply_to)


class FittedTemperature(eqx.Module):
    """A temperature and its standard error ``T² / sqrt(N ∂²NLL/∂(1/T)²)``; infinite at a bound."""

    temperature: float
    standard_error: float
    at_bound: bool
    classes: int
    apply_to: ApplyTo = "members"

    def __call__(self, prediction: ClassPrediction) -> ClassPrediction:
        """The prediction at this temperature; jit-able."""
        require_classes(prediction, "'temperature'", self.classes)
        logs = _soften(prediction, self.apply_to, self.temperature)
        return calibrated(prediction, self.apply_to, logs)


@partial(jax.jit, static_argnums=1)
def _soften(prediction, apply_to, temperature):
    return jax.nn.log_softmax(chosen_logs(prediction, apply_to) / temperature, axis=-1)


def nll_after_temperature(
    prediction: ClassPrediction,
    y: Any,
    *,
    key: Any = None,
    folds: int = 2,
    repeats: int = 5,
    apply_to: ApplyTo = "members",
) -> float:
    """NLL of rows at a temperature fitted on the other rows, in nats: ranking without calibration.

    Cross-fitted: each of ``repeats`` random partitions into ``folds`` scores every row once, at the
    temperature of the other folds; the mean over all is returned. No row is ever scored at a
    temperature it helped to choose. Smaller is better.

    >>> p = ClassPrediction.from_logits(np.array([[[2.0, 0.0]] * 8]))
    >>> y = np.array([0, 0, 0, 1] * 2)
    >>> nll_after_temperature(p, y) > -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    True
    """
    logs, y = class_arrays(prediction, y, as_apply_to(apply_to), "nll_after_temperature")
    given = member_shares(prediction, apply_to)
    if not 2 <= folds <= len(y) or repeats < 1:
        raise InputError(
            f"folds is {folds} and repeats {repeats} for {len(y)} rows; give from 2 to "
            f"{len(y)} folds and at least one repeat"
        )
    rng, total = generator(key), 0.0
    for _ in range(repeats):
        fold = rng.permutation(len(y)) % folds
        for held in range(folds):
            own, rest = fold == held, fold != held
            temperature = solve(logs[..., rest], y[rest], given)[0]
            total += own.sum() * mixture_nll(logs[..., own] / temperature, y[own], given)[0]
    return float(total / (repeats * len(y)))


def solve(
    logs: Float[np.ndarray, "classes members batch"],
    y: Integer[np.ndarray, " batch"],
    weights: Float[np.ndarray, " members"] | None = None,
) -> tuple[float, float, bool]:
    """The best temperature, its standard error and whether it is a bound."""
    logs = logs - logs.max(axis=0)
    several = logs.shape[1] > 1
    low, inverse, high = 1 / HIGHEST, 1.0, 1 / LOWEST
    if not np.any(logs):
        return 1.0, math.inf, False  # uniform rows: no temperature changes them
    grid = np.geomspace(low, high, _GRID) if several else np.array([low, high])
    at = [_derivatives(inverse, logs, y, weights) for inverse in grid]
    values = [value for value, _, _ in at]
    if at[-1][1] <= 0 and values[-1] <= min(values):
        return LOWEST, math.inf, True
    if at[0][1] >= 0 and values[0] <= min(values):
        return HIGHEST, math.inf, True
    if several:
        best = int(np.argmin(values))
        inverse = grid[best]
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, _GRID - 1)]
    inverse, second = _newton(logs, y, weights, low, inverse, high)
    error = math.inf if second <= 0 else 1 / (inverse**2 * math.sqrt(len(y) * second))
    return float(1 / inverse), float(error), False


def _newton(logs, y, weights, low, inverse, high):
    """The stationary point of the NLL between ``low`` and ``high``, and the curvature there."""
    second = 0.0
    for _ in range(_STEPS):
        _, first, second = _derivatives(inverse, logs, y, weights)
        if first == 0:
            break
        low, high = (low, inverse) if first > 0 else (inverse, high)
        guess = inverse - first / second if second > 0 else math.nan
        following = guess if low <= guess <= high else math.sqrt(low * high)
        moved, inverse = abs(following - inverse), following
        if moved <= 1e-14 * inverse:
            break
    return inverse, second


def _derivatives(inverse, logs, y, weights=None):
    """NLL of the mixture at ``1/T`` and its first two derivatives there.

    With ``g_m = z_my - E_m[z]`` and ``w_m`` the members' shares in the label's probability:
    ``-mean Σ w g`` and ``-mean (Σ w (g² - Var_m[z]) - (Σ w g)²)``.
    """
    scaled, probs = log_softmax(inverse * logs)
    mean = np.einsum("kmn,kmn->mn", probs, logs)
    variance = np.einsum("kmn,kmn->mn", probs, np.square(logs - mean))
    share, total = shares(label_entries(scaled, y), weights)
    gain = label_entries(logs, y) - mean
    slope = np.sum(share * gain, axis=0)
    second = np.mean(slope**2 - np.sum(share * (gain**2 - variance), axis=0))
    return np.log(logs.shape[1]) - np.mean(total), -np.mean(slope), second
