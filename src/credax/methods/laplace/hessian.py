"""Second derivatives of the negative log-likelihood of all rows: matrix, diagonal, products.

``H = -Σ_n ∂² log p(y_n | x_n, θ) / ∂θ²``. Away from a minimum of the loss it may have negative
eigenvalues, which the Gauss-Newton matrix never has.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from credax.methods.laplace.curvature import Part, parts, summed
from credax.methods.laplace.likelihood import log_likelihood, row_outputs
from credax.methods.laplace.subset import Subset, with_weights
from credax.network import Variables
from credax.problem import Problem

# Columns of the matrix that one program computes side by side.
COLUMNS = 16


def _slope(problem, variables, subset: Subset, part: Part) -> Callable[[Array], Array]:
    """The gradient of a block's negative log-likelihood as a function of the subset's vector."""
    weights = problem.weights(variables.params)
    batch = problem.prepare(part.x, part.y)

    def loss(vector):
        moved = with_weights(problem, variables, subset.put(weights, vector))

        def one(row, y):
            return log_likelihood(problem, moved, row_outputs(problem, moved, row), y)[0]

        each = jax.vmap(one)(batch.x, batch.y)
        return -jnp.asarray(part.weight).astype(each.dtype) @ each

    return jax.grad(loss)


@eqx.filter_jit
def _columns(problem, variables, subset: Subset, part: Part, diagonal: bool) -> Array:
    """All columns of a block's matrix, or their entries on the diagonal."""
    slope = _slope(problem, variables, subset, part)
    start = subset.take(problem.weights(variables.params))

    def column(number):
        unit = jnp.zeros_like(start).at[number].set(1)
        found = jax.jvp(slope, (start,), (unit,))[1]
        return found[number] if diagonal else found

    return jax.lax.map(column, jnp.arange(len(start)), batch_size=COLUMNS)


@eqx.filter_jit
def _product(problem, variables, subset: Subset, part: Part, vector: Any) -> Array:
    start = subset.take(problem.weights(variables.params))
    slope = _slope(problem, variables, subset, part)
    return jax.jvp(slope, (start,), (jnp.asarray(vector, start.dtype),))[1]


def hessian_sums(
    problem: Problem, variables: Variables, subset: Subset, data, rows: int, *, diagonal: bool
) -> np.ndarray:
    """The matrix ``[params, params]`` over all rows, or its diagonal ``[params]``.

    Costs as many gradients as there are weights, forwards over backwards; no Jacobian is stored.
    """
    blocks = parts(data.x, data.y, rows)
    found = summed([_columns(problem, variables, subset, part, diagonal)] for part in blocks)[0]
    return found if diagonal else 0.5 * (found + found.T)


def hessian_product(
    problem: Problem, variables: Variables, subset: Subset, data, rows: int, vector: np.ndarray
) -> np.ndarray:
    """The matrix times a vector, one pass over the data."""
    blocks = parts(data.x, data.y, rows)
    return summed([_product(problem, variables, subset, part, vector)] for part in blocks)[0]
