"""Gauss-Newton matrix or empirical Fisher of all rows, block by block, in bounded memory.

``H = Σ_n J_nᵀ S_n S_nᵀ J_n``, a sum over rows, never a mean. ``kind`` says what ``S`` is: a root of
the likelihood's curvature ("ggn"), or the score, one column ("empirical_fisher"). Jacobians exist
for one block of rows at a time; blocks are summed on the host in double precision.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from credax.methods.laplace.layers import with_layers
from credax.methods.laplace.likelihood import curvature_root, log_likelihood, row_outputs
from credax.methods.laplace.subset import Subset, named, with_weights
from credax.network import Variables
from credax.problem import Problem
from credax.structure.linear_layers import LinearLayer

MOST_ROWS = 512


class Part(NamedTuple):
    """Raw rows of one block; ``weight`` is zero for rows that only fill it up."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray


def parts(x: np.ndarray, y: np.ndarray, rows: int) -> Iterator[Part]:
    """The data in blocks of equal size, so that one compiled program serves all."""
    rows = min(rows, len(x))
    for start in range(0, len(x), rows):
        chosen = np.minimum(np.arange(start, start + rows), len(x) - 1)
        weight = (np.arange(start, start + rows) < len(x)).astype(np.float32)
        yield Part(np.asarray(x[chosen]), np.asarray(y[chosen]), weight)


