"""Variational families for design: of parameters given an outcome, and of outcomes."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key, PyTree

from credax.design.model import DesignModel
from credax.errors import InputError

_LOG_2PI = float(np.log(2 * np.pi))


class PosteriorGuide(eqx.Module):
    """Abstract: ``q(θ | y)``, an approximate posterior for every outcome of one design."""

    @abc.abstractmethod
    def log_prob(self, theta: PyTree, y: Array) -> Float[Array, ""]:
        """Log-density of one ``θ`` given one outcome."""

    @abc.abstractmethod
    def sample(self, key: Key[Array, ""], y: Array) -> PyTree:
        """One ``θ``, differentiable in the guide (reparametrised)."""


class MarginalGuide(eqx.Module):
    """Abstract: ``q(y)`` of one design."""

    @abc.abstractmethod
    def log_prob(self, y: Array) -> Float[Array, ""]:
        """Log-density of one outcome."""


class LikelihoodGuide(eqx.Module):
    """Abstract: ``q(y | θ)`` of one design, where the outcome model has no density of its own."""

    @abc.abstractmethod
    def log_prob(self, y: Array, theta: PyTree) -> Float[Array, ""]:
        """Log-density of one outcome given one ``θ``."""


class Family(eqx.Module):
    """Abstract: the part of a guide that is trained; features and examples beside it are not."""


class ConditionalGaussian(Family):
    """``N(A f + a, L Lᵀ)`` with ``L`` also linear in the features ``f`` (log on its diagonal)."""

    mean: Float[Array, "size features"]
    shift: Float[Array, " size"]
    scale: Float[Array, "entries features"]
    scale_shift: Float[Array, " entries"]

    def moments(self, f: Float[Array, " features"]) -> tuple[Array, Array]:
        """The mean and the triangular factor of the covariance."""
        size = len(self.shift)
        entries = self.scale @ f + self.scale_shift
        lower = jnp.zeros((size, size)).at[jnp.tril_indices(size)].set(entries)
        diagonal = jnp.exp(jnp.diag(lower))
        return self.mean @ f + self.shift, jnp.tril(lower, -1) + jnp.diag(diagonal)

    def log_prob(self, value: Float[Array, " size"], f: Float[Array, " features"]) -> Array:
        """Log-density of one vector."""
        mean, lower = self.moments(f)
        white = jax.scipy.linalg.solve_triangular(lower, value - mean, lower=True)
        return -0.5 * (white @ white + len(mean) * _LOG_2PI) - jnp.log(jnp.diag(lower)).sum()

    def sample(self, key, f: Float[Array, " features"]) -> Float[Array, " size"]:
        """One vector."""
        mean, lower = self.moments(f)
        return mean + lower @ jax.random.normal(key, mean.shape)


def gaussian(
    values: Float[Array, "draws size"], features: Float[Array, "draws features"]
) -> ConditionalGaussian:
    """A Gaussian that does not look at the features yet, with the moments of some draws."""
    size = values.shape[1]
    std = jnp.maximum(jnp.std(values, axis=0), 1e-6)
    lower = jnp.diag(jnp.log(std))[jnp.tril_indices(size)]
    return ConditionalGaussian(
        jnp.zeros((size, features.shape[1])),
        jnp.mean(values, axis=0),
        jnp.zeros((len(lower), features.shape[1])),
        lower,
    )


class Logits(Family):
    """Log-probabilities of listed outcomes, linear in some features."""

    weights: Float[Array, "outcomes features"]
    shift: Float[Array, " outcomes"]

    def log_prob(self, which: Array, f: Float[Array, " features"]) -> Array:
        """That of the outcome whose entry of ``which`` is true."""
        return jnp.sum(jnp.where(which, jax.nn.log_softmax(self.weights @ f + self.shift), 0.0))


class Features(eqx.Module):
    """What a guide sees of an outcome: one-hot where outcomes are listed, else its units."""

    outcomes: Array | None
    mean: Float[Array, " size"]
    std: Float[Array, " size"]

    def __call__(self, y: Array) -> Float[Array, " features"]:
        """Features of one outcome; numbers also with their squares."""
        if self.outcomes is not None:
            return _same(self.outcomes, y).astype(self.mean.dtype)
        units = (jnp.ravel(y) - self.mean) / self.std
        return jnp.concatenate([units, jnp.square(units)])


class GaussianPosterior(PosteriorGuide):
    """``q(θ | y)`` Gaussian: one for each listed outcome, else linear in ``y`` and ``y²``."""

    features: Features
    family: ConditionalGaussian
    example: PyTree
    """Any ``θ``, for its shapes."""

    def log_prob(self, theta, y):
        """Log-density of one ``θ``."""
        return self.family.log_prob(ravel_pytree(theta)[0], self.features(y))

    def sample(self, key, y):
        """One ``θ``."""
        return ravel_pytree(self.example)[1](self.family.sample(key, self.features(y)))


class GaussianMarginal(MarginalGuide):
    """``q(y)`` Gaussian."""

    family: ConditionalGaussian

    def log_prob(self, y):
        """Log-density of one outcome."""
        return self.family.log_prob(jnp.ravel(y), jnp.zeros(0))


class CategoricalMarginal(MarginalGuide):
    """``q(y)`` of listed outcomes, by one logit each."""

    outcomes: Array
    family: Logits

    def log_prob(self, y):
        """Log-probability of one outcome."""
        return self.family.log_prob(_same(self.outcomes, y), jnp.zeros(0))


class GaussianLikelihood(LikelihoodGuide):
    """``q(y | θ)`` Gaussian with moments linear in ``θ`` and ``θ²``."""

    features: Features
    family: ConditionalGaussian

    def log_prob(self, y, theta):
        """Log-density of one outcome."""
        return self.family.log_prob(jnp.ravel(y), self.features(ravel_pytree(theta)[0]))


class CategoricalLikelihood(LikelihoodGuide):
    """``q(y | θ)`` of listed outcomes by logits linear in ``θ`` and ``θ²``."""

    outcomes: Array
    features: Features
    family: Logits

    def log_prob(self, y, theta):
        """Log-probability of one outcome."""
        return self.family.log_prob(_same(self.outcomes, y), self.features(ravel_pytree(theta)[0]))


def posterior_guide(model: DesignModel, theta: PyTree, y: Array) -> GaussianPosterior:
    """A Gaussian ``q(θ | y)`` to be trained, from joint draws on a leading axis."""
    values = jax.vmap(lambda t: ravel_pytree(t)[0])(theta)
    features = features_of(y, model.outcomes)
    family = gaussian(values, jax.vmap(features)(y))
    return GaussianPosterior(features, family, jax.tree.map(lambda leaf: leaf[0], theta))


def marginal_guide(model: DesignModel, theta: PyTree, y: Array) -> MarginalGuide:
    """``q(y)`` to be trained: logits of listed outcomes, else a Gaussian."""
    if model.finite:
        outcomes = jnp.asarray(model.outcomes)
        return CategoricalMarginal(outcomes, _logits(len(outcomes), 0))
    return GaussianMarginal(gaussian(y.reshape(len(y), -1), jnp.zeros((len(y), 0))))


def likelihood_guide(model: DesignModel, theta: PyTree, y: Array) -> LikelihoodGuide:
    """``q(y | θ)`` to be trained."""
    values = jax.vmap(lambda t: ravel_pytree(t)[0])(theta)
    features = features_of(values)
    if model.finite:
        outcomes = jnp.asarray(model.outcomes)
        return CategoricalLikelihood(
            outcomes, features, _logits(len(outcomes), 2 * values.shape[1])
        )
    return GaussianLikelihood(features, gaussian(y.reshape(len(y), -1), jax.vmap(features)(values)))


def _logits(outcomes: int, features: int) -> Logits:
    return Logits(jnp.zeros((outcomes, features)), jnp.zeros(outcomes))


def _same(outcomes: Array, y: Array) -> Array:
    return (outcomes == y).reshape(len(outcomes), -1).all(axis=1)


def features_of(y: Array, outcomes: Any = None) -> Features:
    """Features in the units of some values on a leading axis; one-hot where they are listed."""
    values = y.reshape(len(y), -1).astype(jnp.result_type(float))
    listed = None if outcomes is None else jnp.asarray(outcomes)
    return Features(listed, values.mean(axis=0), jnp.maximum(values.std(axis=0), 1e-6))


@dataclass(frozen=True)
class GuideTraining:
    """How guides are trained: Adam with a rate that decays exponentially."""

    steps: int = 1000
    batch: int = 256
    learning_rate: float = 0.05
    final_rate: float = 0.0005

    def __post_init__(self):
        if self.steps < 1 or self.batch < 1:
            raise InputError(f"steps is {self.steps} and batch is {self.batch}; use at least 1")

    def optimiser(self) -> optax.GradientTransformation:
        """The optimiser."""
        ratio = self.final_rate / self.learning_rate
        return optax.adam(optax.exponential_decay(self.learning_rate, self.steps, ratio))


def train_guide(loss: Callable, guide: Any, key: Key[Array, ""], training: GuideTraining) -> Any:
    """Minimise ``loss(guide, key)`` over the guide's families; its features stay."""
    optimiser = training.optimiser()
    trained, fixed = eqx.partition(guide, trained_leaves(guide))

    def step(carry, key):
        trained, state = carry
        gradient = jax.grad(lambda t: loss(eqx.combine(t, fixed), key))(trained)
        updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(trained, updates), state), None

    first = (trained, optimiser.init(trained))
    (trained, _), _ = jax.lax.scan(step, first, jax.random.split(key, training.steps))
    return eqx.combine(trained, fixed)


def trained_leaves(guide: Any) -> Any:
    """A pytree of booleans: what is in a family is trained, features and examples are not."""
    family = lambda part: isinstance(part, Family)  # noqa: E731

    def mark(part):
        return jax.tree.map(lambda _: True, part) if family(part) else False

    return jax.tree.map(mark, guide, is_leaf=family)
