"""Both sides from the same draws: prior contrastive estimation below, nested Monte Carlo above."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Key

from credax.design.information import Information, prior_on_nodes, warn_of_ceiling
from credax.design.model import DesignModel, check_designs, check_model
from credax.errors import InputError
from credax.keys import as_key

REPLICATES = 32
"""At least so many independent replicates, for standard errors, where there are enough draws."""
MOST = 256
"""Outer draws that share their contrastive draws at most."""


def nested(
    model: DesignModel,
    designs: Any,
    *,
    key: Any = 0,
    outer: int = 10_000,
    inner: int = 1000,
    chunk: int = 2000,
) -> Information:
    """The expected information gain of each design between a lower and an upper bound.

    With ``θ_0`` and contrastive ``θ_1..L`` from the prior and ``y`` from ``θ_0``:

    - lower (prior contrastive estimation): ``E log p(y|θ_0) - log 1/(L+1) Σ_{l=0..L} p(y|θ_l)``,
      at most ``log(L + 1)``;
    - upper (nested Monte Carlo): the same without ``l = 0``; its bias falls as ``1/L``.

    Outcomes that can be listed are summed over instead of drawn. Outer draws run in blocks, each
    with contrastive draws of its own; standard errors are those of independent blocks. All designs
    see the same draws, so that curves over designs are smooth. Cost ``outer * inner`` densities per
    design; contrastive draws are summed in chunks, so that memory is ``256 * chunk`` numbers, and
    ``chunk`` changes no number but by rounding.

    References: Rainforth et al. 2018 (nested Monte Carlo); Foster et al., A unified stochastic
    gradient approach to designing Bayesian-optimal experiments, AISTATS 2020.
    """
    array = check_designs(model, designs)
    if outer < 2 or inner < 1 or chunk < 1:
        raise InputError(
            f"outer is {outer}, inner is {inner} and chunk is {chunk}; use at least 2, 1 and 1"
        )
    check_model(model, array[0])
    blocks, size = _blocks(outer)
    lower, upper = _bounds(model, jnp.asarray(array), as_key(key), blocks, size, inner, chunk)
    lower, upper = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    errors = np.stack([v.std(axis=1, ddof=1) / math.sqrt(blocks) for v in (lower, upper)])
    ceiling = math.log(inner + 1)
    low = lower.mean(axis=1)
    warn_of_ceiling(low, ceiling)
    return Information(low, None, upper.mean(axis=1), errors.max(axis=0), ceiling)


def sampled_outcomes(
    model: DesignModel, designs: Any, *, key: Any = 0, outer: int = 10_000
) -> Information:
    """The mean of ``log p(y|θ) - log Σ_k w_k p(y|θ_k)`` over draws of ``θ`` and ``y``.

    For continuous outcomes of a model with nodes: the evidence is a sum over them, so that the
    estimate has no bias but that of the rule, and both bounds are the same number.
    """
    array = check_designs(model, designs)
    if outer < 2:
        raise InputError(f"outer is {outer}; use at least 2 draws")
    check_model(model, array[0])
    terms = np.asarray(_with_nodes(model, jnp.asarray(array), as_key(key), outer), np.float64)
    found = terms.mean(axis=1)
    return Information(found, None, found, terms.std(axis=1, ddof=1) / math.sqrt(outer))


@partial(jax.jit, static_argnums=(0, 3))
def _with_nodes(model: DesignModel, designs, key, outer: int):
    prior = prior_on_nodes(model)
    first, second = jax.random.split(key)
    theta, keys = draw_prior(model, first, outer), jax.random.split(second, outer)

    def term(pair, xi):
        theta, key = pair
        y = model.outcome_sample(key, theta, xi)
        each = jax.vmap(lambda t: model.outcome_log_prob(y, t, xi))(prior.nodes)
        return model.outcome_log_prob(y, theta, xi) - logsumexp(each, b=jnp.exp(prior.log_weights))

    def at(xi):
        return jax.lax.map(lambda pair: term(pair, xi), (theta, keys), batch_size=MOST)

    return jax.lax.map(at, designs)


def _blocks(outer: int) -> tuple[int, int]:
    """How many blocks of how many draws: at least ``outer`` in all."""
    size = max(1, min(MOST, outer // REPLICATES))
    return -(-outer // size), size


@partial(jax.jit, static_argnums=(0, 3, 4, 5, 6))
def _bounds(model: DesignModel, designs, key, blocks: int, size: int, inner: int, chunk: int):
    """Block means of both bounds ``[designs, blocks]``."""
    keys = jax.random.split(key, blocks)
    one = _listed if model.finite else _drawn

    def at(xi):
        return jax.lax.map(lambda key: one(model, xi, key, size, inner, chunk), keys)

    return jax.lax.map(at, designs)


def _drawn(model: DesignModel, xi, key, size: int, inner: int, chunk: int):
    first, second, third = jax.random.split(key, 3)
    theta = draw_prior(model, first, size)
    y = jax.vmap(lambda k, t: model.outcome_sample(k, t, xi))(jax.random.split(third, size), theta)
    own = jax.vmap(lambda y, t: model.outcome_log_prob(y, t, xi))(y, theta)

    def log_probs(other):
        return jax.vmap(lambda y: model.outcome_log_prob(y, other, xi))(y)

    return contrast(own, log_sum_of_draws(model, log_probs, second, inner, chunk), inner)


def _listed(model: DesignModel, xi, key, size: int, inner: int, chunk: int):
    first, second = jax.random.split(key)
    own = jax.vmap(lambda t: model.log_probs(t, xi))(draw_prior(model, first, size))
    each = log_sum_of_draws(model, lambda t: model.log_probs(t, xi), second, inner, chunk)
    weights = jnp.exp(own)
    terms = (own - jnp.logaddexp(own, each) + jnp.log(inner + 1), own - each + jnp.log(inner))
    return tuple(jnp.where(weights > 0, weights * t, 0.0).sum(1).mean() for t in terms)


def log_sum_of_draws(
    model: DesignModel,
    log_probs: Callable[[Any], Float[Array, " outcomes"]],
    key: Key[Array, ""],
    count: int,
    chunk: int,
) -> Float[Array, " outcomes"]:
    """``log Σ_{l=1..count} p(y | θ_l)`` of several outcomes, ``θ_l`` from the prior, in chunks.

    Every draw has a key of its own, so that the chunks do not change what is drawn.
    """
    chunks = -(-count // chunk)
    size = -(-count // chunks)
    places = jnp.arange(chunks * size).reshape(chunks, size)
    shape = jax.eval_shape(lambda k: log_probs(model.prior_sample(k)), key)

    def add(total, places):
        keys = jax.vmap(lambda place: jax.random.fold_in(key, place))(places)
        each = jax.vmap(lambda k: log_probs(model.prior_sample(k)))(keys)
        # The last chunk may be longer than what is left.
        each = jnp.where((places < count)[:, None], each, -jnp.inf)
        return jnp.logaddexp(total, logsumexp(each, axis=0)), None

    start = jnp.full(shape.shape, -jnp.inf, shape.dtype)
    return jax.lax.scan(add, start, places)[0]


def contrast(
    own: Float[Array, " draws"], others: Float[Array, " draws"], count: int
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Both bounds' means, from ``log p(y|θ_0)`` and ``log Σ_{l=1..count} p(y|θ_l)``."""
    lower = own - jnp.logaddexp(own, others) + jnp.log(count + 1)
    return lower.mean(), (own - others + jnp.log(count)).mean()


def draw_prior(model: DesignModel, key: Key[Array, ""], count: int) -> Any:
    """So many ``θ`` on a leading axis."""
    return jax.vmap(model.prior_sample)(jax.random.split(key, count))


def log_sums(
    model: DesignModel, y: Array, theta: Any, others: Any, xi: Array
) -> tuple[Float[Array, " draws"], Float[Array, " draws"]]:
    """``log p(y|θ_0)`` of each draw with its outcome, and ``log Σ_l p(y|θ_l)`` over the others."""
    own = jax.vmap(lambda y, t: model.outcome_log_prob(y, t, xi))(y, theta)

    def over_others(y):
        return logsumexp(jax.vmap(lambda t: model.outcome_log_prob(y, t, xi))(others))

    return own, jax.vmap(over_others)(y)
