"""Gaussian beliefs: around the mode (Laplace), or as near as possible (variational)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.optimize
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular

from credax.design.beliefs.belief import Belief, Experiments, log_likelihood, with_prior
from credax.design.contrastive import draw_prior
from credax.design.model import DesignModel
from credax.errors import InputError

STARTS = 8


def laplace_belief(model: DesignModel, seen: Experiments, key) -> Belief:
    """A Gaussian at the posterior's mode with the inverse Hessian as covariance.

    The best of several starts from the prior, by BFGS in double precision. Parameters with bounds
    need a model in unbounded ones.
    """
    with jax.enable_x64(True):
        theta = draw_prior(model, key, STARTS)
        restore, target = _flat(model, seen, theta)
        value = jax.jit(jax.value_and_grad(lambda z: -target(z)))
        ends = []
        for one in jax.vmap(lambda t: ravel_pytree(t)[0])(theta):
            found = scipy.optimize.minimize(
                lambda z: [np.asarray(v, float) for v in value(jnp.asarray(z))],
                np.asarray(one), jac=True, method="BFGS",
            )  # fmt: skip
            if np.isfinite(found.fun):
                ends.append((float(found.fun), found.x))
        if not ends:
            raise InputError(
                f"no mode of the posterior of {model.name} was found from {STARTS} starts; use "
                "belief='particles'"
            )
        least, mode = min(ends, key=lambda pair: pair[0])
        hessian = np.asarray(jax.hessian(lambda z: -target(z))(jnp.asarray(mode)))
        values = np.linalg.eigvalsh(hessian)
        if not values.min() > 0:
            raise InputError(
                f"the posterior of {model.name} has curvature {values.min():.3g} at its mode, so "
                "that no Gaussian fits there; use belief='particles'"
            )
        lower = np.linalg.cholesky(np.linalg.inv(hessian))
        evidence = -least + 0.5 * len(mode) * np.log(2 * np.pi) + np.log(np.diag(lower)).sum()
    return _belief(model, restore, mode, lower, float(evidence))


def variational_belief(
    model: DesignModel, seen: Experiments, key, steps: int = 1000, draws: int = 64
) -> Belief:
    """The Gaussian with the largest evidence lower bound, full covariance, by Adam.

    ``log_evidence`` is that bound.
    """
    first, second, third = jax.random.split(key, 3)
    theta = draw_prior(model, first, 512)
    restore, target = _flat(model, seen, theta)
    flat = jax.vmap(lambda one: ravel_pytree(one)[0])(theta)
    size = flat.shape[1]
    rows = jnp.tril_indices(size)
    start = (flat.mean(0), jnp.diag(jnp.log(flat.std(0)))[rows])

    def unpack(params):
        mean, entries = params
        matrix = jnp.zeros((size, size)).at[rows].set(entries)
        return mean, jnp.tril(matrix, -1) + jnp.diag(jnp.exp(jnp.diag(matrix)))

    def bound(params, key, count):
        mean, lower = unpack(params)
        z = jax.random.normal(key, (count, size))
        values = jax.vmap(target)(mean + z @ lower.T)
        entropy = jnp.log(jnp.diag(lower)).sum() + 0.5 * size * (1 + np.log(2 * np.pi))
        return values.mean() + entropy

    optimiser = optax.adam(optax.exponential_decay(0.05, steps, 0.01))

    @jax.jit
    def train(params):
        def step(carry, key):
            params, state = carry
            gradient = jax.grad(lambda p: -bound(p, key, draws))(params)
            updates, state = optimiser.update(gradient, state)
            return (optax.apply_updates(params, updates), state), None

        keys = jax.random.split(second, steps)
        (params, _), _ = jax.lax.scan(step, (params, optimiser.init(params)), keys)
        return unpack(params), bound(params, third, 4096)

    (mean, lower), evidence = train(start)
    if not bool(jnp.isfinite(evidence)):
        raise InputError(
            f"the variational posterior of {model.name} diverged; use belief='particles'"
        )
    return _belief(model, restore, mean, lower, float(evidence))


def _flat(model: DesignModel, seen: Experiments, theta: Any):
    """How to restore ``θ`` from a vector, and the log joint of one."""
    restore = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], theta))[1]

    def target(z):
        one = restore(z)
        return model.prior_log_prob(one) + log_likelihood(model, one, seen)

    return restore, target


def _belief(model: DesignModel, restore, mean, lower, evidence: float) -> Belief:
    centre, factor = jnp.asarray(np.asarray(mean), float), jnp.asarray(np.asarray(lower), float)
    like = jax.eval_shape(model.prior_sample, jax.random.key(0))
    typed = lambda z: jax.tree.map(lambda a, b: a.astype(b.dtype), restore(z), like)  # noqa: E731

    def sample(key):
        return typed(centre + factor @ jax.random.normal(key, centre.shape))

    def log_prob(theta):
        white = solve_triangular(factor, ravel_pytree(theta)[0] - centre, lower=True)
        scale = jnp.log(jnp.diag(factor)).sum() + 0.5 * len(centre) * np.log(2 * np.pi)
        return -0.5 * white @ white - scale

    std = jnp.sqrt(jnp.square(factor).sum(axis=1))
    changed = with_prior(model, prior_sample=sample, prior_log_prob=log_prob)
    return Belief(changed, typed(centre), typed(std), evidence)