def rows_at_once(bytes_per_row: int, memory: float) -> int:
    """How many rows fit into a quarter of ``memory`` gigabytes, at least one."""
    return int(min(MOST_ROWS, max(1, 0.25e9 * memory // max(1, bytes_per_row))))


def jacobian(
    problem: Problem, variables: Variables, subset: Subset, row: Array
) -> tuple[Float[Array, " outputs"], Float[Array, "outputs params"]]:
    """One row's outputs, and their derivatives by the subset's weights."""
    weights = problem.weights(variables.params)

    def outputs(vector):
        moved = with_weights(problem, variables, subset.put(weights, vector))
        value = row_outputs(problem, moved, row)
        return value, value

    derivatives, value = jax.jacrev(outputs, has_aux=True)(subset.take(weights))
    return value, derivatives


def roots(problem, variables, subset, part: Part, kind: str) -> Float[Array, "rows columns params"]:
    """``Sᵀ J`` of each row of a block, zero for those that fill it up."""
    weights = problem.weights(variables.params)

    def one(row, y, weight):
        def outputs(vector):
            moved = with_weights(problem, variables, subset.put(weights, vector))
            return row_outputs(problem, moved, row)

        value, pull = jax.vjp(outputs, subset.take(weights))
        root = curvature_root(problem, variables, value, y, kind)
        return weight.astype(root.dtype) * jax.vmap(pull)(root.T)[0]

    return jax.vmap(one)(*problem.prepare(part.x, part.y, jnp.asarray(part.weight)))


@eqx.filter_jit
def _dense(
    problem, variables, subset: Subset, part: Part, sizes: tuple[int, ...], kind: str
) -> list[Array]:
    """``Σ Jᵀ S Sᵀ J`` of each consecutive piece of the subset; a negative size: its diagonal."""
    rows = roots(problem, variables, subset, part, kind)
    rows = rows.reshape(-1, rows.shape[-1])
    found, start = [], 0
    for size in sizes:
        piece = rows[:, start : start + abs(size)]
        found.append(piece.T @ piece if size > 0 else jnp.sum(jnp.square(piece), axis=0))
        start += abs(size)
    return found


def dense_sums(
    problem: Problem,
    variables: Variables,
    subset: Subset,
    sizes: tuple[int, ...],
    data,
    rows: int,
    kind: str = "ggn",
) -> list[np.ndarray]:
    """The curvature of consecutive pieces of a subset's vector, or its diagonal (size < 0)."""
    blocks = parts(data.x, data.y, rows)
    each = (_dense(problem, variables, subset, part, sizes, kind) for part in blocks)
    return summed(each)


@eqx.filter_jit
def _product(problem, variables, subset: Subset, part: Part, vector: Any, kind: str) -> Array:
    """``Σ Jᵀ S Sᵀ J v``, forwards and backwards through the network, without a Jacobian."""
    weights = problem.weights(variables.params)

    def outputs(free):
        moved = with_weights(problem, variables, subset.put(weights, free))
        x = problem.prepare_inputs(part.x)
        return jax.vmap(lambda row: row_outputs(problem, moved, row))(x)

    start = subset.take(weights)
    value, tangent = jax.jvp(outputs, (start,), (vector.astype(start.dtype),))
    y = problem.prepare(part.x, part.y).y
    root = jax.vmap(lambda o, y: curvature_root(problem, variables, o, y, kind))(value, y)
    weighted = jnp.einsum("rok,rpk,rp->ro", root, root, tangent)
    weighted = weighted * jnp.asarray(part.weight)[:, None].astype(weighted.dtype)
    return jax.vjp(outputs, start)[1](weighted)[0]


def curvature_product(
    problem: Problem,
    variables: Variables,
    subset: Subset,
    data,
    rows: int,
    vector: Any,
    kind: str = "ggn",
) -> np.ndarray:
    """The curvature times a vector, one pass over the data."""
    each = (
        [_product(problem, variables, subset, part, vector, kind)]
        for part in parts(data.x, data.y, rows)
    )
    return summed(each)[0]


class Opened(NamedTuple):
    """One row's outputs, and of each kernel its inputs and its output gradients."""

    outputs: Float[Array, " outputs"]
    inputs: dict[str, Float[Array, "positions inputs"]]
    gradients: dict[str, Float[Array, "columns positions outputs"]]


def opened(
    problem: Problem,
    variables: Variables,
    layers: dict[str, LinearLayer],
    joint: bool,
    row,
    root: Any,
) -> Opened:
    """Layer inputs and output gradients of one row.

    ``root(outputs)`` gives the columns whose gradients are wanted. With ``joint`` the inputs end
    with the number that multiplies the bias.
    """
    weights = problem.weights(variables.params)
    network = with_layers(problem, variables, layers)
    dtype = jax.tree.leaves(weights)[0].dtype
    outputs, pull, rows = jax.vjp(
        lambda perturbations: network(weights, row, perturbations),
        network.zeros(dtype),
        has_aux=True,
    )
    (gradients,) = jax.vmap(pull)(root(outputs).T)

    def inside(path):
        a, one = rows[path]
        if one is None or not joint or layers[path].bias is None:
            return a
        return jnp.concatenate([a, jnp.full((len(a), 1), one, a.dtype)], axis=1)

    return Opened(outputs, {path: inside(path) for path in layers}, gradients)


@eqx.filter_jit
def _factors(
    problem, variables, layers: dict[str, LinearLayer], joint: bool, part: Part, kind: str
) -> list[Array]:
    def one(row, y):
        root = lambda outputs: curvature_root(problem, variables, outputs, y, kind)  # noqa: E731
        return opened(problem, variables, layers, joint, row, root)

    batch = problem.prepare(part.x, part.y)
    rows = jax.vmap(one)(batch.x, batch.y)
    found = []
    for path in layers:
        a, g = rows.inputs[path], rows.gradients[path]
        weight = jnp.asarray(part.weight).astype(a.dtype)
        a = (a * weight[:, None, None]).reshape(-1, a.shape[-1])
        g = (g * weight[:, None, None, None]).reshape(-1, g.shape[-1])
        found += [a.T @ a, g.T @ g / layers[path].positions]
    return found


def kronecker_sums(
    problem: Problem,
    variables: Variables,
    layers: dict[str, LinearLayer],
    joint: bool,
    data,
    rows: int,
    kind: str = "ggn",
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """``A = (1/N) Σ_n Σ_t a aᵀ`` and ``G = Σ_n Σ_t g gᵀ / T`` of each kernel, over all rows.

    Both are summed over the whole data before they are multiplied: products of minibatch factors
    would not add up. Positions ``t = 1 .. T`` share the kernel (Grosse and Martens 2016).
    """
    blocks = parts(data.x, data.y, rows)
    sums = summed(_factors(problem, variables, layers, joint, part, kind) for part in blocks)
    return {p: (sums[2 * i] / len(data), sums[2 * i + 1]) for i, p in enumerate(layers)}


class Fit(NamedTuple):
    """How well the mode fits: both parts of its log-likelihood, and the gradient of the first."""

    varying: float
    constant: float
    gradient: dict[str, np.ndarray]


@eqx.filter_jit
def _fit(problem, variables, names: tuple[str, ...], part: Part) -> list[Array]:
    weights = problem.weights(variables.params)
    subset = Subset(names)

    def total(vector):
        moved = with_weights(problem, variables, subset.put(weights, vector))

        def one(row, y):
            outputs = row_outputs(problem, moved, row)
            return jnp.stack(log_likelihood(problem, moved, outputs, y))

        batch = problem.prepare(part.x, part.y)
        sums = jnp.asarray(part.weight) @ jax.vmap(one)(batch.x, batch.y)
        return sums[0], sums

    gradient, sums = jax.grad(total, has_aux=True)(subset.take(weights))
    return [sums, gradient]


def fit_of(problem: Problem, variables: Variables, names: tuple[str, ...], data) -> Fit:
    """The log-likelihood of all rows in standard units, and its gradient by named arrays."""
    blocks = parts(data.x, data.y, MOST_ROWS)
    sums, flat = summed(_fit(problem, variables, names, part) for part in blocks)
    arrays = named(problem.weights(variables.params))
    cuts = np.cumsum([arrays[name].size for name in names])[:-1]
    gradient = dict(zip(names, np.split(flat, cuts), strict=True))
    return Fit(float(sums[0]), float(sums[1]), gradient)


def summed(blocks) -> list[np.ndarray]:
    """Lists of arrays, one list per block, added up in double precision."""
    total: list[np.ndarray] | None = None
    for block in blocks:
        arrays = [np.asarray(array, np.float64) for array in block]
        total = arrays if total is None else [t + a for t, a in zip(total, arrays, strict=True)]
    assert total is not None
    return total
