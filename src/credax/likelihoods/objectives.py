"""Objectives that people train with and that are no likelihoods; they define no posterior."""

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Integer

from credax.errors import InputError
from credax.likelihoods.classes import Softmax
from credax.likelihoods.gaussian import MeanAndVariance, log_normal
from credax.likelihoods.learned import split_variance


class LabelSmoothing(Softmax):
    """Cross-entropy against labels mixed with the uniform distribution (Szegedy et al. 2016).

    ``-(1 - ε) log p_y - ε/K Σ_k log p_k``. A prediction is the softmax of the outputs; its
    probabilities are those of smoothed labels, so the most certain prediction that is right in
    training is ``1 - ε (K - 1)/K``, and confidence below that says nothing of the data.

    >>> float(LabelSmoothing(0.1).log_prob(jnp.zeros((1, 4)), jnp.array([2]))[0])
    -1.3862943649291992
    """

    smoothing: float = eqx.field(default=0.1, static=True)

    no_posterior: ClassVar[str | None] = "smoothed labels are not the labels of the data"

    def __check_init__(self):
        if not 0 <= self.smoothing < 1:
            raise InputError(f"smoothing is {self.smoothing}; it lies in [0, 1)")

    def log_prob(
        self, outputs: Float[Array, "batch classes"], y: Integer[Array, " batch"]
    ) -> Array:
        """Minus the smoothed cross-entropy of each row."""
        logs = jax.nn.log_softmax(outputs)
        own = jnp.take_along_axis(logs, y[:, None], axis=-1)[:, 0]
        return (1 - self.smoothing) * own + self.smoothing * jnp.mean(logs, axis=-1)


class Focal(Softmax):
    """Cross-entropy that counts rows less the better they are fitted (Lin et al. 2017).

    ``-(1 - p_y)^γ log p_y``. A prediction is the softmax of the outputs. The loss is not a proper
    score: its minimum is less certain than the data, so probabilities are scores to be calibrated
    (`credax.calibration`) before they are read as probabilities.

    >>> round(float(Focal(2.0).log_prob(jnp.zeros((1, 2)), jnp.array([1]))[0]), 6)
    -0.173287
    """

    gamma: float = eqx.field(default=2.0, static=True)

    no_posterior: ClassVar[str | None] = "a focal loss is no log-density"

    def __check_init__(self):
        if not (math.isfinite(self.gamma) and self.gamma >= 0):
            raise InputError(f"gamma is {self.gamma}; it is not negative")

    def log_prob(
        self, outputs: Float[Array, "batch classes"], y: Integer[Array, " batch"]
    ) -> Array:
        """Minus the focal loss of each row."""
        logs = jax.nn.log_softmax(outputs)
        own = jnp.take_along_axis(logs, y[:, None], axis=-1)[:, 0]
        if self.gamma == 0:
            return own
        # The rest of the probability by its own sum: 1 - p loses it, and its power's derivative.
        others = jnp.where(jnp.arange(outputs.shape[-1]) == y[:, None], -jnp.inf, logs)
        rest = jax.scipy.special.logsumexp(others, axis=-1)
        return jnp.exp(self.gamma * rest) * own


class BetaNLL(MeanAndVariance):
    """Gaussian loss of mean and variance whose rows weigh ``variance^β`` (Seitzer et al. 2022).

    ``-⌊σ²⌋^β log N(y | μ, σ²)``, no gradient through the weight: with ``beta=0`` that of
    `HeteroscedasticGaussian`, with ``beta=1`` the mean learns as by squared error. A prediction is
    a mixture of Gaussians as there; the optimum is the same where the network can fit the data,
    so mean and variance are read the same way.

    >>> outputs, y = jnp.array([[0.0, 2.0]]), jnp.array([1.0])
    >>> from credax.likelihood import HeteroscedasticGaussian
    >>> bool(BetaNLL(0.0).log_prob(outputs, y) == HeteroscedasticGaussian().log_prob(outputs, y))
    True
    """

    beta: float = eqx.field(default=0.5, static=True)

    no_posterior: ClassVar[str | None] = "its weights stop gradients, so it is no log-density"

    def __check_init__(self):
        if not 0 <= self.beta <= 1:
            raise InputError(f"beta is {self.beta}; it lies in [0, 1]")

    def log_prob(self, outputs: Array, y: Float[Array, "batch *targets"]) -> Array:
        """Minus the weighted loss of each row, summed over targets."""
        mean, variance = split_variance(outputs)
        weight = jax.lax.stop_gradient(variance**self.beta)
        y = jnp.reshape(y, mean.shape)
        each = log_normal(mean[..., None], variance[..., None], y[..., None])
        return jnp.sum(weight * each, axis=-1)
