"""Measurement points: where functions are compared with their prior, from training inputs only."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from credax.data.dataset import Split
from credax.problem import Problem

BLOCK = 4096
Region = Literal["uniform", "gaussian"]


class Measurement(eqx.Module):
    """Where points are drawn: uniform over a box, or Gaussian, in standard units."""

    first: Float[Array, "..."]
    """Lower ends of the box, or means."""
    second: Float[Array, "..."]
    """Upper ends of the box, or standard deviations."""
    region: Region = eqx.field(static=True)

    def draw(self, key: Key[Array, ""], points: int) -> Float[Array, "points ..."]:
        """Points, each entry on its own."""
        shape = (points, *self.first.shape)
        if self.region == "gaussian":
            return self.first + self.second * jax.random.normal(key, shape, self.first.dtype)
        share = jax.random.uniform(key, shape, self.first.dtype)
        return self.first + share * (self.second - self.first)


def measure(problem: Problem, data: Split, region: Region, margin: float) -> Measurement:
    """The region of the training inputs, widened on each side by a share ``margin`` of its width.

    Nothing but ``data`` is read: a box that knows test inputs would know where it is tested.
    """
    starts = range(0, len(data.x), BLOCK)
    blocks = (np.asarray(problem.prepare_inputs(data.x[i : i + BLOCK])) for i in starts)
    shape = data.x.shape[1:]
    low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
    total, squares = np.zeros(shape), np.zeros(shape)
    for block in blocks:
        rows = np.asarray(block, np.float64)
        low, high = np.minimum(low, rows.min(0)), np.maximum(high, rows.max(0))
        total, squares = total + rows.sum(0), squares + np.square(rows).sum(0)
    if region == "gaussian":
        mean = total / len(data.x)
        std = np.sqrt(np.maximum(squares / len(data.x) - mean**2, 0.0))
        first, second = mean, (1 + margin) * std
    else:
        width = margin * (high - low)
        first, second = low - width, high + width
    return Measurement(jnp.asarray(first, jnp.float32), jnp.asarray(second, jnp.float32), region)
