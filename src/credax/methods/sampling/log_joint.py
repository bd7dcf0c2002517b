"""The log joint of all rows as a function of a network's parameters, in chunks of rows."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from credax.network import Variables
from credax.problem import Problem

CHUNK = 4096


def log_joint(problem: Problem, x: Any, y: Any, params: PyTree) -> Float[Array, ""]:
    """``log p(y | x, θ) + log p(θ)`` up to a constant, of raw rows; memory of one chunk of rows."""
    rows, variables = len(y), Variables(params, {})

    def log_likelihood(x, y):
        batch = problem.prepare(x, y)
        outputs, _ = problem.outputs(variables, batch.x)
        return jnp.sum(problem.likelihood.log_prob(outputs, batch.y))

    whole, rest = divmod(rows, CHUNK)
    total = jnp.zeros((), jax.tree.leaves(params)[0].dtype)
    if whole:
        cut = lambda a: a[: whole * CHUNK].reshape(whole, CHUNK, *a.shape[1:])  # noqa: E731
        add = jax.checkpoint(lambda total, xy: total + log_likelihood(*xy))
        total, _ = jax.lax.scan(lambda t, xy: (add(t, xy), None), total, (cut(x), cut(y)))
    if rest:
        total = total + log_likelihood(x[whole * CHUNK :], y[whole * CHUNK :])
    penalty = problem.prior.penalty(problem.weights(params), num_data=rows)
    return total - rows * penalty


class Tempered(eqx.Module):
    """``(log p(y | x, θ) + log p(θ)) / T`` of all rows, as a function of the parameters."""

    problem: Problem
    x: Any
    y: Any
    temperature: float = 1.0

    @property
    def scale(self) -> float:
        """What a value is divided by to be a loss per row."""
        return len(self.y) / self.temperature

    def __call__(self, params: PyTree) -> Float[Array, ""]:
        """The value up to a constant."""
        return log_joint(self.problem, self.x, self.y, params) / self.temperature
