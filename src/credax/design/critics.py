"""Lower bounds by a critic: a learned function of parameters and outcomes, without densities."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PyTree

from credax.design.contrastive import draw_prior
from credax.design.guides import Family, Features, features_of
from credax.design.information import Information, warn_of_ceiling
from credax.design.model import DesignModel
from credax.design.variational import BLOCK, Trained, estimate_terms, fixed
from credax.errors import InputError

HIDDEN, EMBEDDING = 64, 16


class Encoder(Family):
    """A network of two hidden layers of softplus units."""

    weights: tuple[Array, ...]
    shifts: tuple[Array, ...]

    def __call__(self, value: Float[Array, " inputs"]) -> Float[Array, " embedding"]:
        """The embedding of one vector."""
        *hidden, last = zip(self.weights, self.shifts, strict=True)
        for weight, shift in hidden:
            value = jax.nn.softplus(weight @ value + shift)
        return last[0] @ value + last[1]


class Critic(Family):
    """``T(θ, y) = f(θ) · g(y)``: large where ``y`` is likely for ``θ``.

    Separable, so that all pairs of a batch cost one product of matrices. The best critic is
    ``log p(y | θ) - log p(y)``.
    """

    parameters: Encoder
    outcomes: Encoder

    def pairs(self, theta: Array, y: Array) -> Float[Array, "parameters outcomes"]:
        """The critic of all pairs, from features on leading axes."""
        return jax.vmap(self.parameters)(theta) @ jax.vmap(self.outcomes)(y).T


class FeaturedCritic(eqx.Module):
    """A critic of raw parameters and outcomes, in units that are not trained."""

    critic: Critic
    of_theta: Features
    of_y: Features

    def pairs(self, theta: PyTree, y: Array) -> Float[Array, "parameters outcomes"]:
        """The critic of all pairs of draws on leading axes."""
        flat = jax.vmap(lambda t: ravel_pytree(t)[0])(theta)
        return self.critic.pairs(jax.vmap(self.of_theta)(flat), jax.vmap(self.of_y)(y))


def info_nce(model: DesignModel, designs: Any, *, inner: int = 1000, **options: Any) -> Information:
    """Lower bound ``E[T(θ_0, y) - log 1/(L+1) Σ_{l=0..L} exp T(θ_l, y)]``, at most ``log(L+1)``.

    A critic ``T`` is trained for every design by the same bound within a batch, so that no density
    of outcomes is needed. References: van den Oord et al., Representation learning with contrastive
    predictive coding, 2018; for design: Foster et al. 2020, Kleinegesse and Gutmann 2021.

    Args:
        model: prior and outcomes.
        designs: ``[designs, ...]``.
        inner: contrastive draws ``L``.
        **options: ``training`` (`GuideTraining`), ``outer``, ``key`` as for `vnmc`; ``guides``,
            critics with ``pairs(theta, y)``.
    """
    if inner < 1:
        raise InputError(f"inner is {inner}; use at least 1 contrastive draw")
    terms = fixed(_contrastive_terms, inner=inner)
    lower, error = estimate_terms(
        model, designs, Trained(_start, _contrastive_loss), terms, **options
    )
    ceiling = math.log(inner + 1)
    warn_of_ceiling(lower, ceiling)
    return Information(lower, None, np.full_like(lower, np.inf), error, ceiling)


def donsker_varadhan(
    model: DesignModel, designs: Any, *, inner: int = 1000, **options: Any
) -> Information:
    """Lower bound ``E[T(θ, y)] - log E_{p(θ) p(y)}[exp T(θ, y)]`` (Donsker and Varadhan 1975).

    No density of outcomes is needed. The logarithm of a mean over draws is too small on average, by
    its variance over twice its square, so that the estimate is a bound up to that; ``inner``
    parameters for each of the ``outer`` outcomes keep it small. Options as for `info_nce`.
    """
    if inner < 1:
        raise InputError(f"inner is {inner}; use at least 1 draw for each outcome")
    terms = fixed(_product_terms, inner=inner)
    lower, error = estimate_terms(model, designs, Trained(_start, _product_loss), terms, **options)
    note = "the logarithm of a mean over draws makes the bound slightly too large on average"
    return Information(lower, None, np.full_like(lower, np.inf), error, notes=(note,))


def _start(model: DesignModel, theta: PyTree, y: Array, key: Any) -> FeaturedCritic:
    flat = jax.vmap(lambda t: ravel_pytree(t)[0])(theta)
    of_theta, of_y = features_of(flat), features_of(y, model.outcomes)
    sizes = (2 * flat.shape[1], jax.eval_shape(of_y, y[0]).shape[0])
    first, second = jax.random.split(key)
    critic = Critic(_encoder(sizes[0], first), _encoder(sizes[1], second))
    return FeaturedCritic(critic, of_theta, of_y)


def _encoder(inputs: int, key: Any) -> Encoder:
    widths = (inputs, HIDDEN, HIDDEN, EMBEDDING)
    keys = jax.random.split(key, len(widths) - 1)
    weights = tuple(
        jax.random.normal(k, (after, before)) / math.sqrt(before)
        for k, before, after in zip(keys, widths[:-1], widths[1:], strict=True)
    )
    return Encoder(weights, tuple(jnp.zeros(width) for width in widths[1:]))


def _contrastive_loss(critic: FeaturedCritic, theta: PyTree, y: Array) -> Array:
    pairs = critic.pairs(theta, y)
    return (logsumexp(pairs, axis=0) - jnp.diag(pairs)).mean() - jnp.log(len(pairs))


def _product_loss(critic: FeaturedCritic, theta: PyTree, y: Array) -> Array:
    pairs = critic.pairs(theta, y)
    count = len(pairs)
    others = jnp.where(jnp.eye(count, dtype=bool), -jnp.inf, pairs)
    return logsumexp(others) - jnp.log(count * (count - 1)) - jnp.diag(pairs).mean()


def _blocks(critic, theta, y, key, model, inner: int):
    """Of every block: the critic of each draw with its outcome, and of others with that outcome."""
    size = max(size for size in range(1, BLOCK + 1) if len(y) % size == 0)
    split = lambda leaf: leaf.reshape(len(y) // size, size, *leaf.shape[1:])  # noqa: E731
    keys = jax.random.split(key, len(y) // size)

    def one(block):
        theta, y, key = block
        others = critic.pairs(draw_prior(model, key, inner), y)
        return jnp.diag(critic.pairs(theta, y)), logsumexp(others, axis=0)

    own, others = jax.lax.map(one, (jax.tree.map(split, theta), split(y), keys))
    return own.ravel(), others.ravel()


def _contrastive_terms(model, critic, theta, y, xi, key, *, inner: int):
    own, others = _blocks(critic, theta, y, key, model, inner)
    return own - jnp.logaddexp(own, others) + jnp.log(inner + 1)


def _product_terms(model, critic, theta, y, xi, key, *, inner: int):
    own, others = _blocks(critic, theta, y, key, model, inner)
    each = others - jnp.log(inner)
    whole = logsumexp(each) - jnp.log(len(each))
    # The mean of these is the bound; their spread is its error to first order.
    return own - whole - (jnp.exp(each - whole) - 1)
