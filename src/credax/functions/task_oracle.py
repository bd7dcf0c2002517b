"""The best predictor of tasks drawn from a known Gaussian process: that process."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from credax.data.task_form import TaskForm
from credax.errors import InputError
from credax.functions.kernels import Kernel, from_data

_BLOCK = 256
_LOG_2PI = float(np.log(2 * np.pi))


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
    noise = max(form.noise, 1e-10)
    y = np.nan_to_num(y).astype(np.float64)
    found = []
    for start in range(0, len(x), _BLOCK):
        rows = slice(start, start + _BLOCK)
        with jax.enable_x64(True):
            block = jnp.asarray(x[rows], jnp.float64)
            matrix = np.array(_matrices(jax.tree.map(jnp.asarray, kernel), block))
        found.append(_scores(matrix, noise, y[rows], context[rows], targets[rows]))
    return OracleScores(*(np.concatenate(part) for part in zip(*found, strict=True)))


@eqx.filter_jit
def _matrices(kernel: Kernel, x: Array) -> Float[Array, "tasks points points"]:
    return jax.vmap(lambda one: kernel(one, one))(x)


def _scores(matrix, noise: float, y, context, targets) -> tuple[np.ndarray, np.ndarray]:
    """Joint and marginal; LAPACK, for XLA's factors of many small matrices are slow on a CPU."""
    noisy = matrix + noise * np.eye(matrix.shape[1])
    given, whitened, evidence = _factor(noisy, y, context)
    whole = _factor(noisy, y, context | targets)[2]
    cross = np.where(context[:, :, None], matrix, 0)
    reached = np.linalg.solve(given, cross)
    mean = np.einsum("tip,ti->tp", reached, whitened)
    variance = np.einsum("tpp->tp", noisy) - np.sum(reached**2, axis=1)
    each = -0.5 * (_LOG_2PI + np.log(variance) + (y - mean) ** 2 / variance)
    return whole - evidence, np.where(targets, each, 0).sum(axis=1)


def _factor(noisy, y, mask) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cholesky factors, whitened values and log evidence of the points of a mask.

    Points outside it are made independent of all others.
    """
    pairs = mask[:, :, None] & mask[:, None, :]
    lower = np.linalg.cholesky(np.where(pairs, noisy, np.eye(mask.shape[1])))
    whitened = np.linalg.solve(lower, np.where(mask, y, 0)[..., None])[..., 0]
    logs = np.log(np.einsum("tpp->tp", lower))
    terms = 0.5 * whitened**2 + logs + 0.5 * _LOG_2PI
    return lower, whitened, -np.where(mask, terms, 0).sum(axis=1)
