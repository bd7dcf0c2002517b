"""What a population predicts for new inputs: a mixture, members on axis 0."""

import warnings
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.scipy.special import digamma, ndtr, ndtri, xlogy
from jaxtyping import Array, Float, Int, Key

from credax.errors import InputError
from credax.mixing import (
    Weights,
    as_weights,
    log_member_mean,
    member_mean,
    member_variance,
    pick_members,
)
from credax.regression_prediction import Density as Density
from credax.regression_prediction import RegressionPrediction as RegressionPrediction
from credax.regression_prediction import squeeze

_LOG_2PI = float(np.log(2 * np.pi))
BISECTIONS = 60


class NonFinitePrediction(UserWarning):
    """A prediction holds NaN or infinity."""


class ClassPrediction(eqx.Module):
    """Mixture of categorical predictions; ``log_probs`` is ``[members, batch, classes]``.

    On a grid it is ``[members, batch, height, width, classes]``, and every property below has the
    axes of the grid after ``batch``.

    ``probs`` is the mean of the members' probabilities (never of their logits).
    Uncertainty is entropy in nats: total ``H[mean p]`` = aleatoric ``mean H[p]`` + epistemic
    (the mutual information between the label and the choice of member). With ``strength`` every
    member is a Dirichlet distribution over probabilities, ``Dirichlet(strength p)``: aleatoric is
    then the mean entropy under it, and epistemic counts its width too.

    >>> p = ClassPrediction.from_probs(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]))
    >>> float(p.total[0]), float(p.aleatoric[0])
    (0.6931471824645996, 0.0)
    """

    log_probs: Float[Array, "members batch *grid classes"]
    strength: Float[Array, "members batch *grid 1"] | None = None
    """Sum of a Dirichlet's parameters (`credax.EvidentialDirichlet`); None: members are certain."""
    weights: Weights = eqx.field(default=None, static=True, kw_only=True)
    """Weights of the members, ``[members]``, made to sum to one; None: all alike."""

    def __post_init__(self):
        if self.weights is not None:
            self.weights = as_weights(self.weights, self.num_members)

    @classmethod
    def from_probs(cls, probs, weights: Any = None) -> "ClassPrediction":
        """From the members' probabilities; zeros are allowed."""
        probs = jnp.asarray(probs)
        if probs.ndim < 3:
            raise InputError(
                f"probs has shape {probs.shape}; a prediction is [members, batch, classes], with "
                "the axes of a grid before the classes: "
                "give one member a leading axis of length one"
            )
        return cls(jnp.log(probs), weights=weights)

    @classmethod
    def from_logits(cls, logits, weights: Any = None) -> "ClassPrediction":
        """From the members' unnormalised log-probabilities."""
        return cls(jax.nn.log_softmax(jnp.asarray(logits), axis=-1), weights=weights)

    @property
    def members(self) -> "Float[Array, 'members batch *grid classes']":
        """The members' own probabilities."""
        return jnp.exp(self.log_probs)

    @property
    def num_members(self) -> int:
        """How many members were mixed."""
        return self.log_probs.shape[0]

    @property
    def log_mean(self) -> Float[Array, "batch *grid classes"]:
        """Log of the mixture's probabilities, exact for members that are nearly certain."""
        return log_member_mean(self.log_probs, self.weights)

    @property
    def probs(self) -> Float[Array, "batch *grid classes"]:
        """The mixture's probabilities."""
        return member_mean(self.members, self.weights)

    @property
    def mean(self) -> Float[Array, "batch *grid classes"]:
        """The mean of a one-hot label: the same as `probs`."""
        return self.probs

    @property
    def var(self) -> Float[Array, "batch *grid classes"]:
        """Variance of each one-hot entry, ``p (1 - p)``."""
        return self.probs * (1 - self.probs)

    @property
    def std(self) -> Float[Array, "batch *grid classes"]:
        """Square root of `var`."""
        return jnp.sqrt(self.var)

    @property
    def label(self) -> Int[Array, "batch *grid"]:
        """The most probable class; ties go to the lowest index."""
        return jnp.argmax(self.probs, axis=-1)

    @property
    def confidence(self) -> Float[Array, "batch *grid"]:
        """Probability of the most probable class."""
        return jnp.max(self.probs, axis=-1)

    def log_prob(self, y: Array) -> Float[Array, "batch *grid"]:
        """Log-probability of the labels ``y`` under the mixture."""
        y = jnp.asarray(y)
        if y.shape != self.log_probs.shape[1:-1] or not jnp.issubdtype(y.dtype, jnp.integer):
            grid = self.log_probs.shape[2:-1]
            raise InputError(
                f"y has shape {y.shape} and type {y.dtype}; a prediction of "
                f"{self.log_probs.shape[1]} rows needs that many integer labels"
                + (f", of {grid} pixels each" if grid else "")
            )
        picked = jnp.take_along_axis(self.log_probs, y[None, ..., None], axis=-1)[..., 0]
        return log_member_mean(picked, self.weights)

    @property
    def total(self) -> Float[Array, "batch *grid"]:
        """Entropy of the mixture, in nats."""
        return _entropy(self.probs)

    @property
    def aleatoric(self) -> Float[Array, "batch *grid"]:
        """Mean entropy of the members: the part that more members or data would not remove."""
        if self.strength is None:
            return jnp.minimum(member_mean(_entropy(self.members), self.weights), self.total)
        each = dirichlet_entropy(self.members, self.strength)
        return jnp.minimum(member_mean(each, self.weights), self.total)

    @property
    def epistemic(self) -> Float[Array, "batch *grid"]:
        """Mutual information of label and member, ``total - aleatoric``; zero if all agree."""
        return jnp.maximum(self.total - self.aleatoric, 0.0)

    def sample(self, key: Key[Array, ""], n: int = 1) -> Int[Array, "n batch *grid"]:
        """Labels drawn from the mixture."""
        return jax.random.categorical(key, self.log_mean, shape=(n, *self.log_probs.shape[1:-1]))

    def quantile(self, level: float):
        """Classes have no order: always an error that says what to use instead."""
        raise InputError(
            "quantile is for regression and this is a prediction of classes; "
            "use probs, or a prediction set from credax.calibration"
        )

    def interval(self, level: float = 0.9):
        """Classes have no order: always an error that says what to use instead."""
        return self.quantile(level)

    def summary(self) -> dict[str, Array]:
        """What a server answers, as plain arrays."""
        return {
            "probs": self.probs,
            "label": self.label,
            "confidence": self.confidence,
            "total": self.total,
            "aleatoric": self.aleatoric,
            "epistemic": self.epistemic,
            "members": self.members,
        }

    def select(self, rows) -> "ClassPrediction":
        """The same prediction for some rows only."""
        return jax.tree.map(lambda leaf: leaf[:, rows], self)


