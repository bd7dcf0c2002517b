"""Information by logistic regression: are outcomes those of one parameter, or of any?"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credax.design.contrastive import draw_prior
from credax.design.guides import features_of
from credax.design.information import Information
from credax.design.model import DesignModel, check_designs, check_model
from credax.design.variational import joint_draws
from credax.errors import InputError
from credax.keys import as_key

NEWTON = 12
"""Newton steps of every regression."""


def lfire(
    model: DesignModel,
    designs: Any,
    *,
    outer: int = 500,
    samples: int = 500,
    penalty: float = 1e-2,
    key: Any = 0,
) -> Information:
    """``E[log r(y; θ)]`` with ``r`` the ratio of ``p(y | θ)`` and ``p(y)`` by logistic regression.

    For each of ``outer`` parameters a classifier tells ``samples`` outcomes of that parameter from
    as many of the prior's; its logit, linear in the outcomes' values, squares and products (or in
    indicators of listed outcomes), is the log-ratio, averaged over new outcomes. No density of
    outcomes is needed, and the estimate is **no bound**: the features limit it from above, fitted
    noise from below. References: Thomas et al., Likelihood-free inference by ratio estimation,
    2022; Kleinegesse and Gutmann, Efficient Bayesian experimental design for implicit models, 2019.

    Args:
        model: prior and outcomes.
        designs: ``[designs, ...]``.
        outer: parameters, each with a regression of its own.
        samples: outcomes of either class.
        penalty: precision of a Gaussian prior of the coefficients, so that classes which can be
            separated have finite ones.
        key: a seed or a typed key.
    """
    array = check_designs(model, designs)
    if outer < 2 or samples < 2 or penalty <= 0:
        raise InputError(
            f"outer is {outer}, samples is {samples} and penalty is {penalty}; use at least 2, 2 "
            "and a positive number"
        )
    check_model(model, array[0])
    terms = np.asarray(_ratios(model, jnp.asarray(array), as_key(key), outer, samples, penalty))
    terms = terms.astype(np.float64)
    infinite = np.full(len(array), np.inf)
    error = terms.std(axis=1, ddof=1) / np.sqrt(outer)
    return Information(-infinite, None, infinite, error, estimate=terms.mean(axis=1))


@partial(jax.jit, static_argnums=(0, 3, 4))
def _ratios(model: DesignModel, designs, key, outer: int, samples: int, penalty: float):
    """The mean log-ratio of every parameter's own outcomes, ``[designs, outer]``."""
    first, second, third, fourth = jax.random.split(key, 4)
    thetas = draw_prior(model, first, outer)

    def at(xi):
        others = joint_draws(model, second, xi, samples)[1]
        scale = features_of(others, model.outcomes)
        features = lambda y: _polynomial(jax.vmap(scale)(y), model.finite)  # noqa: E731
        of_others = features(others)

        def one(pair):
            theta, number = pair
            keys = jax.random.split(jax.random.fold_in(third, number), samples)
            own = jax.vmap(lambda k: model.outcome_sample(k, theta, xi))(keys)
            new = jax.random.split(jax.random.fold_in(fourth, number), samples)
            tested = jax.vmap(lambda k: model.outcome_sample(k, theta, xi))(new)
            weights = _logistic(features(own), of_others, penalty)
            return (features(tested) @ weights).mean()

        return jax.lax.map(one, (thetas, jnp.arange(outer)), batch_size=16)

    return jax.lax.map(at, designs)


def _polynomial(f: Float[Array, "rows features"], listed: bool) -> Float[Array, "rows all"]:
    """With an intercept; numbers, which come with their squares, also with their products."""
    parts = [jnp.ones((len(f), 1)), f]
    if not listed:
        values = f[:, : f.shape[1] // 2]
        rows, columns = np.triu_indices(values.shape[1], 1)
        parts.append(values[:, rows] * values[:, columns])
    return jnp.concatenate(parts, axis=1)


def _logistic(own: Array, others: Array, penalty: float) -> Float[Array, " features"]:
    """Coefficients that tell ``own`` rows from ``others``, by Newton's method."""
    x = jnp.concatenate([own, others])
    t = jnp.concatenate([jnp.ones(len(own)), jnp.zeros(len(others))])
    ridge = penalty * jnp.eye(x.shape[1])

    def step(weights, _):
        p = jax.nn.sigmoid(x @ weights)
        gradient = x.T @ (p - t) + ridge @ weights
        hessian = (x * (p * (1 - p))[:, None]).T @ x + ridge
        return weights - jnp.linalg.solve(hessian, gradient), None

    return jax.lax.scan(step, jnp.zeros(x.shape[1]), None, NEWTON)[0]
