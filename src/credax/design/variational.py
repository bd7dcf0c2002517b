"""Bounds on expected information by variational families, each with its side."""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

from credax.design.contrastive import draw_prior
from credax.design.guides import (
    GuideTraining,
    likelihood_guide,
    marginal_guide,
    posterior_guide,
    train_guide,
)
from credax.design.information import Information
from credax.design.model import DesignModel, check_designs, check_model
from credax.errors import InputError
from credax.keys import as_key

START = 512
"""Joint draws that give a new guide its units."""
BLOCK = 256
"""Outer draws at a time, each with its contrastive draws."""


def posterior_bound(model: DesignModel, designs: Any, **options: Any) -> Information:
    """Lower bound ``E[log q(θ|y) - log p(θ)]`` (Barber and Agakov 2003).

    Its gap is ``E_y KL(p(θ|y) || q(θ|y))``. Options as for `vnmc`, without ``inner``.
    """
    lower, error = estimate_terms(model, designs, _POSTERIOR, _posterior_terms, **options)
    return Information(lower, None, np.full_like(lower, np.inf), error)


def marginal(model: DesignModel, designs: Any, **options: Any) -> Information:
    """Upper bound ``E[log p(y|θ) - log q(y)]`` (Foster et al. 2019); its gap is ``KL(p(y) || q)``.

    Options as for `vnmc`, without ``inner``.
    """
    upper, error = estimate_terms(model, designs, _MARGINAL, _marginal_terms, **options)
    return Information(np.full_like(upper, -np.inf), None, upper, error)


def marginal_likelihood_free(model: DesignModel, designs: Any, **options: Any) -> Information:
    """``E[log q(y|θ) - log q(y)]``, which needs no density of outcomes and is **no bound**.

    Both sides are infinite therefore, and the number is the ``estimate``. Options as for `vnmc`,
    without ``inner``; guides are a pair. Reference: Foster et al. 2019.
    """
    found, error = estimate_terms(model, designs, _FREE, _free_terms, **options)
    infinite = np.full_like(found, np.inf)
    return Information(-infinite, None, infinite, error, estimate=found)


def vnmc(model: DesignModel, designs: Any, *, inner: int = 100, **options: Any) -> Information:
    """Upper bound: nested Monte Carlo with ``θ_l`` from ``q(θ|y)`` (Foster et al. 2019).

    ``E[log p(y|θ_0) - log 1/L Σ_l p(θ_l) p(y|θ_l) / q(θ_l|y)]``: exact for any ``L`` where ``q`` is
    the posterior.

    Args:
        model: prior and outcomes.
        designs: ``[designs, ...]``.
        inner: contrastive draws ``L``.
        guides: a guide for all designs, or a list with one for each; by default Gaussian ones are
            trained for every design, by the likelihood of joint draws.
        training: how (`GuideTraining`).
        outer: draws of ``θ_0`` and ``y`` for the estimate.
        key: a seed or a typed key.
    """
    upper, error = _importance(model, designs, inner, False, options)
    return Information(np.full_like(upper, -np.inf), None, upper, error)


def ace(model: DesignModel, designs: Any, *, inner: int = 100, **options: Any) -> Information:
    """Lower bound: as `vnmc`, with ``θ_0`` in the average over ``L + 1`` (Foster et al. 2020).

    Tight for any ``L`` where ``q`` is the posterior. Options as for `vnmc`.
    """
    lower, error = _importance(model, designs, inner, True, options)
    return Information(lower, None, np.full_like(lower, np.inf), error)


def _importance(model, designs, inner: int, own: bool, options: dict[str, Any]):
    if inner < 1:
        raise InputError(f"inner is {inner}; use at least 1 contrastive draw")
    terms = fixed(_importance_terms, inner=inner, own=own)
    return estimate_terms(model, designs, _POSTERIOR, terms, **options)


@cache
def fixed(function: Callable, **options: Any) -> Callable:
    """The function with some options fixed; equal options give the same object.

    Compiled programs are found again by identity.
    """
    return partial(function, **options)


class Trained(NamedTuple):
    """How a guide starts from joint draws, and its loss on a batch of them."""

    start: Callable
    """``start(model, theta, y, key) -> guide``."""
    loss: Callable
    """``loss(guide, theta, y) -> number``."""


def _by_likelihood(start: Callable, log_likelihood: Callable) -> Trained:
    """A guide that is trained by maximum likelihood."""

    def loss(guide, theta, y):
        return -jax.vmap(lambda t, y: log_likelihood(guide, t, y))(theta, y).mean()

    return Trained(lambda model, theta, y, key: start(model, theta, y), loss)