class GaussianPrediction(RegressionPrediction):
    """Mixture of Gaussians; ``means`` and ``variances`` are ``[members, batch, targets]``.

    ``log_prob`` sums over targets and is the exact mixture density.

    >>> p = GaussianPrediction(np.array([[[1.0]], [[3.0]]]), np.array([[[0.5]], [[1.5]]]))
    >>> float(p.mean[0]), float(p.var[0]), round(float(-p.log_prob(np.array([2.0]))[0]), 6)
    (2.0, 2.0, 1.511964)
    """

    means: Float[Array, "..."]  # pyright: ignore[reportIncompatibleMethodOverride]
    variances: Float[Array, "..."]  # pyright: ignore[reportIncompatibleMethodOverride]
    """Another shape is refused by `credax.metrics`, which says what is expected."""
    function_variances: Float[Array, "..."] | None = None
    """The part of ``variances`` that is of the function itself and not noise, where a member is a
    whole posterior in closed form (Gaussian processes); it is epistemic."""

    @property
    def density(self) -> Density:
        """A density of real numbers."""
        return "continuous"

    @property
    def own_epistemic(self) -> Float[Array, "members batch *grid targets"] | None:
        """The variances of the functions, where they are told from noise."""
        return self.function_variances

    def in_units(self, shift: Array, scale: Array) -> "GaussianPrediction":
        """The prediction of ``shift + scale y``."""
        square, own = jnp.square(scale), self.function_variances
        return GaussianPrediction(
            self.means * scale + shift,
            self.variances * square,
            None if own is None else own * square,
            weights=self.weights,
        )

    def member_log_prob(self, y: Array) -> Float[Array, "..."]:
        """Log-density of every target under every member."""
        return _log_normal(y, self.means, self.variances)

    def log_prob(self, y: Float[Array, "batch ..."], *, moment_matched: bool = False):
        """Log-density of ``y``: of the mixture, or of one Gaussian with its mean and variance."""
        y = self._targets(y)
        if moment_matched:
            mean, var = member_mean(self.means, self.weights), self._moment_variance()
            return jnp.sum(_log_normal(y, mean, var), axis=-1)
        each = jnp.sum(self.member_log_prob(y), axis=-1)
        return log_member_mean(each, self.weights)

    def cdf(self, y: Float[Array, "batch ..."]) -> Float[Array, "batch ..."]:
        """Distribution function of the mixture, target by target."""
        z = (self._targets(y) - self.means) / jnp.sqrt(self.variances)
        return squeeze(member_mean(ndtr(z), self.weights))

    def quantile(self, level: float) -> Float[Array, "batch *targets"]:
        """Quantile of the mixture by bisection, exact to rounding (levels in (0, 1))."""
        if not 0.0 < level < 1.0:
            raise InputError(f"level is {level}; a quantile level lies strictly between 0 and 1")
        return squeeze(_mixture_quantile(self.means, self.variances, level, self.weights))

    def sample(self, key: Key[Array, ""], n: int = 1) -> Float[Array, "n batch *targets"]:
        """Targets drawn from the mixture; rows choose their member independently."""
        which, noise = jax.random.split(key)
        means, variances = jnp.asarray(self.means), jnp.asarray(self.variances)
        members, *batch, targets = means.shape
        places = jnp.meshgrid(*map(jnp.arange, batch), indexing="ij")
        pick = (pick_members(which, (n, *batch), members, self.weights), *places)
        normal = jax.random.normal(noise, (n, *batch, targets), means.dtype)
        return squeeze(means[pick] + jnp.sqrt(variances[pick]) * normal)

    def _moment_variance(self) -> Array:
        between = member_variance(self.means, self.weights)
        return member_mean(self.variances, self.weights) + between


