"""Information by Gaussians: the entropy of the prior minus that of Laplace's posteriors."""

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.optimize
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from credax.design.contrastive import draw_prior
from credax.design.information import Information
from credax.design.model import DesignModel, check_designs, check_model
from credax.design.variational import joint_draws
from credax.errors import InputError
from credax.keys import as_key


def laplace(model: DesignModel, designs: Any, *, outer: int = 500, key: Any = 0) -> Information:
    """``H[p(θ)] - E_y H[q(θ | y)]`` with ``q`` the Gaussian of the posterior's mode and curvature.

    Exact for linear Gaussian models, else **no bound**. The mode is searched from the parameter
    that gave the outcome. Where the prior's entropy is not known (``prior_entropy`` of the model)
    it is estimated by ``-log p`` of as many draws, and a note says so. Parameters must be
    unbounded: see `change_of_variables`. Reference: Ryan, Estimating expected information gains for
    experimental designs with application to the random fatigue-limit model, 2003; Long et al. 2013.

    Args:
        model: prior and outcomes.
        designs: ``[designs, ...]``.
        outer: outcomes drawn; all of those that are listed are used instead, weighted.
        key: a seed or a typed key.
    """
    array = check_designs(model, designs)
    if outer < 2:
        raise InputError(f"outer is {outer}; use at least 2 draws")
    check_model(model, array[0])
    with jax.enable_x64(True):
        first, second = jax.random.split(as_key(key))
        terms = np.asarray(_entropies(model, jnp.asarray(array), first, outer))
        if not np.isfinite(terms).all():
            place = int(np.argmin(np.isfinite(terms).all(axis=1)))
            raise InputError(
                f"the posterior of {model.name} at design {array[place].tolist()} has outcomes "
                "whose mode has no positive curvature, so that no Gaussian fits there; use "
                "credax.design.change_of_variables for bounded parameters, or another estimator"
            )
        entropy, error, notes = _prior_entropy(model, second, outer)
    errors = np.hypot(terms.std(axis=1, ddof=1) / math.sqrt(outer), error)
    infinite = np.full(len(array), np.inf)
    found = entropy - terms.mean(axis=1)
    return Information(-infinite, None, infinite, errors, estimate=found, notes=notes)


def _prior_entropy(model: DesignModel, key: Any, draws: int) -> tuple[float, float, tuple]:
    """The prior's entropy, its standard error, and what is to be said of it."""
    if model.prior_entropy is not None:
        return model.prior_entropy, 0.0, ()
    values = -np.asarray(jax.vmap(model.prior_log_prob)(draw_prior(model, key, draws)))
    note = f"the prior's entropy is estimated from {draws} draws: {model.name} has no prior_entropy"
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(draws)), (note,)


@partial(jax.jit, static_argnums=(0, 3))
def _entropies(model: DesignModel, designs, key, outer: int) -> Float[Array, "designs draws"]:
    """Entropies of Laplace's posteriors: of drawn outcomes, or means over listed ones."""

    def at(xi):
        theta, y = joint_draws(model, key, xi, outer)
        of = lambda pair: posterior_entropy(model, pair[0], pair[1], xi)  # noqa: E731
        if not model.finite:
            return jax.lax.map(of, (theta, y), batch_size=64)
        # One mode for every outcome, from the draw that makes it most likely.
        log_probs = jax.vmap(lambda t: model.log_probs(t, xi))(theta)
        starts = jax.tree.map(lambda leaf: leaf[jnp.argmax(log_probs, axis=0)], theta)
        outcomes = jnp.asarray(model.outcomes)
        found = jax.lax.map(of, (starts, outcomes))
        # An outcome that no draw makes likely has no weight, whatever its curvature.
        weights = jnp.exp(log_probs)
        kept = jnp.where(jnp.isfinite(found) | (weights.max(axis=0) > 1e-12), found, 0.0)
        return weights @ kept

    return jax.lax.map(at, designs)


def posterior_entropy(model: DesignModel, start: Any, y: Array, xi: Array) -> Float[Array, ""]:
    """``½ log det(2 π e H⁻¹)`` with ``H`` the curvature at the mode; NaN where it has none."""
    flat, restore = ravel_pytree(start)

    def energy(z):
        theta = restore(z)
        return -model.prior_log_prob(theta) - model.outcome_log_prob(y, theta, xi)

    mode = jax.scipy.optimize.minimize(energy, flat, method="BFGS", options={"maxiter": 60}).x
    hessian = jax.hessian(energy)(mode)
    factor = jnp.linalg.cholesky(hessian)
    size = len(flat)
    return 0.5 * size * math.log(2 * math.pi * math.e) - jnp.log(jnp.diag(factor)).sum()