_POSTERIOR = _by_likelihood(posterior_guide, lambda guide, theta, y: guide.log_prob(theta, y))
_MARGINAL = _by_likelihood(marginal_guide, lambda guide, theta, y: guide.log_prob(y))
_FREE = _by_likelihood(
    lambda model, theta, y: (likelihood_guide(model, theta, y), marginal_guide(model, theta, y)),
    lambda guide, theta, y: guide[0].log_prob(y, theta) + guide[1].log_prob(y),
)


def estimate_terms(
    model: DesignModel,
    designs: Any,
    family: Trained,
    terms: Callable,
    *,
    guides: Any = None,
    training: GuideTraining | None = None,
    outer: int = 10_000,
    key: Any = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard errors of the terms at every design, with trained or given guides."""
    array = check_designs(model, designs)
    if outer < 2:
        raise InputError(f"outer is {outer}; use at least 2 draws")
    check_model(model, array[0])
    first, second = jax.random.split(as_key(key))
    xis, training = jnp.asarray(array), training or GuideTraining()
    if guides is None:
        stacked = _train(model, xis, first, family, training)
    else:
        stacked = _stacked(guides, len(array))
    found = np.asarray(_terms_at(model, terms, stacked, xis, second, outer), np.float64)
    if not np.isfinite(found).all():
        place = int(np.argmin(np.isfinite(found).all(axis=1)))
        raise InputError(
            f"the estimate for {model.name} is not finite at design {array[place].tolist()}: "
            "outcome_log_prob has no number for some draws of the guide; return -inf from "
            "prior_log_prob where the prior has no mass, or use change_of_variables"
        )
    return found.mean(axis=1), found.std(axis=1, ddof=1) / math.sqrt(outer)


def _stacked(guides: Any, count: int) -> Any:
    """Guides on an axis over designs: a list of them, or one for all."""
    each = guides if isinstance(guides, list) else [guides] * count
    if len(each) != count:
        raise InputError(
            f"guides is a list of {len(each)} for {count} designs; give one for each, or one"
        )
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(v) for v in leaves]), *each)


@partial(jax.jit, static_argnums=(0, 3, 4))
def _train(model: DesignModel, xis, key, family: Trained, training: GuideTraining) -> Any:
    """Guides for all designs, each by its loss on joint draws."""

    def one(xi):
        first, second, third = jax.random.split(key, 3)

        def loss(guide, key):
            return family.loss(guide, *joint_draws(model, key, xi, training.batch))

        guide = family.start(model, *joint_draws(model, first, xi, START), third)
        return train_guide(loss, guide, second, training)

    return jax.lax.map(one, xis)


def joint_draws(model: DesignModel, key, xi, count: int) -> tuple[Any, Any]:
    """``θ`` from the prior and an outcome of each, on leading axes."""
    first, second = jax.random.split(key)
    theta = draw_prior(model, first, count)
    keys = jax.random.split(second, count)
    return theta, jax.vmap(lambda k, t: model.outcome_sample(k, t, xi))(keys, theta)


@partial(jax.jit, static_argnums=(0, 1, 5))
def _terms_at(model, terms, guides, xis, key, outer: int):
    def one(pair):
        guide, xi = pair
        first, second = jax.random.split(key)
        theta, y = joint_draws(model, first, xi, outer)
        return terms(model, guide, theta, y, xi, second)

    return jax.lax.map(one, (guides, xis))


def _posterior_terms(model, guide, theta, y, xi, key):
    return jax.vmap(lambda t, y: guide.log_prob(t, y) - model.prior_log_prob(t))(theta, y)


def _marginal_terms(model, guide, theta, y, xi, key):
    return jax.vmap(lambda t, y: model.outcome_log_prob(y, t, xi) - guide.log_prob(y))(theta, y)


def _free_terms(model, guide, theta, y, xi, key):
    return jax.vmap(lambda t, y: guide[0].log_prob(y, t) - guide[1].log_prob(y))(theta, y)


def _importance_terms(model, guide, theta, y, xi, key, *, inner: int, own: bool):
    def ratio(t, y):
        prior = model.prior_log_prob(t)
        ratio = prior + model.outcome_log_prob(y, t, xi) - guide.log_prob(t, y)
        # A guide may draw what the prior excludes, where outcomes need no density.
        return jnp.where(prior == -jnp.inf, -jnp.inf, ratio)

    def one(t, y, key):
        drawn = jax.vmap(lambda k: guide.sample(k, y))(jax.random.split(key, inner))
        ratios = jax.vmap(lambda t: ratio(t, y))(drawn)
        if own:
            ratios = jnp.append(ratios, ratio(t, y))
        evidence = logsumexp(ratios) - jnp.log(len(ratios))
        return model.outcome_log_prob(y, t, xi) - evidence

    keys = jax.random.split(key, len(jax.tree.leaves(theta)[0]))
    return jax.lax.map(lambda args: one(*args), (theta, y, keys), batch_size=BLOCK)
