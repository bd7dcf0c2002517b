"""The covariance of linearised outputs across rows, in bounded memory."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from credax.errors import InputError
from credax.methods.laplace.curvature import jacobian, opened
from credax.methods.laplace.likelihood import row_outputs
from credax.methods.laplace.plan import Plan
from credax.network import Variables
from credax.problem import Problem


@eqx.filter_jit
def half_jacobians(
    problem: Problem, plan: Plan, variables: Variables, factors, x
) -> tuple[Float[Array, "batch outputs"], Float[Array, "batch outputs params"]]:
    """Outputs, and ``J R`` of each row: products of these are covariances."""
    pairs = list(zip(plan.pieces, factors, strict=True))
    kernels = [factor for piece, factor in pairs if piece.kind == "kronecker"]
    others = [(piece, factor) for piece, factor in pairs if piece.kind != "kronecker"]

    def one(row):
        outputs, halves = row_outputs(problem, variables, row), []
        if kernels:
            unit = lambda o: jnp.eye(len(o), dtype=o.dtype)  # noqa: E731
            found = opened(problem, variables, plan.layers, plan.joint, row, unit)
            outputs = found.outputs
            for path, factor in zip(plan.layers, kernels, strict=True):
                whole = jnp.einsum("ti,cto->cio", found.inputs[path], found.gradients[path])
                halves.append(factor.half(whole.reshape(len(outputs), -1)))
        if others:
            outputs, rows = jacobian(problem, variables, plan.rest, row)
            start = 0
            for piece, factor in others:
                halves.append(factor.half(rows[:, start : start + piece.size]))
                start += piece.size
        return outputs, jnp.concatenate(halves, axis=-1)

    return jax.vmap(one)(problem.prepare_inputs(x))


@jax.jit
def joint_covariance(
    halves: Float[Array, "rows outputs params"],
) -> Float[Array, "rows outputs rows outputs"]:
    """``J(x_i) Σ J(x_j)ᵀ`` of every pair of rows."""
    rows, outputs, _ = halves.shape
    flat = halves.reshape(rows * outputs, -1)
    return (flat @ flat.T).reshape(rows, outputs, rows, outputs)


def check_joint_memory(plan: Plan, rows: int, modes: int, itemsize: int, memory: float) -> None:
    """Raise an error with the bytes needed if all pairs of rows are too many."""
    size, count = rows * plan.outputs, sum(piece.size for piece in plan.pieces)
    needed: Any = itemsize * (2 * size * count + (modes + 1) * size**2)
    if needed <= 1e9 * memory:
        return
    raise InputError(
        f"joint is True and {rows} rows with {plan.outputs} outputs and {count} parameters need "
        f"{needed / 1e9:.3g} GB where memory allows {memory:g} GB; give fewer rows, use "
        "joint=False, or allow more with Laplace(memory=...)"
    )
