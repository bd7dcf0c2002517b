"""The same experiment with other parameters."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

from credax.design.model import DesignModel


def change_of_variables(
    model: DesignModel,
    to_theta: Callable[[PyTree], PyTree],
    from_theta: Callable[[PyTree], PyTree],
) -> DesignModel:
    """The model with parameters ``φ`` in place of ``θ = to_theta(φ)``, such as logarithms.

    Information does not change: it is about either of them. Estimates and beliefs that fit
    Gaussians need parameters without bounds. ``p(φ) = p(θ) |det dθ/dφ|``.

    >>> import credax as cx
    >>> rate = cx.design.models.get("death-process")
    >>> log_rate = change_of_variables(rate, jnp.exp, jnp.log)
    >>> found = [float(cx.design.exact(m, [1.0]).exact[0]) for m in (rate, log_rate)]
    >>> round(found[0], 6), abs(found[0] - found[1]) < 1e-9
    (1.34243, True)
    """

    def log_prior(phi):
        flat, restore = ravel_pytree(phi)
        jacobian = jax.jacobian(lambda z: ravel_pytree(to_theta(restore(z)))[0])(flat)
        return model.prior_log_prob(to_theta(phi)) + jnp.linalg.slogdet(jacobian)[1]

    def nodes():
        assert model.nodes is not None
        theta, weights = model.nodes()
        return jax.vmap(from_theta)(theta), weights

    return dataclasses.replace(
        model,
        prior_sample=lambda key: from_theta(model.prior_sample(key)),
        prior_log_prob=log_prior,
        outcome_sample=lambda key, phi, xi: model.outcome_sample(key, to_theta(phi), xi),
        outcome_log_prob=lambda y, phi, xi: model.outcome_log_prob(y, to_theta(phi), xi),
        nodes=None if model.nodes is None else nodes,
        prior_entropy=None,
    )
