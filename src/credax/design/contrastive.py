"""Both sides from the same draws: prior contrastive estimation below, nested Monte Carlo above."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Key

from credax.design.information import Information, warn_of_ceiling
from credax.design.model import DesignModel, check_designs, check_model
from credax.errors import InputError
from credax.keys import as_key

REPLICATES = 32
"""At least so many independent replicates, for standard errors, where there are enough draws."""
MOST = 256
"""Outer draws that share their contrastive draws at most: memory is ``MOST * inner`` numbers."""


def nested(
    model: DesignModel,
    designs: Any,
    *,
    key: Any = 0,
    outer: int = 10_000,
    inner: int = 1000,
) -> Information:
    """The expected information gain of each design between a lower and an upper bound.

    With ``θ_0`` and contrastive ``θ_1..L`` from the prior and ``y`` from ``θ_0``:

    - lower (prior contrastive estimation): ``E log p(y|θ_0) - log 1/(L+1) Σ_{l=0..L} p(y|θ_l)``,
      at most ``log(L + 1)``;
    - upper (nested Monte Carlo): the same without ``l = 0``; its bias falls as ``1/L``.

    Outcomes that can be listed are summed over instead of drawn. Outer draws run in blocks, each
    with contrastive draws of its own; standard errors are those of independent blocks. All designs
    see the same draws, so that curves over designs are smooth. Cost ``outer * inner`` densities per
    design, memory ``256 * inner`` numbers.

    References: Rainforth et al. 2018 (nested Monte Carlo); Foster et al., A unified stochastic
    gradient approach to designing Bayesian-optimal experiments, AISTATS 2020.
    """
    array = check_designs(model, designs)
    if outer < 2 or inner < 1:
        raise InputError(f"outer is {outer} and inner is {inner}; use at least 2 and 1")
    check_model(model, array[0])
    blocks, size = _blocks(outer)
    lower, upper = _bounds(model, jnp.asarray(array), as_key(key), blocks, size, inner)
    lower, upper = np.asarray(lower, np.float64), np.asarray(upper, np.float64)
    errors = np.stack([v.std(axis=1, ddof=1) / math.sqrt(blocks) for v in (lower, upper)])
    ceiling = math.log(inner + 1)
    low = lower.mean(axis=1)
    warn_of_ceiling(low, ceiling)
    return Information(low, None, upper.mean(axis=1), errors.max(axis=0), ceiling)


def _blocks(outer: int) -> tuple[int, int]:
    """How many blocks of how many draws: at least ``outer`` in all."""
    size = max(1, min(MOST, outer // REPLICATES))
    return -(-outer // size), size


@partial(jax.jit, static_argnums=(0, 3, 4, 5))
def _bounds(model: DesignModel, designs, key, blocks: int, size: int, inner: int):
    """Block means of both bounds ``[designs, blocks]``."""
    keys = jax.random.split(key, blocks)
    one = _listed if model.finite else _drawn

    def at(xi):
        return jax.lax.map(lambda key: one(model, xi, key, size, inner), keys)

    return jax.lax.map(at, designs)


def _drawn(model: DesignModel, xi, key, size: int, inner: int):
    first, second, third = jax.random.split(key, 3)
    theta = draw_prior(model, first, size)
    others = draw_prior(model, second, inner)
    y = jax.vmap(lambda k, t: model.outcome_sample(k, t, xi))(jax.random.split(third, size), theta)
    return contrast(*log_sums(model, y, theta, others, xi), inner)


def _listed(model: DesignModel, xi, key, size: int, inner: int):
    first, second = jax.random.split(key)
    log_probs = lambda t: jax.vmap(lambda t: model.log_probs(t, xi))(t)  # noqa: E731
    own = log_probs(draw_prior(model, first, size))
    each = logsumexp(log_probs(draw_prior(model, second, inner)), axis=0)
    weights = jnp.exp(own)
    terms = (own - jnp.logaddexp(own, each) + jnp.log(inner + 1), own - each + jnp.log(inner))
    return tuple(jnp.where(weights > 0, weights * t, 0.0).sum(1).mean() for t in terms)


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
