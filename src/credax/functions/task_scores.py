"""Neural processes measured on tasks: likelihood per target point, error, and the oracle gap."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from credax.data.dataset import Split
from credax.data.task_form import TaskForm
from credax.data.tasks import Tasks, tasks_of
from credax.errors import InputError
from credax.functions.process_posterior import ProcessPosterior
from credax.functions.task_oracle import oracle_scores
from credax.prediction import Prediction
from credax.problem import Problem

BLOCK = 64


class Measured(NamedTuple):
    """A posterior on tasks: what it says of all targets, one after another, and scores per task."""

    prediction: Prediction
    y: np.ndarray
    joint: Float[np.ndarray, " tasks"]
    """``log p(y_T | C)``: the logarithm of the mean over members, in raw units."""
    marginal: Float[np.ndarray, " tasks"]
    """``Σ_T log p(y_t | C)``: the same, point by point."""
    targets: np.ndarray
    """How many targets each task has."""
    scores: dict[str, float]


def choose_context(
    tasks: Tasks, sizes: tuple[int, int], seed: int = 0
) -> Bool[np.ndarray, "tasks points"]:
    """A random context of each task, its size uniform between two numbers; one point is left."""
    low, high = sizes
    if not 0 <= low <= high:
        raise InputError(
            f"sizes of contexts are {low} to {high}; give two numbers from 0, in order"
        )
    if low >= tasks.sizes.min():
        raise InputError(
            f"contexts have at least {low} points and the smallest task has {tasks.sizes.min()}; "
            "give fewer, so that one target is left"
        )
    rng = np.random.default_rng(seed)
    count = np.minimum(rng.integers(low, high + 1, len(tasks)), tasks.sizes - 1)
    noise = np.where(tasks.mask, rng.random(tasks.mask.shape), np.inf)
    return np.argsort(np.argsort(noise, axis=1), axis=1) < count[:, None]


def measure(
    posterior: ProcessPosterior,
    rows: Split,
    *,
    sizes: tuple[int, int] | None = None,
    context: Bool[np.ndarray, "tasks points"] | None = None,
    seed: int = 0,
    include_context: bool = False,
) -> Measured:
    """Condition on a context of every task and predict its other points.

    ``sizes`` of contexts are by default those of training. The gap to the best predictor is
    measured where it is known: joint for processes with a latent variable, else marginal.
    ``include_context`` counts the context among the targets, as some published figures do; then
    there is no gap, for the best density of a known value is infinite without noise.
    """
    if rows.tasks is None or not posterior.form.of_tasks:
        raise InputError("rows are no tasks, or the posterior is one of a table; use predict")
    tasks = tasks_of(rows)
    if tasks.x.shape[2] != posterior.form.columns:
        raise InputError(
            f"tasks have {tasks.x.shape[2]} input columns and training had "
            f"{posterior.form.columns}; give the same"
        )
    if context is None:
        given = sizes or (posterior.form.smallest, posterior.form.largest)
        context = choose_context(tasks, given, seed)
    targets = tasks.mask if include_context else tasks.mask & ~context
    outputs, joint, marginal = [], [], []
    for start in range(0, len(tasks), BLOCK):
        block = slice(start, start + BLOCK)
        one = _block(posterior, tasks[block], context[block], targets[block])
        for found, part in zip((outputs, joint, marginal), one, strict=True):
            found.append(part)
    prediction = posterior.problem.predict(jnp.asarray(np.concatenate(outputs, axis=1)))
    joints, alone = np.concatenate(joint), np.concatenate(marginal)
    y, count = tasks.y[targets], targets.sum(axis=1)
    scores = _scores(posterior, joints, alone, count)
    if rows.tasks.kernel is not None and not include_context:
        scores |= _gap(posterior, rows.tasks, tasks, context, targets, joints, alone)
    return Measured(prediction, y, joints, alone, count, scores)


def _block(posterior: ProcessPosterior, tasks: Tasks, context, targets):
    """Outputs at the targets one after another, and log-densities per task."""
    problem = posterior.problem
    # The last block has the others' size, so that one program serves all.
    short = BLOCK - len(tasks)
    fill = lambda a: np.concatenate([a, np.repeat(a[:1], short, axis=0)])  # noqa: E731
    x = np.asarray(problem.prepare_inputs(fill(tasks.x)))
    y = np.where(_wide(tasks.mask, tasks.y), tasks.y, 0).astype(tasks.y.dtype)
    standard = fill(y) if problem.targets is None else np.asarray(problem.targets(fill(y)))
    outputs = posterior.task_outputs(x, standard, fill(context))
    each = np.asarray(_log_probs(problem, outputs, jnp.asarray(standard)), np.float64)
    outputs, each = np.asarray(outputs)[:, : len(tasks)], each[:, : len(tasks)]
    each = each - _log_scale(problem.targets, tasks.y)
    members = len(each)
    total = np.where(targets, each, 0).sum(axis=-1)
    joint = np.logaddexp.reduce(total, axis=0) - np.log(members)
    alone = np.logaddexp.reduce(each, axis=0) - np.log(members)
    return outputs[:, targets], joint, np.where(targets, alone, 0).sum(axis=-1)


@eqx.filter_jit
def _log_probs(problem: Problem, outputs: Array, y: Array) -> Float[Array, "members tasks points"]:
    members, tasks, points = outputs.shape[:3]
    flat = outputs.reshape(members, tasks * points, -1)
    known = y.reshape(tasks * points, *y.shape[2:])
    each = jax.vmap(lambda one: problem.likelihood.log_prob(one, known))(flat)
    return each.reshape(members, tasks, points)


def _wide(mask: np.ndarray, y: np.ndarray) -> np.ndarray:
    return mask if y.ndim == 2 else mask[..., None]


def _log_scale(units, y: np.ndarray) -> float:
    """What a log-density in standard units has too much, per point."""
    if units is None or y.dtype.kind in "iu":
        return 0.0
    size = int(np.prod(y.shape[2:], dtype=int))
    return float(np.sum(np.log(np.broadcast_to(np.asarray(units.scale, np.float64), (size,)))))


def _scores(posterior, joint, marginal, count) -> dict[str, float]:
    found = {"log_likelihood_marginal": float(np.mean(marginal / count))}
    if posterior.network.latent_size:
        found = {"log_likelihood_joint": float(np.mean(joint / count)), **found}
    return found


def _gap(posterior, form: TaskForm, tasks: Tasks, context, targets, joint, marginal):
    best = oracle_scores(form, tasks.x, tasks.y, context, targets)
    count = targets.sum(axis=1)
    latent = bool(posterior.network.latent_size)
    kind = "joint" if latent else "marginal"
    gap = (best.joint - joint if latent else best.marginal - marginal) / count
    return {
        f"oracle_{kind}": float(np.mean((best.joint if latent else best.marginal) / count)),
        "oracle_gap": float(np.mean(gap)),
        "oracle_gap_error": float(np.std(gap, ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else 0.0,
    }
