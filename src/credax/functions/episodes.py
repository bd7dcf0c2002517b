"""Episodes of training: which points of a minibatch are context and which are targets."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from credax.functions.process_network import Points
from credax.problem import Batch, Problem


class Episode(NamedTuple):
    """Tasks with their context and targets; ``weight`` is 0 for a task that is padding."""

    x: Float[Array, "tasks points columns"]
    values: Float[Array, "tasks points values"]
    """Observed values as the encoder sees them."""
    y: Array
    """Observed values as the likelihood sees them."""
    present: Bool[Array, "tasks points"]
    context: Bool[Array, "tasks points"]
    targets: Bool[Array, "tasks points"]
    weight: Float[Array, " tasks"]
    largest: int | None = None
    """Where contexts come first: points that the largest of them has."""

    @property
    def given(self) -> Points:
        """The context."""
        first = slice(self.largest)
        return Points(self.x[:, first], self.values[:, first], self.context[:, first])

    @property
    def whole(self) -> Points:
        """All points, context and targets."""
        return Points(self.x, self.values, self.present)


def encoded_values(problem: Problem, y: Array, values: int) -> Float[Array, "tasks points values"]:
    """Observed values for the encoder: one-hot labels, or numbers, counts on a log scale."""
    if problem.likelihood.task == "classification":
        return jax.nn.one_hot(y.astype(jnp.int32), values)
    y = y.reshape(*y.shape[:2], -1)
    return jnp.sign(y) * jnp.log1p(jnp.abs(y)) if problem.likelihood.raw_targets else y


def missing(y: Array) -> Bool[Array, "tasks points"]:
    """Where a padded array of tasks has no point: a NaN, or a label of -1."""
    if not jnp.issubdtype(y.dtype, jnp.floating):
        return y < 0
    return jnp.isnan(y) if y.ndim == 2 else jnp.any(jnp.isnan(y), axis=-1)


def as_tasks(batch: Batch, of_tasks: bool) -> tuple[Array, Array, Array, Array]:
    """Inputs, targets, presence and weights of the tasks in a minibatch.

    A row is a task, or, of a table, all rows of the minibatch are one.
    """
    if of_tasks:
        gone = missing(batch.y)
        wide = gone if batch.y.ndim == 2 else gone[..., None]
        y = jnp.where(wide, jnp.zeros((), batch.y.dtype), batch.y)
        return batch.x, y, ~gone, batch.weight
    x = batch.x.reshape(1, len(batch.x), -1)
    return x, batch.y[None], (batch.weight > 0)[None], jnp.ones(1)


def draw_context(
    key: Key[Array, ""],
    present: Bool[Array, "tasks points"],
    smallest: int,
    largest: int,
    leave: int = 0,
) -> Bool[Array, "tasks points"]:
    """A random subset of each task's points: its size is uniform from ``smallest`` to ``largest``.

    Sizes are at most the points that are there minus ``leave``.
    """
    order, size = jax.random.split(key)
    count = jnp.sum(present, axis=-1)
    drawn = jax.random.randint(size, count.shape, smallest, largest + 1)
    drawn = jnp.clip(drawn, 0, jnp.maximum(count - leave, 0))
    return ranks(order, present) < drawn[:, None]


def ranks(key: Key[Array, ""], present: Bool[Array, "tasks points"]) -> Int[Array, "tasks points"]:
    """A random order of each task's points, those that are not there last."""
    noise = jnp.where(present, jax.random.uniform(key, present.shape), jnp.inf)
    return jnp.argsort(jnp.argsort(noise, axis=-1), axis=-1)


def draw_episode(
    key: Key[Array, ""],
    problem: Problem,
    batch: Batch,
    *,
    of_tasks: bool,
    values: int,
    sizes: tuple[int, int],
) -> Episode:
    """An episode of a minibatch in standard units, the points of a context before the others.

    Of tasks, all points are targets, also those of the context, as in the references. Of a table,
    targets are the rows outside the context.
    """
    x, y, present, weight = as_tasks(batch, of_tasks)
    context = draw_context(key, present, *sizes, leave=0 if of_tasks else 1)
    # So that the encoder sees as many points as a context can have, not all.
    order = jnp.argsort(~context, axis=-1)
    x, y, present, context = (_arranged(a, order) for a in (x, y, present, context))
    targets = present if of_tasks else present & ~context
    encoded: Any = encoded_values(problem, y, values).astype(x.dtype)
    return Episode(x, encoded, y, present, context, targets, weight, sizes[1])


def _arranged(values: Array, order: Int[Array, "tasks points"]) -> Array:
    """The points of each task in an order."""
    return jnp.take_along_axis(values, order.reshape(*order.shape, *[1] * (values.ndim - 2)), 1)