Prediction = ClassPrediction | RegressionPrediction


def concatenate(predictions: "list[Any]") -> Any:
    """Predictions of the same members for consecutive rows, as one prediction.

    A member whose outputs overflowed is named in a `NonFinitePrediction` warning.
    """
    whole = jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), *predictions)
    if not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(whole)):
        _warn_of_numbers(whole)
    return whole


def _warn_of_numbers(prediction: Any) -> None:
    if isinstance(prediction, ClassPrediction):
        # A probability of zero is minus infinity here, and as it should be.
        found = [jnp.isnan(prediction.log_probs)]
    else:
        # The mixture's variance has the squares of the means.
        numbers = (jnp.square(prediction.means), prediction.variances)
        found = [~jnp.isfinite(each) for each in numbers]
    bad = np.any([np.asarray(part).any(axis=tuple(range(2, part.ndim))) for part in found], axis=0)
    members, rows = np.nonzero(bad)
    if len(members):
        warnings.warn(
            f"the prediction holds NaN or infinity in {len({*rows.tolist()})} of {bad.shape[1]} "
            f"rows, first by the member at position {members[0]} in row {rows[0]}: its outputs "
            "overflow; leave that member out, or scale the inputs",
            NonFinitePrediction,
            stacklevel=3,
        )


def dirichlet_entropy(probs: Array, strength: Array) -> Array:
    """``E H[p]`` under ``Dirichlet(S p̄)``: ``Σ p̄ (ψ(S + 1) - ψ(S p̄ + 1))``, in nats."""
    return jnp.sum(probs * (digamma(strength + 1) - digamma(strength * probs + 1)), axis=-1)


def _entropy(probs: Array) -> Array:
    return -jnp.sum(xlogy(probs, probs), axis=-1)


def _log_normal(y, mean, var):
    return -0.5 * (_LOG_2PI + jnp.log(var) + jnp.square(y - mean) / var)


@partial(jax.jit, static_argnums=(2, 3))
def _mixture_quantile(means, variances, level, weights):
    # The mixture's quantile lies between the least and the greatest of its members' quantiles.
    each = means + jnp.sqrt(variances) * ndtri(jnp.asarray(level, means.dtype))
    bounds = jnp.min(each, axis=0), jnp.max(each, axis=0)

    def halve(_, bounds):
        low, high = bounds
        middle = 0.5 * (low + high)
        below = member_mean(ndtr((middle - means) / jnp.sqrt(variances)), weights) < level
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.fori_loop(0, BISECTIONS, halve, bounds)
    return 0.5 * (low + high)
