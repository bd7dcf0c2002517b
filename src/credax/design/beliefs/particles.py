"""Beliefs by weighted draws: reweighted by every outcome, resampled and moved when few count."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.special import logsumexp

from credax.design.beliefs.belief import (
    Belief,
    Experiments,
    draw_one,
    log_likelihood,
    moments,
    with_prior,
)
from credax.design.contrastive import draw_prior
from credax.design.model import DesignModel
from credax.errors import InputError

MOVES = 10
"""Metropolis steps of every draw after a resampling."""
FEW = 0.5
"""Resample when the effective number falls below this share."""


def particle_belief(model: DesignModel, seen: Experiments, key, count: int = 5000) -> Belief:
    """Sequential Monte Carlo over the outcomes seen.

    Draws are weighted by the likelihood of each outcome. When their effective number falls below
    half, they are resampled (systematically) and moved by random-walk Metropolis steps that leave
    the posterior of the outcomes so far as it is, with the draws' own covariance. Everything
    follows from the history and the key, so that a resumed run has the same draws. Reference:
    Chopin, A sequential particle filter method for static models, Biometrika 2002.
    """
    if count < 2:
        raise InputError(f"count is {count}; use at least 2 draws")
    first, key = jax.random.split(key)
    theta = draw_prior(model, first, count)
    log_weights = jnp.full(count, -jnp.log(count))
    evidence, warnings = 0.0, []
    for number in range(len(seen)):
        before = Experiments(seen.designs[:number], seen.outcomes[:number])
        here = Experiments(seen.designs[: number + 1], seen.outcomes[: number + 1])
        last = Experiments(seen.designs[number : number + 1], seen.outcomes[number : number + 1])
        log_weights = log_weights + _likelihoods(model, theta, last)
        total = logsumexp(log_weights)
        if not bool(jnp.isfinite(total)):
            raise InputError(
                f"outcome {number + 1} has probability zero under all {count} draws of "
                f"{len(before)} outcomes before it; use more draws, or check the outcome"
            )
        evidence += float(total)
        log_weights = log_weights - total
        effective = effective_number(log_weights)
        if effective < FEW * count:
            if effective < 50:
                warnings.append(
                    f"outcome {number + 1} left {effective:.0f} of {count} draws that count; use "
                    "more draws"
                )
            use = jax.random.fold_in(key, number)
            theta = _resampled_and_moved(model, theta, log_weights, here, use)
            log_weights = jnp.full(count, -jnp.log(count))
    return _belief(model, seen, theta, log_weights, evidence, tuple(warnings))


def effective_number(log_weights) -> float:
    """``1 / Σ w²`` of weights that add up to one."""
    return float(jnp.exp(-logsumexp(2 * log_weights)))


def _belief(model, seen, theta, log_weights, evidence: float, warnings) -> Belief:
    cumulative = jnp.cumsum(jnp.exp(log_weights))

    def sample(key):
        return draw_one(key, theta, cumulative)

    def log_prob(one):
        return model.prior_log_prob(one) + log_likelihood(model, one, seen) - evidence

    mean, std = moments(theta, jnp.exp(log_weights))
    changed = with_prior(model, prior_sample=sample, prior_log_prob=log_prob)
    effective = effective_number(log_weights)
    return Belief(changed, mean, std, evidence, effective, warnings)


@partial(jax.jit, static_argnums=0)
def _likelihoods(model: DesignModel, theta, seen: Experiments):
    return jax.vmap(lambda one: log_likelihood(model, one, seen))(theta)


@partial(jax.jit, static_argnums=0)
def _resampled_and_moved(model: DesignModel, theta, log_weights, seen: Experiments, key):
    def target(one):
        return model.prior_log_prob(one) + log_likelihood(model, one, seen)

    return resample_and_move(target, theta, log_weights, key, MOVES)


def resample_and_move(target: Callable, theta, log_weights, key, moves: int):
    """Draws of equal weight: systematic resampling, then Metropolis steps that keep ``target``."""
    first, second = jax.random.split(key)
    count = len(log_weights)
    levels = (jnp.arange(count) + jax.random.uniform(first)) / count
    places = jnp.searchsorted(jnp.cumsum(jnp.exp(log_weights)), levels)
    theta = jax.tree.map(lambda leaf: leaf[jnp.minimum(places, count - 1)], theta)
    flat = jax.vmap(lambda one: ravel_pytree(one)[0])(theta)
    restore = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], theta))[1]
    size = flat.shape[1]
    covariance = jnp.atleast_2d(jnp.cov(flat.T)) + 1e-9 * jnp.eye(size)
    step = 2.38 / np.sqrt(size) * jnp.linalg.cholesky(covariance)

    def density(one):
        found = target(restore(one))
        return jnp.where(jnp.isnan(found), -jnp.inf, found)

    def move(state, key):
        flat, before = state
        one, other = jax.random.split(key)
        proposed = flat + jax.random.normal(one, flat.shape) @ step.T
        new = jax.vmap(density)(proposed)
        taken = jnp.log(jax.random.uniform(other, (count,))) < new - before
        return (jnp.where(taken[:, None], proposed, flat), jnp.where(taken, new, before)), None

    start = (flat, jax.vmap(density)(flat))
    (flat, _), _ = jax.lax.scan(move, start, jax.random.split(second, moves))
    return jax.vmap(restore)(flat)
