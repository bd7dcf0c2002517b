"""The best predictor of tasks drawn from a known Gaussian process: that process."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from credax.data.task_form import TaskForm
from credax.errors import InputError
from credax.functions.kernels import from_data


class OracleScores(NamedTuple):
    """Log-densities of the targets of each task: jointly, and each alone (summed)."""

    joint: Float[np.ndarray, " tasks"]
    marginal: Float[np.ndarray, " tasks"]


def oracle_scores(
    form: TaskForm,
    x: Float[np.ndarray, "tasks points columns"],
    y: Float[np.ndarray, "tasks points"],
    context: Bool[np.ndarray, "tasks points"],
    targets: Bool[np.ndarray, "tasks points"],
) -> OracleScores:
    """``log p(y_T | C)`` of the process that made the tasks, in float64 and raw units.

    Context and targets are disjoint, and the tasks have noise: at an observed value without noise
    the best density is infinite.
    """
    if form.kernel is None:
        raise InputError("the process of these tasks is not known, and so no best predictor")
    if (context & targets).any():
        raise InputError("context and targets overlap; measure on targets outside the context")
    kernel = from_data(form.kernel)
    with jax.enable_x64(True):
        program = jax.jit(jax.vmap(_one, in_axes=(None, None, 0, 0, 0, 0)))
        arrays = (x.astype(np.float64), np.nan_to_num(y).astype(np.float64), context, targets)
        leaves = jax.tree.map(jnp.asarray, kernel)
        noise = jnp.asarray(max(form.noise, 1e-10))
        found = [
            program(leaves, noise, *(jnp.asarray(a[i : i + 256]) for a in arrays))
            for i in range(0, len(x), 256)
        ]
        joint, marginal = (np.concatenate([np.asarray(f[k]) for f in found]) for k in (0, 1))
    return OracleScores(joint, marginal)


def _one(kernel, noise, x, y, context, targets):
    """One task: points that are not asked for become independent of all others."""
    whole = kernel(x, x) + noise * jnp.eye(len(x))

    def evidence(mask):
        lower, whitened = _factor(whole, y, mask)
        logs = jnp.log(jnp.diagonal(lower))
        terms = 0.5 * whitened**2 + logs + 0.5 * jnp.log(2 * jnp.pi)
        return -jnp.sum(jnp.where(mask, terms, 0))

    lower, whitened = _factor(whole, y, context)
    cross = jnp.where(context[:, None], whole - noise * jnp.eye(len(x)), 0)
    reached = jax.scipy.linalg.solve_triangular(lower, cross, lower=True)
    mean = reached.T @ whitened
    variance = jnp.diagonal(whole) - jnp.sum(reached**2, axis=0)
    each = -0.5 * (jnp.log(2 * jnp.pi * variance) + (y - mean) ** 2 / variance)
    joint = evidence(context | targets) - evidence(context)
    return joint, jnp.sum(jnp.where(targets, each, 0))


def _factor(whole, y, mask):
    """Cholesky factor and whitened values of the points of a mask, identity elsewhere."""
    pairs = mask[:, None] & mask[None, :]
    matrix = jnp.where(pairs, whole, jnp.eye(len(mask)))
    lower = jnp.linalg.cholesky(matrix)
    return lower, jax.scipy.linalg.solve_triangular(lower, jnp.where(mask, y, 0), lower=True)
