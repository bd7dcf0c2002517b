"""Regression with Gaussian noise: one level per target, or one per row."""

from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credax.likelihoods.base import Likelihood
from credax.likelihoods.checks import check_multiple, check_targets
from credax.likelihoods.learned import (
    VARIANCE_FLOOR,
    Level,
    OneLevel,
    check_level,
    split_variance,
)
from credax.prediction import GaussianPrediction, RegressionPrediction

_LOG_2PI = float(np.log(2 * np.pi))
LEAST_NOISE = 1e-2
"""Of infinitely wide networks, in standard units."""


class Gaussian(OneLevel):
    """Regression with one noise level: ``y ~ N(outputs, noise²)``, noise in standard units.

    ``noise`` is a standard deviation, or ``"learned"``: then one number per target is learned with
    the network, starting at ``initial``, outside the prior.

    >>> round(float(Gaussian(0.5).log_prob(jnp.zeros((1, 1)), jnp.array([1.0]))[0]), 6)
    -2.225791
    """

    noise: Level = "learned"
    initial: float = eqx.field(default=1.0, static=True)

    has_squared_error: ClassVar[bool] = True
    has_one_noise: ClassVar[bool] = True

    def __check_init__(self):
        check_level("noise", self.noise, self.initial)

    def level(self) -> tuple[Level, float]:
        """The noise, and where a learned one starts."""
        return self.noise, self.initial

    def log_prob(self, outputs: Array, y: Float[Array, "batch *targets"]) -> Array:
        """Log-density of each row, summed over targets."""
        mean, variance = self._moments(outputs)
        return log_normal(mean, variance, y)

    def predict(self, outputs: Float[Array, "members batch *grid outputs"]) -> GaussianPrediction:
        """Mixture of Gaussians, the noise as aleatoric variance."""
        return GaussianPrediction(*self._moments(outputs))

    def curvature_root(self, params, outputs, y):
        """``1/σ``."""
        return jnp.diag(1 / jnp.sqrt(self.noise_variance(params, outputs)))

    def noise_variance(self, params, outputs):
        """``σ²`` of each output, in standard units."""
        if self.learns:
            return jax.nn.softplus(params["noise"]) + VARIANCE_FLOOR
        noise: Any = self.noise
        return jnp.full(outputs.shape[-1:], noise**2, outputs.dtype)

    def compared(self, outputs, *, raw):
        """The means; a learned noise level is no function."""
        return self._moments(outputs)[0]

    def best_scale(self, found, targets):
        """The noise: as given, or that of leave-one-out."""
        return least_noise(found, targets) if self.learns else float(self.noise)

    def from_regressed(self, outputs, scale):
        """Means, followed by a learned noise."""
        return with_raw_variance(outputs, scale) if self.learns else outputs

    def _moments(self, outputs):
        if self.learns:
            return split_variance(outputs)
        noise: Any = self.noise
        return outputs, jnp.full_like(outputs, noise**2)


class MeanAndVariance(Likelihood):
    """Abstract: regressions whose outputs are means and raw variances."""

    task: ClassVar[Literal["classification", "regression"]] = "regression"

    def num_outputs(self, targets: int) -> int:
        """A mean and a raw variance for each target."""
        return 2 * targets

    def num_targets(self, outputs: int) -> int:
        """Half of the outputs."""
        return outputs // 2

    def moments(self, outputs: Array) -> tuple[Array, Array]:
        """A hook: means and variances of network outputs."""
        return split_variance(outputs)

    def predict(self, outputs: Float[Array, "members batch *grid outputs"]) -> RegressionPrediction:
        """A hook: by default the mixture of the members' Gaussians."""
        return GaussianPrediction(*self.moments(outputs))

    def check(self, y: np.ndarray, outputs: int) -> None:
        """Two outputs per target, all targets finite."""
        check_multiple(outputs, 2, type(self).__name__, "mean and raw variance")
        check_targets(y, outputs // 2)

    def with_floor(self, outputs, floor):
        """``σ = floor + (1 - floor) softplus(raw)``, as a raw variance."""
        mean, raw = jnp.split(outputs, 2, axis=-1)
        variance = jnp.square(floor + (1 - floor) * jax.nn.softplus(raw)) - VARIANCE_FLOOR
        variance = jnp.maximum(variance, VARIANCE_FLOOR)
        # The inverse of softplus, without overflow.
        return jnp.concatenate([mean, variance + jnp.log(-jnp.expm1(-variance))], axis=-1)

    def compared(self, outputs, *, raw):
        """The means, or all outputs."""
        return outputs if raw else self.moments(outputs)[0]

    def centres(self, outputs, y):
        """The means."""
        return self.moments(outputs)[0]


class HeteroscedasticGaussian(MeanAndVariance):
    """Regression whose noise depends on the input; the network has two outputs per target.

    The first half of the outputs is the mean, the second half ``raw`` with variance
    ``softplus(raw) + 1e-6`` (Lakshminarayanan et al. 2017).
    """

    has_squared_error: ClassVar[bool] = True

    def log_prob(self, outputs: Array, y: Float[Array, "batch *targets"]) -> Array:
        """Log-density of each row, summed over targets."""
        return log_normal(*self.moments(outputs), y)

    def curvature_root(self, params, outputs, y):
        """``1/σ`` of the mean and, of the variance ``v(raw)``, ``v' / (√2 v)``."""
        _, raw = jnp.split(outputs, 2)
        variance = jax.nn.softplus(raw) + VARIANCE_FLOOR
        slope = jax.nn.sigmoid(raw) / (jnp.sqrt(2.0).astype(raw.dtype) * variance)
        return jnp.diag(jnp.concatenate([1 / jnp.sqrt(variance), slope]))

    def best_scale(self, found, targets):
        """The noise of leave-one-out."""
        return least_noise(found, targets)

    def from_regressed(self, outputs, scale):
        """Means, followed by raw variances."""
        return with_raw_variance(outputs, scale)


def log_normal(mean: Array, variance: Array, y: Array) -> Float[Array, " *batch"]:
    """Log-density of each row, summed over targets."""
    y = y.reshape(mean.shape)
    terms = _LOG_2PI + jnp.log(variance) + jnp.square(y - mean) / variance
    return -0.5 * jnp.sum(terms, axis=-1)


def least_noise(found: np.ndarray, targets: np.ndarray) -> float:
    """Root mean squared error of leave-one-out, at least `LEAST_NOISE`."""
    return float(max(np.sqrt(np.mean(np.square(targets - found))), LEAST_NOISE))


def with_raw_variance(outputs: np.ndarray, scale: float) -> np.ndarray:
    """Outputs followed by the raw variance of a standard deviation."""
    raw = np.log(np.expm1(scale**2 - VARIANCE_FLOOR))
    return np.concatenate([outputs, np.full_like(outputs, raw)], axis=-1)
