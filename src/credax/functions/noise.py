"""Noise that depends on the input: a second process on its logarithm (Goldberg et al. 1998)."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from credax.functions.gp import ConditionedProcess, GaussianProcess
from credax.functions.hyperparameters import Regression, optimise_regression
from credax.functions.kernels import RBF, Kernel

ROUNDS = 4
SPREAD = np.pi**2 / 2
"""Variance of the logarithm of a squared standard normal number: the noise of an estimate."""
BIAS = 1.2703628454614782
"""Its mean is minus this."""
LEAST = 1e-6
"""Of a noise variance, in standard units."""


@dataclass(frozen=True)
class NoiseProcess:
    """The noise variance as a function of the input: ``exp`` of a process given estimates."""

    kernel: Kernel
    x: Float[np.ndarray, "rows columns"]
    log_noise: Float[np.ndarray, " rows"]
    """An estimate of the log noise variance at each row."""

    @cached_property
    def process(self) -> ConditionedProcess:
        """The process of the log noise variance."""
        prior = GaussianProcess(self.kernel, SPREAD, float(self.log_noise.mean()))
        return prior.condition(self.x, self.log_noise, most_rows=len(self.x))

    def variance(self, points: np.ndarray) -> Float[np.ndarray, " points"]:
        """The noise variance at points in standard units."""
        return np.maximum(np.exp(self.process.moments(points)[0][:, 0]), LEAST)


class FittedNoise(NamedTuple):
    """The kernel of the function, the process of the noise, and what the last starts reached."""

    kernel: Kernel
    noise: NoiseProcess
    values: tuple[float, ...]


def fit_noise(
    kernel: Kernel, x: np.ndarray, y: np.ndarray, optimise: bool, options: dict[str, int]
) -> FittedNoise:
    """The most likely heteroscedastic process (Kersting et al. 2007), without its sampling.

    In turns: the function given the noise at each row, then a process on the logarithm of the
    leave-one-out residuals ``(y - μ₋ᵢ)² - v₋ᵢ`` given the function. A factor of all noise is fitted
    by the evidence of the function, so that no bias of the logarithms is left.
    """
    rows, values = np.ones(len(x)), ()
    noise = NoiseProcess(RBF(np.sqrt(x.shape[1])), x, np.zeros(len(x)))
    for number in range(ROUNDS):
        start = Regression(kernel, np.log(0.1) if number == 0 else np.zeros(()))
        chosen = options if number == 0 else {"restarts": 1}
        fitted = start
        if optimise or number:
            found = optimise_regression(start, x, y, rows, **chosen)
            values, fitted = found.values, found.model
        kernel = fitted.kernel if optimise else kernel
        rows = rows * float(np.exp(fitted.log_noise))
        if number == ROUNDS - 1:
            break
        process = GaussianProcess(kernel).condition(x, y, noise=rows, most_rows=len(x))
        noise = _noise_of(process, y, rows, noise.kernel)
        rows = noise.variance(x)
    shift = float(np.mean(np.log(rows) - np.log(noise.variance(x))))
    return FittedNoise(kernel, NoiseProcess(noise.kernel, x, noise.log_noise + shift), values)


def _noise_of(
    process: ConditionedProcess, y: np.ndarray, rows: np.ndarray, kernel: Kernel
) -> NoiseProcess:
    lower = process.factor.lower
    half = np.linalg.solve(lower, np.eye(len(lower)))
    precision = np.sum(half**2, axis=0)
    residual = process.weights / precision[:, None]
    # What leave-one-out leaves has variance noise + v, of which v is the function's own.
    share = np.clip(rows * precision, 0.05, 1.0)
    squares = np.maximum(np.mean(residual**2, axis=1) * share, 1e-4 * rows)
    estimate = np.log(squares) + BIAS
    centred = estimate - estimate.mean()
    model = Regression(kernel)
    spread = np.full(len(estimate), SPREAD)
    found = optimise_regression(model, process.x, centred[:, None], spread, restarts=1)
    return NoiseProcess(found.model.kernel, process.x, estimate)
