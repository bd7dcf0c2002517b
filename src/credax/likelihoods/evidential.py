"""Evidential objectives: one network that predicts a distribution over distributions."""

import math
from typing import ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln
from jaxtyping import Array, Float, Integer

from credax.distributions import StudentTDistribution
from credax.errors import InputError
from credax.likelihoods.base import Likelihood
from credax.likelihoods.checks import check_labels, check_multiple, check_targets
from credax.mixture_prediction import MixturePrediction
from credax.prediction import ClassPrediction

FLOOR = 1e-6
_NO_POSTERIOR = "the loss is not the log-density of the data alone"


class EvidentialDirichlet(Likelihood):
    """Classes by a Dirichlet distribution over probabilities (Sensoy, Kaplan, Kandemir 2018).

    ``α = softplus(outputs) + 1``; the loss is the expected squared error of the one-hot label,
    ``Σ_k (y_k - p_k)² + p_k (1 - p_k)/(S + 1)`` with ``p = α/S``, plus ``weight`` times the KL
    from the uniform Dirichlet of the evidence for wrong classes. A prediction has the mean
    probabilities ``α/S``; epistemic uncertainty counts the width of each Dirichlet beside the
    members' disagreement. That width is what the loss rewards, not a posterior: compare it between
    inputs, do not read it as a probability.

    >>> float(EvidentialDirichlet(0.0).log_prob(jnp.full((1, 2), -100.0), jnp.array([1]))[0])
    -0.6666666865348816
    """

    weight: float = eqx.field(default=0.1, static=True)

    task: ClassVar[Literal["classification", "regression"]] = "classification"
    no_posterior: ClassVar[str | None] = _NO_POSTERIOR

    def __check_init__(self):
        _check_weight(self.weight)

    def log_prob(
        self, outputs: Float[Array, "batch classes"], y: Integer[Array, " batch"]
    ) -> Array:
        """Minus the loss of each row."""
        alpha = _alpha(outputs)
        total = jnp.sum(alpha, axis=-1, keepdims=True)
        probs, label = alpha / total, jax.nn.one_hot(y, outputs.shape[-1], dtype=alpha.dtype)
        error = jnp.sum(jnp.square(label - probs) + probs * (1 - probs) / (total + 1), axis=-1)
        wrong = label + (1 - label) * alpha
        return -error - self.weight * _uniform_kl(wrong)

    def predict(self, outputs: Float[Array, "members batch *grid classes"]) -> ClassPrediction:
        """Mean probabilities of the members' Dirichlet distributions, and their strengths."""
        alpha = _alpha(outputs)
        total = jnp.sum(alpha, axis=-1, keepdims=True)
        return ClassPrediction(jnp.log(alpha / total), total)

    def check(self, y: np.ndarray, outputs: int) -> None:
        """Labels must be integers in ``0 .. outputs - 1``, one per row."""
        check_labels(y, outputs)

    def compared(self, outputs, *, raw):
        """Mean probabilities, or outputs."""
        alpha = _alpha(outputs)
        return outputs if raw else alpha / jnp.sum(alpha, axis=-1, keepdims=True)

    def centres(self, outputs, y):
        """The output of the label."""
        return jnp.take_along_axis(outputs, y[:, None], axis=-1)


class EvidentialNormal(Likelihood):
    """Regression by a normal-inverse-gamma over mean and variance (Amini et al. 2020).

    Four outputs per target give ``γ, ν, α > 1, β``; the loss is minus the log-density of Student's
    t with ``2 α`` degrees, centre ``γ`` and squared scale ``β (1 + ν)/(ν α)``, plus ``weight``
    ``|y - γ| (2 ν + α)``. A prediction is a mixture of those Student distributions: aleatoric is
    ``β/(α - 1)``, epistemic ``β/(ν (α - 1))`` beside the members' disagreement. The split is what
    the loss rewards, not a posterior: only the product is determined by the data (Meinert et al.
    2023), so compare epistemic between inputs and do not read it as a variance.
    """

    weight: float = eqx.field(default=0.01, static=True)

    task: ClassVar[Literal["classification", "regression"]] = "regression"
    no_posterior: ClassVar[str | None] = _NO_POSTERIOR

    def __check_init__(self):
        _check_weight(self.weight)

    def num_outputs(self, targets: int) -> int:
        """Four per target."""
        return 4 * targets

    def num_targets(self, outputs: int) -> int:
        """A quarter of the outputs."""
        return outputs // 4

    def log_prob(self, outputs: Array, y: Float[Array, "batch *targets"]) -> Array:
        """Minus the loss of each row, summed over targets."""
        gamma, nu, alpha, _ = _evidence(outputs)
        y = jnp.reshape(y, gamma.shape)
        penalty = jnp.abs(y - gamma) * (2 * nu + alpha)
        return jnp.sum(_student(outputs).log_prob(y) - self.weight * penalty, axis=-1)

    def predict(self, outputs: Float[Array, "members batch *grid outputs"]) -> MixturePrediction:
        """Mixture of the members' Student distributions, with their own epistemic variance."""
        return MixturePrediction(_student(outputs))

    def check(self, y: np.ndarray, outputs: int) -> None:
        """Four outputs per target, all targets finite."""
        check_multiple(outputs, 4, "EvidentialNormal", "γ, ν, α, β")
        check_targets(y, outputs // 4)

    def compared(self, outputs, *, raw):
        """The centres, or all outputs."""
        return outputs if raw else _evidence(outputs)[0]

    def centres(self, outputs, y):
        """The centres."""
        return _evidence(outputs)[0]


def _alpha(outputs):
    return jax.nn.softplus(outputs) + 1


def _uniform_kl(alpha: Float[Array, "batch classes"]) -> Float[Array, " batch"]:
    """``KL(Dirichlet(α) || Dirichlet(1))``."""
    total, classes = jnp.sum(alpha, axis=-1), alpha.shape[-1]
    constant = gammaln(total) - gammaln(jnp.asarray(classes, alpha.dtype))
    slope = digamma(alpha) - digamma(total)[..., None]
    return constant - jnp.sum(gammaln(alpha), axis=-1) + jnp.sum((alpha - 1) * slope, axis=-1)


def _evidence(outputs):
    gamma, *raw = jnp.split(outputs, 4, axis=-1)
    nu, above, beta = (jax.nn.softplus(part) + FLOOR for part in raw)
    return gamma, nu, 1 + above, beta


def _student(outputs) -> StudentTDistribution:
    gamma, nu, alpha, beta = _evidence(outputs)
    scale = jnp.sqrt(beta * (1 + nu) / (nu * alpha))
    return StudentTDistribution(gamma, scale, 2 * alpha, beta / (nu * (alpha - 1)))


def _check_weight(weight: float) -> None:
    if not (math.isfinite(weight) and weight >= 0):
        raise InputError(f"weight is {weight}; give a number that is not negative")
