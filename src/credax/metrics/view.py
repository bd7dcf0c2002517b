"""Quantities that the metrics of one batch share, each computed once per program."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr, xlogy
from jaxtyping import Array, Bool, Float, Int, Integer

from credax.errors import InputError
from credax.mixing import log_member_mean, member_mean, member_variance, spread
from credax.prediction import (
    ClassPrediction,
    GaussianPrediction,
    RegressionPrediction,
    dirichlet_entropy,
)

_SMALL = 2**16


class Pair(NamedTuple):
    """What is scored when it is no `Prediction`: scores, sets or intervals, and the truth."""

    given: Any
    y: Any


class _Members(NamedTuple):
    probs: Array
    expected_entropy: Array
    squares: Array
    row_sums: Array


@dataclass
class ClassView:
    """A class prediction and its labels (None where no label is needed), row by row.

    Of large predictions the members are visited one after another in a scan: on a CPU a fused mean
    over the leading axis takes ten times longer. Small ones compile faster without it.
    """

    prediction: ClassPrediction
    labels: Any

    @cached_property
    def log_probs(self) -> Float[Array, "members batch classes"]:
        """The members' log-probabilities."""
        return jnp.asarray(self.prediction.log_probs)

    @cached_property
    def y(self) -> Integer[Array, " batch"]:
        """The labels; asking for them where none were given is an error."""
        if self.labels is None:
            raise InputError("y is None; this metric compares the prediction with labels: give y")
        return jnp.asarray(self.labels)

    @cached_property
    def _members(self) -> _Members:
        log_p, weights = self.log_probs, self.prediction.weights
        members, batch, classes = log_p.shape
        ones = jnp.ones(classes, log_p.dtype)

        def of(log_p):
            p = jnp.exp(log_p)
            return p, -jnp.where(p > 0, p * log_p, 0) @ ones, jnp.square(p) @ ones, p @ ones

        if log_p.size <= _SMALL:
            *each, row_sums = of(log_p)
            probs, entropy, squares = (member_mean(e, weights) for e in each)
            return _Members(probs, entropy, squares, row_sums)

        def visit(sums, member):
            log_p, weight = member
            *each, row_sum = of(log_p)
            each = each if weight is None else [weight * e for e in each]
            return tuple(s + e for s, e in zip(sums, each, strict=True)), row_sum

        flat = jnp.zeros(batch, log_p.dtype)
        start = jnp.zeros((batch, classes), log_p.dtype), flat, flat
        each = None if weights is None else jnp.asarray(weights, log_p.dtype)
        sums, row_sums = jax.lax.scan(visit, start, (log_p, each))
        probs, entropy, squares = (s / members for s in sums) if weights is None else sums
        return _Members(probs, entropy, squares, row_sums)

    @property
    def probs(self) -> Float[Array, "batch classes"]:
        """Probabilities of the mixture."""
        return self._members.probs

    @property
    def row_sums(self) -> Float[Array, "members batch"]:
        """What each member's probabilities of a row sum to."""
        return self._members.row_sums

    @property
    def squares(self) -> Float[Array, " batch"]:
        """``mean_m Σ_k p_mk²``."""
        return self._members.squares

    @cached_property
    def label(self) -> Int[Array, " batch"]:
        """The most probable class; ties go to the lowest."""
        return jnp.argmax(self.probs, axis=-1)

    @cached_property
    def confidence(self) -> Float[Array, " batch"]:
        """Probability of the most probable class."""
        return jnp.max(self.probs, axis=-1)

    @cached_property
    def correct(self) -> Bool[Array, " batch"]:
        """Whether the most probable class is the label."""
        return self.label == self.y

    @cached_property
    def true_prob(self) -> Float[Array, " batch"]:
        """Probability of the label under the mixture."""
        return jnp.take_along_axis(self.probs, self.y[:, None], axis=-1)[:, 0]

    @cached_property
    def member_log_prob(self) -> Float[Array, "members batch"]:
        """Log-probability of the label under each member."""
        return jnp.take_along_axis(self.log_probs, self.y[None, :, None], axis=-1)[..., 0]

    @cached_property
    def log_prob(self) -> Float[Array, " batch"]:
        """Log-probability of the label under the mixture."""
        return log_member_mean(self.member_log_prob, self.prediction.weights)

    @cached_property
    def entropy(self) -> Float[Array, " batch"]:
        """Entropy of the mixture, nats."""
        return -jnp.sum(xlogy(self.probs, self.probs), axis=-1)

    @cached_property
    def expected_entropy(self) -> Float[Array, " batch"]:
        """Mean entropy of the members, nats; rounding may not lift it above the mixture's."""
        strength = self.prediction.strength
        if strength is None:
            return jnp.minimum(self._members.expected_entropy, self.entropy)
        each = dirichlet_entropy(jnp.exp(self.log_probs), jnp.asarray(strength))
        return jnp.minimum(member_mean(each, self.prediction.weights), self.entropy)

    @property
    def information(self) -> Float[Array, " batch"]:
        """Mutual information of label and member, nats."""
        return self.entropy - self.expected_entropy

    @cached_property
    def votes(self) -> Float[Array, "batch classes"]:
        """How many members find each class the most probable; by weight they count as ``M w``."""
        members, batch, classes = self.log_probs.shape
        weights = self.prediction.weights

        def chosen(log_p):
            return jnp.argmax(log_p, axis=-1)[..., None] == jnp.arange(classes)

        if weights is not None:
            counts = members * spread(weights, self.log_probs)
            return jnp.sum(counts * chosen(self.log_probs), axis=0)
        if self.log_probs.size <= _SMALL:
            return jnp.sum(chosen(self.log_probs), axis=0, dtype=self.log_probs.dtype)

        def count(votes, log_p):
            return votes + chosen(log_p), None

        start = jnp.zeros((batch, classes), self.log_probs.dtype)
        return jax.lax.scan(count, start, self.log_probs)[0]


@dataclass
class RegressionView:
    """A prediction of numbers and its targets, all ``[batch, targets]``."""

    prediction: RegressionPrediction
    targets: Any

    @cached_property
    def means(self) -> Float[Array, "members batch targets"]:
        """The members' means."""
        return jnp.asarray(self.prediction.means)

    @cached_property
    def variances(self) -> Float[Array, "members batch targets"]:
        """The members' variances."""
        return jnp.asarray(self.prediction.variances)

    @cached_property
    def y(self) -> Float[Array, "batch targets"]:
        """The targets, with their axis even where there is one."""
        shape = self.means.shape[1:]
        y = jnp.asarray(self.targets, self.means.dtype)
        if y.shape != shape and (*y.shape, 1) != shape:
            raise InputError(f"y has shape {y.shape}; this prediction needs {shape}")
        return y.reshape(shape)

    @cached_property
    def mean(self) -> Float[Array, "batch targets"]:
        """Mean of the mixture."""
        return member_mean(self.means, self.prediction.weights)

    @cached_property
    def aleatoric(self) -> Float[Array, "batch targets"]:
        """Mean of the members' variances, without their own epistemic part."""
        own = self.prediction.own_epistemic
        noise = self.variances if own is None else self.variances - own
        return member_mean(noise, self.prediction.weights)

    @cached_property
    def epistemic(self) -> Float[Array, "batch targets"]:
        """Variance of the members' means, plus the epistemic part of their own variances."""
        own, weights = self.prediction.own_epistemic, self.prediction.weights
        between = member_variance(self.means, weights)
        return between if own is None else between + member_mean(own, weights)

    @property
    def variance(self) -> Float[Array, "batch targets"]:
        """Variance of the mixture."""
        return self.aleatoric + self.epistemic

    @property
    def error(self) -> Float[Array, "batch targets"]:
        """Target minus mean."""
        return self.y - self.mean

    @property
    def is_gaussian(self) -> bool:
        """Whether it is a mixture of Gaussians, of which more is known in closed form."""
        return isinstance(self.prediction, GaussianPrediction)

    @cached_property
    def log_densities(self) -> Float[Array, "members batch targets"]:
        """Log-density of every target under every member."""
        if not self.is_gaussian:
            return self.prediction.member_log_prob(self.y)
        return -0.5 * (
            jnp.log(2 * jnp.pi * self.variances) + jnp.square(self.y - self.means) / self.variances
        )

    @cached_property
    def pit(self) -> Float[Array, "batch targets"]:
        """The mixture's distribution function at the target."""
        if not self.is_gaussian:
            return self.prediction.cdf(self.y).reshape(self.y.shape)
        each = ndtr((self.y - self.means) / jnp.sqrt(self.variances))
        return member_mean(each, self.prediction.weights)

    @cached_property
    def _quantiles(self) -> dict[float, Array]:
        return {}

    def quantile(self, level: float) -> Float[Array, "batch targets"]:
        """Quantile of the mixture, searched for once per level."""
        if level not in self._quantiles:
            found = self.prediction.quantile(level).reshape(self.means.shape[1:])
            self._quantiles[level] = found
        return self._quantiles[level]


def view_of(prediction: Any, y: Any) -> Any:
    """The view of a prediction and its truth; anything else than a `Prediction` is a `Pair`."""
    if isinstance(prediction, ClassPrediction):
        return ClassView(prediction, y)
    if isinstance(prediction, RegressionPrediction):
        return RegressionView(prediction, y)
    return Pair(jax.tree.map(jnp.asarray, prediction), jnp.asarray(y))


def entry_weights(prediction: Any, y: Any, mask: Any, weight: Any) -> Float[Array, " ..."]:
    """Weights of the entries that are scored; 0 where ``mask`` is False.

    The shape is ``[batch]``, and ``[batch, targets]`` for regression, where a mask or weight of
    shape ``[batch]`` holds for all targets of a row.
    """
    shape, dtype = _entries(prediction, y)
    out = jnp.ones(shape, dtype)
    for name, given in (("mask", mask), ("weight", weight)):
        if given is None:
            continue
        given = jnp.asarray(given)
        if name == "mask" and given.dtype != bool:
            raise InputError(
                f"mask has type {given.dtype}; give booleans that are True where a row counts, "
                "or pass numbers as weight"
            )
        if given.shape != shape and given.shape != shape[:1]:
            raise InputError(f"{name} has shape {given.shape}; this prediction needs {shape}")
        out = out * given.astype(dtype).reshape(given.shape + (1,) * (len(shape) - given.ndim))
    return out


def weighted_view(prediction: Any, y: Any, mask: Any, weight: Any) -> tuple[Any, Any]:
    """The view that metrics read, and the weights of its entries."""
    weight = entry_weights(prediction, y, mask, weight)
    if y is not None:
        # What a dropped row says about the truth may be anything: a label to ignore, or NaN.
        y = jnp.asarray(y)
        if y.size != weight.size:
            raise InputError(f"y has shape {y.shape}; this prediction needs {weight.shape}")
        y = jnp.where(weight.reshape(y.shape) > 0, y, jnp.zeros_like(y))
    return view_of(prediction, y), weight


def _entries(prediction: Any, y: Any) -> tuple[tuple[int, ...], Any]:
    if isinstance(prediction, ClassPrediction):
        return prediction.log_probs.shape[1:2], prediction.log_probs.dtype
    if isinstance(prediction, RegressionPrediction):
        return prediction.means.shape[1:], prediction.means.dtype
    return jnp.shape(y), jnp.result_type(float)
